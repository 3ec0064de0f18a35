"""From words on a command line, or a file, to a job. Pure."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from beehive.api.changes import creation_problems
from beehive.api.nodeupgradejob import API_VERSION, GROUP, KIND, LabelSelector, NodeUpgradeJob
from beehive.api.version import image_tag
from beehive.errors import Refused
from modules.console.jobs_refusals import problems_text

Manifest = dict[str, Any]
_TERM = re.compile(
    r"\s*(?P<key>[^\s=!,()]+)\s*(?:(?P<op>==?|!=)\s*(?P<value>[^\s,()=!]*)|(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?\s*"
)
_LONGEST_STEM = 50


def manifest(name: str, spec: dict[str, Any]) -> Manifest:
    """The object for these words; without a name, the API server makes one from the version."""
    stem = re.sub(r"[^a-z0-9.-]", "-", image_tag(str(spec["version"])).lower())[:_LONGEST_STEM]
    named = {"name": name} if name else {"generateName": f"to-{stem}-"}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": named, "spec": spec}


def from_text(text: str, source: str) -> Manifest:
    """The one job in a file of YAML or JSON. Raises Refused."""
    try:
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise Refused(
            f"{source} is no YAML: {where}{getattr(error, 'problem', None) or 'it cannot be read'}."
        ) from None
    except ValueError as error:  # a number of thousands of digits, the 31st of February
        raise Refused(
            f"{source} holds a number or a date that cannot be read: {str(error).partition(';')[0]}."
        ) from None
    except RecursionError:
        raise Refused(f"{source} is no job: it is nested too deeply.") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise Refused(f"{source} must hold one NodeUpgradeJob; it holds {len(documents)} documents.")
    found: Manifest = documents[0]
    if found.get("kind") != KIND or not str(found.get("apiVersion", "")).startswith(f"{GROUP}/"):
        raise Refused(f"{source} holds a {found.get('kind', 'thing without kind')}, not a {KIND} of {API_VERSION}.")
    if found["apiVersion"] != API_VERSION:
        raise Refused(f"{source} is written in {found['apiVersion']}; use kubectl for it, or write {API_VERSION}.")
    if not isinstance(found.get("metadata"), dict) or not isinstance(found.get("spec"), dict):
        raise Refused(f"{source} needs both metadata and spec.")
    _must_be_json(found, source)
    return found


def _must_be_json(found: Manifest, source: str) -> None:
    try:
        msgspec.json.encode(found)
    except UnicodeEncodeError:
        raise Refused(f"{source} holds half a character (\\ud800 to \\udfff), which no JSON can hold.") from None
    except RecursionError:
        raise Refused(f"{source} is no job: it is nested too deeply.") from None
    except TypeError as error:
        raise Refused(f"{source} holds what no JSON can hold: {error}.") from None


def job_of(made: Manifest) -> NodeUpgradeJob:
    """The manifest as a job that may be created. Raises Refused with all that is wrong."""
    name = str(made["metadata"].get("name", ""))
    try:
        job = msgspec.convert({"metadata": {"name": name}, "spec": made["spec"]}, NodeUpgradeJob)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        raise Refused(problems_text(name, [f"{place.strip('`.') or 'spec'}: {text}"])) from None
    wrong = creation_problems(job.spec)
    if wrong:
        raise Refused(problems_text(name, wrong))
    return job


def selector(text: str) -> dict[str, Any]:
    """`region=north,tier!=test,gpu,!old,zone in (a,b)` as a labelSelector. Raises ValueError."""
    labels: dict[str, str] = {}
    expressions: list[dict[str, Any]] = []
    for term in _terms(text):
        negated, found = term.startswith("!"), _TERM.fullmatch(term.removeprefix("!"))
        if not found or (negated and (found["op"] or found["set"])):
            raise ValueError(f'"{term}" is no requirement; write key=value, key!=value, key, !key or key in (a,b)')
        key = found["key"]
        if found["op"] in ("=", "==") and labels.setdefault(key, found["value"]) == found["value"]:
            continue
        expressions.append({"key": key, **_expression(found, negated)})
    made: dict[str, Any] = {"matchLabels": labels} if labels else {}
    if expressions:
        made["matchExpressions"] = expressions
    msgspec.convert(made, LabelSelector)
    return made


def _terms(text: str) -> Iterator[str]:
    """At the commas that are in no parentheses."""
    for term in re.split(r",(?![^(]*\))", text):
        if not term.strip():
            raise ValueError("an empty requirement; write key=value")
        yield term.strip()


def _expression(found: re.Match[str], negated: bool) -> dict[str, Any]:
    if found["set"]:
        values = [value.strip() for value in found["values"].split(",")]
        return {"operator": "In" if found["set"] == "in" else "NotIn", "values": values}
    if found["op"]:
        return {"operator": "NotIn" if found["op"] == "!=" else "In", "values": [found["value"]]}
    return {"operator": "DoesNotExist" if negated else "Exists"}


_FIELDS = {
    "selector": "labelSelector", "concurrency": "concurrency", "tolerate": "failureTolerate", "image": "image",
    "timeout": "timeoutSeconds", "on_offline": "onOffline", "confirm": "requireConfirmation", "suspend": "suspend",
    "allow_downgrade": "allowDowngrade",
}  # fmt: skip
_LISTS = {"nodes": "nodeNames", "check": "checkItems"}


def spec(version: str, words: dict[str, Any]) -> dict[str, Any]:
    """The spec for the options of a command line that were given."""
    made: dict[str, Any] = {"version": version}
    for word, value in words.items():
        if word in _LISTS:
            made[_LISTS[word]] = [one.strip() for one in value.split(",") if one.strip()]
        else:
            made[_FIELDS[word]] = round(value) if word == "timeout" else value
    return made
