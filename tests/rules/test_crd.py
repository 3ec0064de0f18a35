"""The CRD is made from the Structs, and the committed copy is what is made."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive.api import limits
from beehive.api.crd import crd, crd_yaml, schema
from beehive.api.nodeupgradejob import JobStatus, NodeUpgradeJob, NodeUpgradeJobSpec
from beehive.api.schema_rules import OF_FIELDS, OF_OBJECTS
from beehive.api.structural import Converter, docstrings, merged
from beehive.api.validate import problems

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "configs/crd/nodeupgradejobs.yaml"
EXAMPLES = sorted((ROOT / "configs/examples").glob("*.yaml"))


def test_the_committed_file_is_what_the_structs_make() -> None:
    assert COMMITTED.read_text() == crd_yaml(), "the Structs changed; write `beehive crd` to configs/crd/ again"


def test_the_file_is_the_definition() -> None:
    assert msgspec.yaml.decode(COMMITTED.read_bytes()) == json.loads(json.dumps(crd()))


def every(part: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each schema with its path."""
    yield path, part
    for name, below in part.get("properties", {}).items():
        yield from every(below, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(part.get(name), dict):
            yield from every(part[name], f"{path}[]")


def test_the_schema_is_structural() -> None:
    for path, part in every(schema()):
        assert part.get("type") in {"object", "array", "string", "integer", "boolean"}, path
        assert not {"$ref", "anyOf", "oneOf", "title"} & set(part), path
        assert not ("properties" in part and "additionalProperties" in part), path
        if part["type"] == "array":
            assert "items" in part, path
            assert "maxItems" in part, f"{path}: the cost of CEL rules is estimated from it"
        if part["type"] == "integer":
            assert "maximum" in part or part["format"] == "int64", f"{path}: int32 is not enforced by its format"


def test_every_field_explains_itself_for_kubectl_explain() -> None:
    for path, part in every(schema()):
        if path and not path.endswith("[]") and path != ".metadata":
            assert len(part["description"]) > 10, path
            assert part["description"].endswith("."), path


def test_every_default_of_the_spec_is_told_and_is_the_structs_own() -> None:
    fields = {one.encode_name: one for one in msgspec.structs.fields(NodeUpgradeJobSpec)}
    for name, part in schema()["properties"]["spec"]["properties"].items():
        default = fields[name].default
        if default is msgspec.NODEFAULT or default is None:
            assert "default" not in part, name
            continue
        assert part["default"] == default, name
        assert f"Default {json.dumps(default).strip(chr(34))}." in part["description"], name


def test_a_rule_stands_for_every_field_that_may_not_change() -> None:
    told = {rule.get("fieldPath") for rule in OF_OBJECTS[NodeUpgradeJobSpec]["x-kubernetes-validations"]}
    fields = {one.encode_name for one in msgspec.structs.fields(NodeUpgradeJobSpec)}
    assert {f".{one}" for one in fields - {"suspend", "abort"}} == told - {None}


def test_no_rule_is_about_a_field_that_does_not_exist() -> None:
    for kind, rules in OF_FIELDS.items():
        assert set(rules) <= {one.encode_name for one in msgspec.structs.fields(kind)}, kind


def test_texts_have_a_limit_and_patterns_no_python_dialect() -> None:
    for name in ("VERSION", "IMAGE", "DIGEST", "SUBDOMAIN", "LABEL_KEY", "TOOL", "REGISTRY_HOST", "TOLERANCE"):
        pattern = getattr(limits, name)
        assert not re.search(r"\\[dwsbAZ]|\(\?", pattern), f"{name} must mean the same in RE2"
    for path, part in every(schema()["properties"]["spec"], "spec"):
        if part["type"] == "string" and "enum" not in part:
            assert "maxLength" in part, path


def test_status_phase_is_required_inside_status_as_kubeedge_has_it() -> None:
    assert schema()["required"] == ["spec"]
    assert schema()["properties"]["status"]["required"] == ["phase"]
    assert schema()["properties"]["spec"]["required"] == ["version"]
    assert schema()["properties"]["spec"]["properties"]["imageDigestGatter"]["nullable"] is True


def test_a_field_without_a_docstring_is_named() -> None:
    with pytest.raises(KeyError, match="Silent does not explain what"):
        docstrings(Silent)


class Silent(msgspec.Struct):
    """A Struct with a field that nobody explains."""

    what: int = 0


def test_merging_goes_below_items_and_the_second_has_the_last_word() -> None:
    one = {"type": "array", "items": {"type": "string", "maxLength": 1}}
    assert merged(one, {"items": {"maxLength": 2}, "maxItems": 3}) == {
        "type": "array",
        "items": {"type": "string", "maxLength": 2},
        "maxItems": 3,
    }


def test_the_status_has_every_field_of_the_struct() -> None:
    made = Converter(OF_FIELDS, OF_OBJECTS).struct(JobStatus)
    assert set(made["properties"]) == {one.encode_name for one in msgspec.structs.fields(JobStatus)}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_good(path: Path) -> None:
    job = msgspec.yaml.decode(path.read_bytes(), type=NodeUpgradeJob)
    assert problems(job.spec) == []
    assert job.metadata.name == path.stem


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
