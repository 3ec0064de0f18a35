"""Who a peer is: only what its certificate says."""

from typing import Any

import pytest

from beehive.errors import Refused
from modules.cloudhub.identity import check_claim, common_name, node_of


def subject(*pairs: tuple[str, str]) -> dict[str, Any]:
    """As `ssl` decodes it."""
    return {"subject": tuple((pair,) for pair in pairs)}


GOOD = subject(("organizationName", "system:nodes"), ("commonName", "system:node:edge-1"))


def test_a_node() -> None:
    assert node_of(GOOD) == "edge-1"
    assert node_of(subject(("countryName", "CN"), *(pair for (pair,) in GOOD["subject"]))) == "edge-1"


@pytest.mark.parametrize(
    "certificate",
    [
        None,
        {},
        subject(),
        subject(("commonName", "system:node:edge-1")),
        subject(("organizationName", "system:masters"), ("commonName", "system:node:edge-1")),
        subject(("organizationName", "system:nodes"), ("commonName", "edge-1")),
        subject(("organizationName", "system:nodes"), ("commonName", "system:node:")),
        subject(("organizationName", "system:nodes"), ("commonName", "")),
        subject(("organizationName", "system:nodes"), ("commonName", "system:node:../x")),
        subject(("organizationName", "system:nodes"), ("commonName", "system:node:edge-1\x00.evil")),
        subject(("organizationName", "system:nodes"), ("commonName", "system:node:a"), ("commonName", "system:node:b")),
        subject(("organizationName", "KubeEdge"), ("commonName", "kubeedge.io")),
    ],
)
def test_no_node(certificate: dict[str, Any] | None) -> None:
    with pytest.raises(Refused, match="its certificate"):
        node_of(certificate)


@pytest.mark.parametrize("claimed", ["", "edge-2", "edge-1 ", "EDGE-1", "edge-1\n", "x" * 10_000])
def test_what_it_calls_itself_must_agree(claimed: str) -> None:
    with pytest.raises(Refused) as refusal:
        check_claim("edge-1", claimed)
    assert len(refusal.value.reason) < 160
    check_claim("edge-1", "edge-1")


@pytest.mark.parametrize("node", ["", "A", "a b", "a/b", "a" * 53, "a" * 254, "..", "a\n", "system:node:x"])
def test_names_that_no_certificate_can_carry(node: str) -> None:
    with pytest.raises(Refused):
        common_name(node)


def test_the_longest_name() -> None:
    assert len(common_name("a" * 52)) == 64
