"""Which certificates count no more."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.errors import Refused
from modules.cloudhub import revocations
from modules.cloudhub.revocations import REVOKED, Revocation, Revocations

NOW = 1_800_000_000.5
NODES = st.sampled_from(["edge-a", "edge-b", "edge-c"])
MOMENTS = st.integers(0, 1 << 40)


def refused(list_: Revocations, node: str, begins: float) -> bool:
    try:
        list_.check(node, begins)
    except Refused:
        return True
    return False


def test_what_a_node_has_is_refused_and_what_it_gets_afterwards_is_not() -> None:
    revoked = Revocations().revoke("edge-a", NOW, "stolen")
    with pytest.raises(Refused, match="its certificate was revoked: stolen"):
        revoked.check("edge-a", NOW - 3600)
    assert refused(revoked, "edge-a", NOW)  # also what was given in this very second
    revoked.check("edge-a", revoked.not_before("edge-a"))
    revoked.check("edge-b", NOW - 3600)
    assert (revoked.not_before("edge-b"), len(revoked)) == (0.0, 1)


@settings(max_examples=50)
@given(st.lists(st.tuples(NODES, MOMENTS), max_size=10), NODES, MOMENTS)
def test_the_latest_revocation_of_a_node_counts_in_any_order(
    entries: list[tuple[str, int]], node: str, begins: int
) -> None:
    made = Revocations(tuple(Revocation(*entry) for entry in entries))
    again = revocations.read(revocations.write(Revocations(tuple(Revocation(*entry) for entry in reversed(entries)))))
    latest = max((before for name, before in entries if name == node), default=0)
    assert refused(made, node, begins) == refused(again, node, begins) == (begins < latest)
    assert [one.before for one in made.all()] == [one.before for one in again.all()]


def test_no_secret_revokes_nothing() -> None:
    assert revocations.read({}).all() == ()


@pytest.mark.parametrize("data", [b"", b"{", b"null", b'[{"node": 1}]', b'[{"node":"a"}]', b"[" * 100_000, b"\xff"])
def test_a_damaged_list_is_not_an_empty_one(data: bytes) -> None:
    with pytest.raises(Refused, match="the list of revoked certificates cannot be read"):
        revocations.read({REVOKED: data})
