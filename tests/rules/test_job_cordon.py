"""The one rule of cordons, on every end; and what it does to a node's flag and annotations."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.api.node import CORDON, HISTORY, KEEP_CORDONED, Cordon, Node
from modules.demo.apiserver.patch_json import apply
from modules.taskmanager.cordon import Change, Owner, Patch, cordon_of, is_ours, late_history, patch_of, stands
from tests.fakes.jobs import NEW, OLD, a_node

OWNER = Owner(job="north", uid="uid-north", attempt=1, from_version=OLD)
SOUTH = Owner(job="south", uid="uid-south", attempt=1, from_version=NEW)
WON = Change(OLD, NEW)


def patched(node: Node, operations: Patch) -> Node:
    """As the API server applies it; a flag that is false is not there."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(node))
    changed = apply(plain, msgspec.json.decode(msgspec.json.encode(operations)))
    return msgspec.convert(changed, Node)


def cordoned(node: Node, owner: Owner = OWNER) -> Node:
    return patched(node, patch_of(node, owner, None))


def history(node: Node) -> str:
    return (node.metadata.annotations or {}).get(HISTORY, "")


def test_node_is_cordoned_with_the_reason_and_the_former_value() -> None:
    node = cordoned(a_node("a"))
    assert node.spec.unschedulable
    held = cordon_of(node)
    assert held == Cordon(job="north", uid="uid-north", attempt=1, was_unschedulable=False, from_version=OLD)
    assert stands(node, OWNER)
    assert not stands(node, SOUTH)
    assert patch_of(node, OWNER, None) == (), "once"


def test_undo_brings_back_what_was_and_tells_the_history_in_one_patch() -> None:
    before = a_node("a", annotations={"kept": "x"})
    node = cordoned(before)
    after = patched(node, patch_of(node, None, WON))
    assert after.spec == before.spec
    assert after.metadata.annotations == {"kept": "x", HISTORY: f"{OLD}->{NEW}"}
    assert patch_of(after, None, WON) == (), "once"


def test_failure_leaves_no_history() -> None:
    node = cordoned(a_node("a"))
    after = patched(node, patch_of(node, None, None))
    assert (after.spec.unschedulable, history(after), is_ours(after)) == (False, "", False)


def test_administrators_cordon_stays() -> None:
    node = cordoned(a_node("a", cordoned=True))
    assert node.spec.unschedulable
    after = patched(node, patch_of(node, None, None))
    assert (after.spec.unschedulable, is_ours(after)) == (True, False)


def test_uncordon_during_the_job_is_respected() -> None:
    node = cordoned(a_node("a"))
    opened = msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=False))
    assert stands(opened, OWNER)
    assert patch_of(opened, OWNER, None) == ()
    assert not patched(opened, patch_of(opened, None, None)).spec.unschedulable


def test_administrators_uncordon_of_his_own_cordon_is_respected() -> None:
    node = cordoned(a_node("a", cordoned=True))
    opened = msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=False))
    assert not patched(opened, patch_of(opened, None, None)).spec.unschedulable


def test_keep_cordoned_is_respected() -> None:
    node = cordoned(a_node("a", annotations={KEEP_CORDONED: ""}))
    after = patched(node, patch_of(node, None, WON))
    assert (after.spec.unschedulable, is_ours(after), history(after)) == (True, False, f"{OLD}->{NEW}")


def test_node_without_any_annotation() -> None:
    bare = a_node("a", annotations=None)
    node = cordoned(bare)
    assert stands(node, OWNER)
    assert late_history(bare, WON)[0].value == {}
    assert history(patched(bare, late_history(bare, WON))) == f"{OLD}->{NEW}"


def test_next_attempt_takes_the_cordon_over_with_the_first_former_value() -> None:
    node = cordoned(a_node("a"))
    again = Owner(job="north", uid="uid-north", attempt=2, from_version=OLD)
    taken = patched(node, patch_of(node, again, None))
    assert stands(taken, again)
    assert not patched(taken, patch_of(taken, None, None)).spec.unschedulable


def test_next_job_takes_the_cordon_over_and_the_former_success_is_told() -> None:
    node = cordoned(a_node("a"))
    taken = patched(node, patch_of(node, SOUTH, WON))
    assert (stands(taken, SOUTH), history(taken)) == (True, f"{OLD}->{NEW}")
    assert not patched(taken, patch_of(taken, None, None)).spec.unschedulable


def test_next_job_finds_a_node_that_was_uncordoned_and_cordons_it_anew() -> None:
    node = cordoned(a_node("a", cordoned=True))
    opened = msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=False))
    taken = cordoned(opened, SOUTH)
    assert taken.spec.unschedulable
    assert not patched(taken, patch_of(taken, None, None)).spec.unschedulable


@pytest.mark.parametrize(
    "text", ["", "{}", "not json", '{"job":1}', "\ud800", '{"uid":"x","attempt":99999999999999999999}']
)
def test_annotation_that_cannot_be_read_is_taken_off_and_the_flag_left(text: str) -> None:
    node = a_node("a", cordoned=True, annotations={CORDON: text})
    assert cordon_of(node) is None
    assert is_ours(node)
    operations = patch_of(node, None, None)
    assert [(one.op, one.path) for one in operations] == [("remove", "/metadata/annotations/beehive~1cordon")]


def test_deleted_node_has_nothing_to_cordon() -> None:
    assert stands(None, OWNER)


def test_history_keeps_ten() -> None:
    node = a_node("a", annotations={HISTORY: ";".join(f"v{n}->v{n + 1}" for n in range(12))})
    found = history(patched(node, late_history(node, WON))).split(";")
    assert (len(found), found[-1], found[0]) == (10, f"{OLD}->{NEW}", "v3->v4")


owners = st.sampled_from([None, OWNER, SOUTH, Owner("north", "uid-north", 2, OLD)])


@given(was=st.booleans(), steps=st.lists(owners, max_size=6))
def test_flag_ends_as_it_began_after_any_owners(was: bool, steps: list[Owner | None]) -> None:
    node = a_node("a", cordoned=was)
    for owner in steps:
        node = patched(node, patch_of(node, owner, None))
        assert patch_of(node, owner, None) == (), "one patch is enough"
        if owner is not None:
            assert node.spec.unschedulable
    node = patched(node, patch_of(node, None, None))
    assert (node.spec.unschedulable, is_ours(node)) == (was, False)
