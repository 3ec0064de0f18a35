"""Which of an index' manifests is ours, and whether an image is what its labels say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.errors import Refused
from modules.upgrader.images.manifest import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    Descriptor,
    Index,
    Platform,
    acceptable,
    architecture_of,
    choose,
    read_document,
)
from modules.upgrader.images.request import Limits


def entry(platform: str, media_type: str = MANIFEST_TYPES[0]) -> Descriptor:
    """`os/architecture/variant` as a descriptor whose digest is that text; "" has no platform."""
    system, architecture, variant = [*platform.split("/"), "", ""][:3]
    return Descriptor(media_type, platform, 1, Platform(architecture, system, variant) if platform else None)


CHOICES = [
    ("amd64", "linux/arm64 linux/amd64", "linux/amd64"),
    ("amd64", "linux/amd64/v3 linux/amd64", "linux/amd64"),
    ("amd64", "linux/amd64/v1", "linux/amd64/v1"),
    ("amd64", "linux/amd64/v2", None),
    ("amd64/v3", "linux/amd64 linux/amd64/v2 linux/amd64/v4", "linux/amd64/v2"),
    ("arm64", "linux/arm64/v8", "linux/arm64/v8"),
    ("arm64", "linux/arm64", "linux/arm64"),
    ("arm64", "linux/arm64/v9 linux/arm/v7", None),
    ("arm64/v8", "linux/arm64", "linux/arm64"),
    ("arm/v7", "linux/arm/v5 linux/arm/v6 linux/arm/v7", "linux/arm/v7"),
    ("arm/v7", "linux/arm/v5 linux/arm/v6", "linux/arm/v6"),
    ("arm/v7", "linux/arm", "linux/arm"),
    ("arm", "linux/arm/v7", "linux/arm/v7"),
    ("arm/v6", "linux/arm/v7", None),
    ("arm/v6", "linux/arm", None),
    ("arm/v6", "linux/arm/v5 linux/arm/v6", "linux/arm/v6"),
    ("arm/v7", "linux/arm/v8 linux/arm64", None),
    ("amd64", "windows/amd64", None),
    ("amd64", "unknown/unknown linux/amd64", "linux/amd64"),
    ("amd64", "", None),
    ("riscv64", "linux/riscv64", "linux/riscv64"),
    ("s390x", "linux/s390x linux/amd64", "linux/s390x"),
]


@pytest.mark.parametrize(("architecture", "there", "chosen"), CHOICES)
def test_the_most_fitting_platform_is_chosen(architecture: str, there: str, chosen: str | None) -> None:
    for entries in (there.split(" "), there.split(" ")[::-1]):
        index = Index(tuple(entry(platform) for platform in entries))
        if chosen is None:
            with pytest.raises(Refused, match=f"is not built for {architecture}, only for "):
                choose(index, architecture)
        else:
            assert choose(index, architecture).digest == chosen


def test_the_first_of_two_equals_is_chosen() -> None:
    first, second = entry("linux/amd64"), Descriptor(MANIFEST_TYPES[0], "other", 2, Platform("amd64", "linux"))
    assert choose(Index((first, second)), "amd64") is first


def test_entries_that_are_no_images_are_passed_over() -> None:
    index = Index((entry("linux/amd64", "application/vnd.in-toto+json"), entry("linux/amd64")))
    assert choose(index, "amd64") is index.manifests[1]


@given(st.sampled_from(["amd64", "arm64", "arm/v5", "arm/v6", "arm/v7", "arm", "386", "riscv64"]))
def test_an_architecture_runs_itself_first(architecture: str) -> None:
    best = acceptable(architecture)
    assert best[0][0] == architecture.partition("/")[0]
    assert len(set(best)) == len(best)


@pytest.mark.parametrize(
    ("kernel", "architecture"),
    [("x86_64", "amd64"), ("aarch64", "arm64"), ("armv7l", "arm/v7"), ("armv6l", "arm/v6"), ("riscv64", "riscv64")],
)
def test_the_kernels_names(kernel: str, architecture: str) -> None:
    assert architecture_of(kernel) == architecture


def test_a_machine_without_images_is_refused() -> None:
    with pytest.raises(Refused, match="Machine 'vax' is none that images are built for"):
        architecture_of("vax")


@pytest.mark.parametrize("declared", ["", "application/octet-stream", *INDEX_TYPES])
def test_indexes_of_both_families(declared: str) -> None:
    assert isinstance(read_document(b'{"manifests": []}', declared), Index)


@pytest.mark.parametrize("declared", MANIFEST_TYPES)
def test_a_document_under_the_other_kinds_name_is_refused(declared: str) -> None:
    with pytest.raises(Refused, match="not what its media type says"):
        read_document(b'{"manifests": []}', declared)
    body = f'{{"manifests": [], "mediaType": "{declared}"}}'.encode()
    with pytest.raises(Refused, match="not what its media type says"):
        read_document(body)


@given(st.binary(max_size=60) | st.sampled_from([b"{}", b"null", b"[]", b'{"layers": null}', b'{"manifests": [{}]}']))
def test_any_bytes_are_a_document_or_refused(body: bytes) -> None:
    try:
        read_document(body)
    except Refused as refused:
        assert refused.reason.startswith("The image")  # noqa: PT017 - both outcomes are right


def test_limits_are_those_of_a_small_host() -> None:
    assert Limits().unpacked > Limits().download > Limits().file > Limits().document
