"""One request, understood: which resource, which object, which options."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from modules.demo.apiserver import status
from modules.demo.apiserver.admission import STRICT, WARN, Options
from modules.demo.apiserver.store import Table, Target

JSON_TYPES: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
"""What the API server's message about unknown body formats names; protobuf is not taken here."""


def target(path: str, tables: Mapping[tuple[str, str], Table]) -> Target:
    """The target of a path like ``/apis/coordination.k8s.io/v1/namespaces/default/leases/x``; 404 where nothing is."""
    parts = path.strip("/").split("/")
    length = 2 if parts[0] == "api" else 3
    prefix, rest = "/".join(parts[:length]), parts[length:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and (prefix, rest[2]) in tables:
        namespace, rest = rest[1], rest[2:]
    table = tables.get((prefix, rest[0])) if rest else None
    if table is None or len(rest) > 3 or not all(rest):
        raise status.no_such_path()
    name, sub = (*rest[1:], "", "")[:2]
    if sub and not (sub == "status" and table.kind.has_status):
        raise status.no_such_path()
    if bool(namespace) is not table.kind.namespaced and (namespace or name):
        raise status.no_such_path()
    return Target(table, namespace, name, sub)


class Query:
    """The query parameters that matter, with their refusals."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = parameters

    def text(self, name: str) -> str:
        """A parameter, empty when absent."""
        return self._parameters.get(name, "")

    def flag(self, name: str) -> bool:
        """A boolean; 400 for what is none."""
        given = self.text(name)
        if given.lower() not in {"", "0", "1", "true", "false"}:
            raise status.bad_request(f'strconv.ParseBool: parsing "{given}": invalid syntax')
        return given.lower() in {"1", "true"}

    def number(self, name: str, absent: int = 0) -> int:
        """A number ≥ 0; 400 for what is none."""
        given = self.text(name)
        if not given:
            return absent
        if not (given.isascii() and given.isdigit()) or len(given) > 18:
            raise status.bad_request(f'strconv.ParseInt: parsing "{given}": invalid syntax')
        return int(given)

    def options(self) -> Options:
        """How to write; 422 for values that do not exist."""
        validation = self.text("fieldValidation") or WARN
        wrong = self.text("dryRun") not in {"", "All"} or validation not in {STRICT, WARN, "Ignore"}
        if wrong:
            told = f'Unsupported value: "{self.text("dryRun") or validation}"'
            raise status.Refusal(422, "Invalid", f' "" is invalid: {told}', {})
        return Options(validation, self.text("dryRun") == "All")


def decoded(body: bytes, media: str, accepted: Sequence[str]) -> Any:
    """The body as plain data; 415 for a form that is not taken, 400 for one that cannot be read."""
    if (media and media not in accepted) or media.endswith("protobuf"):
        raise status.unsupported_media_type(accepted)
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        if media.endswith("yaml"):
            return _yaml(body)
        raise status.bad_request(f"the object provided is unrecognized: {error}") from error


def _yaml(body: bytes) -> Any:
    from msgspec import yaml  # noqa: PLC0415 - loads PyYAML, which few requests need

    try:
        return yaml.decode(body)
    except msgspec.DecodeError as error:
        raise status.bad_request(f"error decoding YAML: {error}") from error
