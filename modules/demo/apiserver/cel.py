"""The ``x-kubernetes-validations`` of a schema: rules in CEL, and what they find."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from modules.demo.apiserver.cel_parser import Expression, UnsupportedRuleError, compiled
from modules.demo.apiserver.cel_values import CelError, Optional
from modules.demo.apiserver.kinds import Schema
from modules.demo.apiserver.schema import type_name
from modules.demo.apiserver.shaping import NOTHING, at, field_schema, join
from modules.demo.apiserver.status import Cause

_TOLD: Final = {
    "FieldValueForbidden": "Forbidden: {message}",
    "FieldValueRequired": "Required value: {message}",
    "FieldValueDuplicate": "Duplicate value: {value}",
    "FieldValueInvalid": "Invalid value: {value}: {message}",
}


class _Rule(NamedTuple):
    test: Expression
    message: Expression
    reason: str
    field: str
    compares: bool
    """It reads ``oldSelf``: a rule about changes."""
    optional_old: bool


class Rules:
    """The compiled rules of the schemas that a server serves."""

    def __init__(self, *schemas: Schema) -> None:
        """Raises ``ValueError`` for a rule that is not covered here: it would let through what a cluster refuses."""
        self._rules: dict[int, tuple[_Rule, ...]] = {}
        self._schemas = schemas
        for schema in schemas:
            self._compile(schema)

    def _compile(self, schema: Schema) -> bool:
        """Compile the rules in ``schema``; whether there are any at or below it."""
        try:
            own = tuple(_rule(one) for one in schema.get("x-kubernetes-validations", ()))
        except UnsupportedRuleError as error:
            raise ValueError(f"The embedded API server cannot judge a rule of the CRD: {error}") from error
        below = [self._compile(part) for part in _parts(schema)]
        if own or any(below):
            self._rules[id(schema)] = own
        return bool(own) or any(below)

    def any(self, schema: Schema) -> bool:
        """Whether the schema has rules, at any depth."""
        return id(schema) in self._rules

    def causes(self, value: Any, schema: Schema, old: Any = NOTHING, path: str = "") -> Iterator[Cause]:
        """What the rules find in ``value``; a part that is identical to its stored counterpart is not judged again."""
        if value is old or value is None:
            return
        known = self._rules.get(id(schema))
        if known is None and path:
            return
        for rule in known or ():
            yield from _judge(rule, value, old, path)
        if isinstance(value, dict):
            for key, child in value.items():
                child_schema = field_schema(schema, key)
                if child_schema is not None and id(child_schema) in self._rules:
                    yield from self.causes(child, child_schema, at(old, key), join(path, key))
        elif isinstance(value, list) and id(schema.get("items")) in self._rules:
            for i, item in enumerate(value):
                yield from self.causes(item, schema["items"], _counterpart(old, i, item, schema), f"{path}[{i}]")


def _parts(schema: Schema) -> Iterator[Schema]:
    yield from schema.get("properties", {}).values()
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield schema[name]


def _counterpart(old: Any, index: int, item: Any, schema: Schema) -> Any:
    """Only items of a list of type map have an old self; in others just an identical item counts as unchanged."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys:
        found = at(old, index)
        return found if found is item else NOTHING
    wanted = [item.get(key) for key in keys]
    return (
        next((one for one in old or () if [one.get(key) for key in keys] == wanted), NOTHING)
        if isinstance(old, list)
        else NOTHING
    )


def _rule(written: Schema) -> _Rule:
    test, reads = compiled(written["rule"])
    if written.get("messageExpression"):
        message, _ = compiled(written["messageExpression"])
    else:
        text = written.get("message") or f"failed rule: {written['rule'].strip()}"
        message = lambda _: text  # noqa: E731
    reason, field = written.get("reason") or "FieldValueInvalid", written.get("fieldPath", "")
    return _Rule(test, message, reason, field, "oldSelf" in reads, bool(written.get("optionalOldSelf")))


def _judge(rule: _Rule, value: Any, old: Any, path: str) -> Iterator[Cause]:
    absent = old is NOTHING
    if rule.compares and absent and not rule.optional_old:
        return
    variables = {"self": value}
    if rule.compares:
        variables["oldSelf"] = Optional(not absent, None if absent else old) if rule.optional_old else old
    try:
        if rule.test(variables) is True:
            return
        message = str(rule.message(variables))
    except CelError as error:
        message = f"rule evaluation error: {error}"
    told = _TOLD.get(rule.reason, _TOLD["FieldValueInvalid"]).format(message=message, value=f'"{type_name(value)}"')
    yield Cause(rule.reason, told, f"{path}{rule.field}")
