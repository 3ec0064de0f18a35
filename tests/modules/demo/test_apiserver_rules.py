"""Rules of the embedded API server: schemas, CEL, cells, selectors, history."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.demo.apiserver import cells, shaping
from modules.demo.apiserver.cel import Rules
from modules.demo.apiserver.cel_parser import UnsupportedRuleError, compiled
from modules.demo.apiserver.cel_values import CelError, Optional
from modules.demo.apiserver.equality import same
from modules.demo.apiserver.history import Change, History, Stored
from modules.demo.apiserver.schema import causes
from modules.demo.apiserver.status import Refusal
from tests.contracts.rollout import CRD

SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
TEXT = st.sampled_from(["", "a", "v1.2", "Skip", "x-1"])
_KEYS = [
    "spec",
    "status",
    "version",
    "names",
    "concurrency",
    "offline",
    "nested",
    "deep",
    "free",
    "maybe",
    "tags",
    "zzz",
]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 200) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_shaping_is_idempotent_and_does_not_depend_on_what_was_stored(value: Any, old: Any) -> None:
    stored = shaping.default(shaping.prune(old, SCHEMA), SCHEMA)
    shaped = shaping.default(shaping.prune(value, SCHEMA), SCHEMA)
    assert shaping.default(shaping.prune(shaped, SCHEMA), SCHEMA) is shaped
    grafted = shaping.graft(value, stored)
    assert same(shaping.default(shaping.prune(grafted, SCHEMA, stored), SCHEMA, stored), shaped)


@given(VALUES)
def test_a_value_has_no_faults_beside_itself(value: Any) -> None:
    assert list(causes(value, SCHEMA, value)) == []


@given(VALUES, VALUES)
def test_only_changed_parts_are_faulted(value: Any, old: Any) -> None:
    grafted = shaping.graft(value, old)
    assert set(causes(grafted, SCHEMA, old)) <= set(causes(value, SCHEMA))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3 - 4", 3), ("(1 + 2) * 3", 9), ("-7 / 2", -3), ("-7 % 2", -1), ("7.0 / 2.0", 3.5),
        ("'a' + \"b\"", "ab"),
        ("1 == 1.0", True), ("true == 1", False), ("[1, 2] == [1, 2]", True), ("'a' < 'b'", True),
        ("2 in [1, 2]", True),
        ("'k' in self", True), ("!true || true", True), ("true ? 1 : 2", 1),
        ("self.k.size() == 2 && size(self.k) == 2", True),
        ("has(self.k)", True), ("has(self.z)", False), ("has(self.deep.z)", False), ("self.deep.a", "x"),
        ("self['k'][1]", 4),
        ("self.?z.orValue(5)", 5), ("self.?k.orValue([])", [3, 4]), ("self.?deep.?z.hasValue()", False),
        ("self.k.all(x, x > 2)", True), ("self.k.exists(x, x == 4)", True), ("self.k.exists_one(x, x > 2)", False),
        ("self.k.filter(x, x > 3)", [4]), ("self.k.map(x, x * 2)", [6, 8]), ("self.deep.all(key, key == 'a')", True),
        ("'v1.2'.matches('^v[0-9]+\\\\.[0-9]+$')", True), ("'v1.2\\n'.matches('^v1.2$')", False),
        (r"'a.b'.matches(r'a\.b')", True),
        ("'abc'.startsWith('ab') && 'abc'.endsWith('bc') && 'abc'.contains('b')", True), ("int('5') + 1", 6),
        ("string(5) + string(true)", "5true"), ("self.missing == 1 || true", True),
        ("true || self.missing == 1", True),
        ("self.missing == 1 && false", False), ("'it\\'s'", "it's"), ("1 != 2 && !(2 < 1) && 2 >= 2 && 1 <= 1", True),
    ],
)  # fmt: skip
def test_cel(expression: str, expected: Any) -> None:
    evaluate, _ = compiled(expression)
    assert same(evaluate({"self": {"k": [3, 4], "deep": {"a": "x"}}}), expected)


@pytest.mark.parametrize(
    "expression",
    ["self.missing", "self.k[7]", "1 / 0", "1 + 'a'", "1 < 'a'", "1 && true", "self.missing || false", "size(1)",
     "'a'.matches(1)",
     "int('x')", "self.?z.value()", "1 in 2", "!1"],
)  # fmt: skip
def test_cel_that_has_no_value(expression: str) -> None:
    evaluate, _ = compiled(expression)
    with pytest.raises(CelError):
        evaluate({"self": {"k": [1]}})


@pytest.mark.parametrize(
    "expression",
    ["", "1 +", "self.", "self.frobnicate()", "frobnicate(1)", "a b", "has(1)", "self.all(x)", "'open", "1 = 1",
     "#", "(1", "[1"],
)  # fmt: skip
def test_cel_that_is_not_covered_is_refused_when_it_is_read(expression: str) -> None:
    with pytest.raises(UnsupportedRuleError):
        compiled(expression)


def test_which_variables_a_rule_reads() -> None:
    assert compiled("self.a == oldSelf.a")[1] == {"self", "oldSelf"}
    assert compiled("self.all(oldSelf, oldSelf > 1)")[1] == {"self"}


def test_a_rule_with_an_optional_old_self_is_judged_at_creation() -> None:
    rule = {"rule": "oldSelf.hasValue() || self > 1", "optionalOldSelf": True, "message": "m"}
    schema = {"properties": {"a": {"type": "integer", "x-kubernetes-validations": [rule]}}}
    rules = Rules(schema)
    assert len(list(rules.causes({"a": 1}, schema))) == 1
    assert list(rules.causes({"a": 1}, schema, {"a": 2})) == []
    assert Optional(True, 1).present


def test_a_rule_does_not_judge_again_what_is_stored() -> None:
    rule = {"rule": "self.n > 1", "message": "too small"}
    part = {"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [rule]}
    schema = {"properties": {"a": part, "b": part}}
    old = {"a": {"n": 0}, "b": {"n": 5}}
    found = list(Rules(schema).causes({"a": old["a"], "b": {"n": 0}}, schema, old))
    assert [cause.field for cause in found] == ["b"]


def test_a_rule_of_items_finds_the_old_item_by_its_key() -> None:
    item = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.n >= oldSelf.n", "message": "shrinks"}],
    }
    schema = {
        "properties": {"l": {"items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}}
    }
    old = {"l": [{"name": "a", "n": 5}, {"name": "b", "n": 1}]}
    found = list(
        Rules(schema).causes({"l": [{"name": "b", "n": 2}, {"name": "a", "n": 4}, {"name": "c", "n": 0}]}, schema, old)
    )
    assert [cause.field for cause in found] == ["l[1]"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"), (600, "10m"), (659, "10m"),
        (10799, "179m"), (10800, "3h"),
        (10860, "3h1m"), (28799, "7h59m"), (28800, "8h"), (172799, "47h"), (172800, "2d"), (180000, "2d2h"),
        (691200, "8d"),
        (63072000, "2y"), (63158400, "2y1d"), (252288000, "8y"),
    ],
)  # fmt: skip
def test_ages(seconds: int, told: str) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert cells.age((now - timedelta(seconds=seconds)).isoformat(), now) == told


def test_ages_that_are_none() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert cells.age("soon", now) == "<invalid>"
    assert cells.age((now + timedelta(hours=1)).isoformat(), now) == "<invalid>"
    assert cells.age((now + timedelta(seconds=1)).isoformat(), now) == "0s"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]), (".l[0].n", ["x"]), (".l[-1].n", ["y"]), (".l[*].n", ["x", "y"]), ('.l[?(@.n=="y")].v', [2]),
        (".l[9].n", []),
        (".a['b']", [1]), (".z.b", []), (".a.b.c", []), (".l[?(@.n=='z')].v", []),
    ],
)  # fmt: skip
def test_jsonpath(path: str, found: list[Any]) -> None:
    value = {"a": {"b": 1}, "l": [{"n": "x", "v": 1}, {"n": "y", "v": 2}]}
    assert list(cells.select(cells.steps(path), value)) == found


@pytest.mark.parametrize("path", ["a", ".a..b", ".l[?(@.n>1)]", ".a.", "$.a"])
def test_jsonpath_that_is_not_covered(path: str) -> None:
    with pytest.raises(ValueError, match="JSONPath"):
        cells.steps(path)


@given(st.integers(1, 6), st.integers(0, 20), st.integers(0, 25))
def test_a_reader_of_history_gets_every_change_or_is_told_that_it_cannot(length: int, changes: int, since: int) -> None:
    history = History(length)
    for version in range(1, changes + 1):
        history.record(Change(version, None, Stored(version, {})))
    expected = list(range(since + 1, changes + 1))
    if len(expected) > length:
        with pytest.raises(Refusal) as refused:
            history.since(since)
        assert refused.value.code == 410
    else:
        assert [change.version for change in history.since(since)] == expected
