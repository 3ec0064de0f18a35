"""Names of images: tables, KubeEdge's own vectors, laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.errors import Refused
from modules.upgrader.images.reference import check_digest, parse_repository, tag_of, without_tag

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("", "docker.io/kubeedge/installation-package"),
        ("busybox", "docker.io/library/busybox"),
        (f"host:5000/a/b@{DIGEST}", "host:5000/a/b"),
        ("kubeedge/installation-package", "docker.io/kubeedge/installation-package"),
        ("kubeedge/installation-package:v1.10.0", "docker.io/kubeedge/installation-package"),
        (f"kubeedge/installation-package:v1.10.0@{DIGEST}", "docker.io/kubeedge/installation-package"),
        ("docker.io/busybox", "docker.io/library/busybox"),
        ("index.docker.io/a/b", "docker.io/a/b"),
        ("localhost/a", "localhost/a"),
        ("localhost:5000/a:latest", "localhost:5000/a"),
        ("registry.example.com/a/b/c", "registry.example.com/a/b/c"),
        ("REGISTRY.example/a", "registry.example/a"),
        ("[::1]:5000/a", "[::1]:5000/a"),
        ("127.0.0.1:5000/a__b/c-d--e.f", "127.0.0.1:5000/a__b/c-d--e.f"),
    ],
)
def test_images_are_normalised_as_docker_does(image: str, name: str) -> None:
    assert parse_repository(image).name == name


@pytest.mark.parametrize(
    "image",
    [
        "a//b", "/a", "a/", "_a/b", "a/B", "a/b c", "a/b;id", "../a", "a/../b", "a/..", "host:port/a", "a/b\n", "a/b\0",
        "http://h.example/a", "h.example/a?x=1", "h.example/a%2e", "user@h.example/a", "-h.example/a", "h..example/a",
        "٣/a", "a/" + "b" * 300, "$(id)/a", "h.example:123456/a", ":v1", "@",
    ],
)  # fmt: skip
def test_what_is_no_image_is_refused_in_a_sentence(image: str) -> None:
    with pytest.raises(Refused, match="is not the name of an image; write one like") as caught:
        parse_repository(image)
    assert "\n" not in caught.value.reason
    assert len(caught.value.reason) < 400


def test_docker_hub_is_spoken_to_at_its_own_address() -> None:
    assert parse_repository("a/b").address == "registry-1.docker.io"
    assert parse_repository("quay.io/a/b").address == "quay.io"


@pytest.mark.parametrize(
    ("version", "tag"),
    [
        ("v1.23.0", "v1.23.0"),
        ("1.12.1", "v1.12.1"),
        ("v1.30.4+k3s1", "v1.30.4-k3s1"),
        ("v1.31.0-rc1+k3s1", "v1.31.0-rc1-k3s1"),
        ("v1.23.1-acme.5", "v1.23.1-acme.5"),
        ("v1.22.0-beta.0.2+abcdef", "v1.22.0-beta.0.2-abcdef"),
    ],
)
def test_a_version_has_one_tag(version: str, tag: str) -> None:
    assert tag_of(version) == tag


@pytest.mark.parametrize(
    "version",
    ["", "latest", "v1", "v1.2", "v1.2.3/../x", "v1.2.3\n", "v1.2.3 ", "v١.2.3", "v1.2.3-" + "a" * 130, "vv1.2.3"],
)
def test_what_is_no_version_has_no_tag(version: str) -> None:
    with pytest.raises(Refused):
        tag_of(version)


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "a" * 64, "sha256:" + "a" * 63, "sha256:" + "g" * 64, "md5:" + "a" * 32, DIGEST + "\n"]
)
def test_only_sha256_digests_are_taken(digest: str) -> None:
    with pytest.raises(Refused, match="is not a digest"):
        check_digest(digest)
    assert check_digest(DIGEST.upper().replace("SHA", "sha")) == DIGEST


PART = st.from_regex(r"\A[a-z0-9]{1,8}([._-][a-z0-9]{1,8})?\Z")
HOST = st.from_regex(r"\A[a-z0-9]{1,8}\.[a-z]{2,5}(:[0-9]{2,4})?\Z")


@given(
    HOST,
    st.lists(PART, min_size=1, max_size=4),
    st.sampled_from(["", ":v1", ":v1.2.3-x", f"@{DIGEST}", f":v1@{DIGEST}"]),
)
def test_tag_and_digest_never_matter(host: str, parts: list[str], suffix: str) -> None:
    image = f"{host}/{'/'.join(parts)}"
    assert parse_repository(image + suffix).name == image
    assert parse_repository(parse_repository(image).name).name == image, "normalising twice changes nothing"


@given(st.text(max_size=80))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        repository = parse_repository(text)
    except Refused:
        return
    assert ".." not in repository.path.split("/")
    assert not set(repository.path) & set("?#%@ \\\n\0:")
    assert without_tag(repository.path) == repository.path
