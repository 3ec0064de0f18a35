"""CEL expressions, compiled to functions of their variables.

Covered: literals, lists, ``? :``, ``|| && !``, comparisons, ``in``, arithmetic, fields, indices, optional fields,
``has()``, the macros ``all exists exists_one filter map`` and the functions of ``cel_values``. Anything else is refused
when it is compiled, not when it runs.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from modules.demo.apiserver import cel_values as values
from modules.demo.apiserver.cel_values import CelError

Variables = Mapping[str, Any]
Expression = Callable[[Variables], Any]

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<raw>r'[^']*'|r"[^"]*")|(?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<mark>\|\||&&|==|!=|<=|>=|\.\?|[-+*/%<>!?:()\[\].,]))"""
)
_MACROS: Final = frozenset({"all", "exists", "exists_one", "filter", "map"})
_CONSTANTS: Final = {"true": True, "false": False, "null": None}


class UnsupportedRuleError(Exception):
    """The expression is no CEL, or CEL that is not covered."""


def compiled(text: str) -> tuple[Expression, frozenset[str]]:
    """The expression and the variables that it reads. Raises `UnsupportedRuleError`."""
    parser = _Parser(text)
    expression = parser.ternary()
    parser.expect("")
    return expression, frozenset(parser.read)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._place = 0
        self.read: set[str] = set()

    def _peek(self) -> str:
        return self._tokens[self._place][1]

    def _take(self, *wanted: str) -> str:
        """The next token if it is one of ``wanted``, else nothing."""
        kind, token = self._tokens[self._place]
        if kind in {"mark", "name"} and token in wanted:
            self._place += 1
            return token
        return ""

    def expect(self, token: str) -> None:
        """The next token must be this one; empty: the end."""
        if self._tokens[self._place][1] != token:
            raise self._unsupported(f"expected {token or 'the end'}")
        self._place += 1

    def _unsupported(self, why: str) -> UnsupportedRuleError:
        return UnsupportedRuleError(f"{why} before {self._peek() or 'the end'!r} in the rule {self._text!r}")

    def ternary(self) -> Expression:
        condition = self._or()
        if not self._take("?"):
            return condition
        first = self.ternary()
        self.expect(":")
        second = self.ternary()
        return lambda v: first(v) if values.truth(condition(v)) else second(v)

    def _or(self) -> Expression:
        left = self._and()
        while self._take("||"):
            left = _absorbing(left, self._and(), decides=True)
        return left

    def _and(self) -> Expression:
        left = self._relation()
        while self._take("&&"):
            left = _absorbing(left, self._relation(), decides=False)
        return left

    def _relation(self) -> Expression:
        left = self._sum()
        while operator := self._take("==", "!=", "<", "<=", ">", ">=", "in"):
            left = _related(operator, left, self._sum())
        return left

    def _sum(self) -> Expression:
        left = self._product()
        while operator := self._take("+", "-"):
            left = _computed(operator, left, self._product())
        return left

    def _product(self) -> Expression:
        left = self._unary()
        while operator := self._take("*", "/", "%"):
            left = _computed(operator, left, self._unary())
        return left

    def _unary(self) -> Expression:
        if self._take("!"):
            inner = self._unary()
            return lambda v: not values.truth(inner(v))
        if self._take("-"):
            inner = self._unary()
            return lambda v: values.arithmetic("-", 0, inner(v))
        return self._member()

    def _member(self) -> Expression:
        target = self._primary()
        while mark := self._take(".", ".?", "["):
            target = self._index(target) if mark == "[" else self._field(target, mark)
        return target

    def _index(self, target: Expression) -> Expression:
        index = self.ternary()
        self.expect("]")
        return lambda v: values.select(target(v), index(v))

    def _field(self, target: Expression, mark: str) -> Expression:
        kind, name = self._tokens[self._place]
        if kind != "name":
            raise self._unsupported("expected a field")
        self._place += 1
        if mark == ".?":
            return lambda v: values.select_optional(target(v), name)
        if not self._take("("):
            return _Selection(target, name)
        return self._macro(target, name) if name in _MACROS else self._call(values.METHODS, name, [target])

    def _call(self, known: Mapping[str, Callable[..., Any]], name: str, arguments: list[Expression]) -> Expression:
        function = known.get(name)
        if function is None:
            raise self._unsupported(f"the function {name} is not covered")
        while not self._take(")"):
            arguments.append(self.ternary())
            self._take(",")
        return lambda v: function(*(argument(v) for argument in arguments))

    def _macro(self, target: Expression, name: str) -> Expression:
        kind, variable = self._tokens[self._place]
        if kind != "name":
            raise self._unsupported("expected a variable")
        self._place += 1
        self.expect(",")
        body = self.ternary()
        self.expect(")")
        self.read.discard(variable)
        return _over(name, target, variable, body)

    def _primary(self) -> Expression:
        kind, token = self._tokens[self._place]
        self._place += 1
        if kind == "mark" and token in {"(", "["}:
            return self._enclosed(token)
        if kind in {"number", "string", "raw"}:
            literal = _literal(kind, token)
            return lambda v: literal
        if kind != "name":
            self._place -= 1
            raise self._unsupported("expected a value")
        if token in _CONSTANTS:
            return lambda v: _CONSTANTS[token]
        if self._take("("):
            return self._has() if token == "has" else self._call(values.FUNCTIONS, token, [])
        self.read.add(token)
        return lambda v: v[token]

    def _enclosed(self, opening: str) -> Expression:
        if opening == "(":
            inner = self.ternary()
            self.expect(")")
            return inner
        items: list[Expression] = []
        while not self._take("]"):
            items.append(self.ternary())
            self._take(",")
        return lambda v: [item(v) for item in items]

    def _has(self) -> Expression:
        selected = self._member()
        self.expect(")")
        if not isinstance(selected, _Selection):
            raise self._unsupported("has() needs a field")
        return lambda v: values.select_optional(selected.target(v), selected.name).present


