"""Laws of the embedded API server's patches."""

import copy
from typing import Any

import jsonpatch
import jsonpointer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.demo.apiserver import patch_json, patch_merge
from modules.demo.apiserver.equality import same
from modules.demo.apiserver.shaping import graft

KEYS = st.sampled_from(["a", "b", "c/d", "e~f", "0"])
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x"])


def _values(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)

    return st.recursive(scalars, containers, max_leaves=8)


VALUES = _values(SCALARS)
DOCUMENTS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=3)
PLAIN = _values(st.integers(-2, 2))
"""Without null, booleans and strings: Python's library looks into strings, counts true as 1, finds null anywhere."""
POINTERS = st.lists(st.sampled_from(["a", "b", "c~1d", "e~0f", "0", "1", "-"]), min_size=1, max_size=3).map(
    lambda tokens: "/" + "/".join(tokens)
)


def _operations(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    valued = st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "replace", "test"]), "path": POINTERS, "value": values}
    )
    moved = st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "path": POINTERS, "from": POINTERS})
    removed = st.fixed_dictionaries({"op": st.just("remove"), "path": POINTERS})
    return st.lists(valued | moved | removed, min_size=1, max_size=3)


OPERATIONS = _operations(VALUES)


@given(st.dictionaries(KEYS, PLAIN, min_size=1, max_size=3), _operations(PLAIN))
def test_what_rfc_6902_allows_ends_as_another_implementation_says(document: Any, operations: Any) -> None:
    into_itself = any(one["op"] == "move" and one["path"].startswith(one["from"]) for one in operations)
    try:
        expected = jsonpatch.apply_patch(copy.deepcopy(document), copy.deepcopy(operations))
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, AttributeError):
        return  # what is not allowed there may be allowed here: the contract with kube-apiserver says what
    if not into_itself:
        assert same(patch_json.apply(document, operations), expected)


@given(DOCUMENTS, OPERATIONS)
def test_the_document_stays_as_it_was(document: Any, operations: Any) -> None:
    before = copy.deepcopy(document)
    try:
        patch_json.apply(document, operations)
    except patch_json.PatchError:
        pass
    finally:
        assert same(document, before)


def test_what_is_not_on_the_path_stays_the_identical_object() -> None:
    document: Any = {"spec": {"x": [1]}, "status": {"nodes": [{"n": 1}, {"n": 2}, {"n": 3}]}}
    changed = patch_json.apply(document, [{"op": "replace", "path": "/status/nodes/1/n", "value": 9}])
    assert changed["spec"] is document["spec"]
    assert [new is old for new, old in zip(changed["status"]["nodes"], document["status"]["nodes"], strict=True)] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("index", ["01x", "+1", "٣", "1.0", "", " 1", "--1", "-"])
def test_an_index_is_a_plain_number(index: str) -> None:
    with pytest.raises(patch_json.PatchError):
        patch_json.apply({"a": [1, 2, 3, 4]}, [{"op": "replace", "path": f"/a/{index}", "value": 0}])


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_as_in_the_appendix_of_rfc_7386(document: Any, patch: Any, expected: Any) -> None:
    assert same(patch_merge.merge(document, patch), expected)


@given(VALUES, VALUES)
def test_merge_is_idempotent(document: Any, patch: Any) -> None:
    once = patch_merge.merge(document, patch)
    assert same(patch_merge.merge(once, patch), once)


KEYED = {"items": "name", "set": "", "items.inner": "id"}


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        (
            {"items": [{"name": "a", "x": 1}]},
            {"items": [{"name": "a", "y": 2}]},
            {"items": [{"name": "a", "x": 1, "y": 2}]},
        ),
        ({"items": [{"name": "a"}]}, {"items": [{"name": "b"}]}, {"items": [{"name": "a"}, {"name": "b"}]}),
        ({"items": [{"name": "a"}]}, {"items": [{"$patch": "replace"}, {"name": "b"}]}, {"items": [{"name": "b"}]}),
        (
            {"items": [{"name": "a"}, {"name": "b"}]},
            {"items": [{"name": "a", "$patch": "delete"}]},
            {"items": [{"name": "b"}]},
        ),
        ({"items": [{"name": "a"}]}, {"items": [{"name": "z", "$patch": "delete"}]}, {"items": [{"name": "a"}]}),
        (
            {"items": [{"name": "a", "inner": [{"id": 1}]}]},
            {"items": [{"name": "a", "inner": [{"id": 2}]}]},
            {"items": [{"name": "a", "inner": [{"id": 1}, {"id": 2}]}]},
        ),
        (
            {"items": [{"name": "a"}, {"name": "b"}]},
            {"$setElementOrder/items": [{"name": "b"}, {"name": "a"}], "items": [{"name": "a", "x": 1}]},
            {"items": [{"name": "b"}, {"name": "a", "x": 1}]},
        ),
        ({"set": ["a"]}, {"set": ["b", "a"]}, {"set": ["a", "b"]}),
        ({"set": ["a", "b"]}, {"$deleteFromPrimitiveList/set": ["a"]}, {"set": ["b"]}),
        ({"map": {"a": 1, "b": 2}}, {"map": {"$retainKeys": ["b"], "b": 3}}, {"map": {"b": 3}}),
        ({"map": {"a": 1}}, {"map": {"$patch": "delete"}}, {"map": {}}),
        ({"atomic": [1]}, {"atomic": [2]}, {"atomic": [2]}),
    ],
    ids=str,
)  # fmt: skip
def test_strategic_merge(document: Any, patch: Any, expected: Any) -> None:
    found = patch_merge.strategic(document, patch, KEYED)
    key = "$setElementOrder/items"
    assert {name: value for name, value in found.items() if name != key} == expected


@pytest.mark.parametrize(
    "patch",
    [
        {"items": [{"x": 1}]},
        {"items": ["a"]},
        {"map": {"$patch": "explode"}},
        {"$deleteFromPrimitiveList/set": "a"},
        {"$setElementOrder/items": 5},
        {"map": {"$retainKeys": 7}},
    ],
    ids=str,
)
def test_strategic_merge_that_makes_no_sense(patch: Any) -> None:
    with pytest.raises(patch_merge.MergeError):
        patch_merge.strategic({"items": [{"name": "a"}], "set": ["b"], "map": {"a": 1}}, patch, KEYED)


@given(VALUES, VALUES)
def test_graft_changes_no_value_and_finds_every_equal_part(value: Any, old: Any) -> None:
    grafted = graft(value, old)
    assert same(grafted, value)
    assert (grafted is old) == same(value, old) or not isinstance(old, dict | list)