def _tokens(text: str) -> list[tuple[str, str]]:
    found, place, text = [], 0, text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise UnsupportedRuleError(f"cannot read {text[place : place + 20]!r} in the rule {text!r}")
        found.append((match.lastgroup, match[match.lastgroup]))
        place = match.end()
    return [*found, ("end", "")]


def _literal(kind: str, token: str) -> Any:
    if kind == "number":
        return float(token) if "." in token else int(token)
    if kind == "raw":
        return token[2:-1]
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "r": "\r"}.get(m[1], m[1]), token[1:-1])


class _Selection:
    """``target.name``; kept apart so that ``has()`` can ask for the field itself."""

    def __init__(self, target: Expression, name: str) -> None:
        self.target = target
        self.name = name

    def __call__(self, variables: Variables) -> Any:
        return values.select(self.target(variables), self.name)


def _absorbing(left: Expression, right: Expression, decides: bool) -> Expression:
    """``||`` and ``&&``: an error on one side does not matter when the other side decides."""

    def evaluate(variables: Variables) -> bool:
        try:
            first = values.truth(left(variables))
        except CelError:
            if values.truth(right(variables)) is decides:
                return decides
            raise
        return decides if first is decides else values.truth(right(variables))

    return evaluate


def _related(operator: str, left: Expression, right: Expression) -> Expression:
    def evaluate(v: Variables) -> bool:
        a, b = left(v), right(v)
        if operator == "in":
            return values.contained(a, b)
        if operator in {"==", "!="}:
            return values.equal(a, b) is (operator == "==")
        a, b = values.ordered(a, b)
        return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator])

    return evaluate


def _computed(operator: str, left: Expression, right: Expression) -> Expression:
    if operator == "+":
        return lambda v: values.add(left(v), right(v))
    return lambda v: values.arithmetic(operator, left(v), right(v))


def _over(name: str, target: Expression, variable: str, body: Expression) -> Expression:
    def evaluate(v: Variables) -> Any:
        items = list(target(v))
        results = (body({**v, variable: item}) for item in items)
        match name:
            case "all":
                return all(values.truth(result) for result in results)
            case "exists":
                return any(values.truth(result) for result in results)
            case "exists_one":
                return sum(values.truth(result) for result in results) == 1
            case "filter":
                return [item for item, result in zip(items, results, strict=True) if values.truth(result)]
            case _:
                return list(results)

    return evaluate
