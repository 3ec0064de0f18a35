"""From words and files to a job: what cannot be one is refused with its place and a remedy."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.api.limits import SUBDOMAIN
from beehive.errors import Refused, Unavailable
from modules.console.jobs_made import from_text, job_of, manifest, selector, spec
from modules.console.jobs_refusals import refusal
from modules.informer.answers import Reply

GOOD = """
apiVersion: operations.kubeedge.io/v1alpha2
kind: NodeUpgradeJob
metadata: {name: north}
spec: {version: v1.23.0, nodeNames: [a]}
"""


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("region=north", {"matchLabels": {"region": "north"}}),
        (" a = b , c==d ", {"matchLabels": {"a": "b", "c": "d"}}),
        ("a=", {"matchLabels": {"a": ""}}),
        ("gpu", {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}),
        ("!old", {"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}),
        ("tier!=test", {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["test"]}]}),
        ("z in (a, b),x.io/y=1", {"matchLabels": {"x.io/y": "1"},
         "matchExpressions": [{"key": "z", "operator": "In", "values": ["a", "b"]}]}),
        ("z notin (a)", {"matchExpressions": [{"key": "z", "operator": "NotIn", "values": ["a"]}]}),
        ("a=b,a=c", {"matchLabels": {"a": "b"},
         "matchExpressions": [{"key": "a", "operator": "In", "values": ["c"]}]}),
    ],
)  # fmt: skip
def test_a_selector_is_read_as_kubectl_reads_it(text: str, made: dict[str, Any]) -> None:
    assert selector(text) == made


@pytest.mark.parametrize("text", [",", "a=b,", "a b", "!a=b", "a in b", "=b", "a in (b", "!a in (b)"])
def test_what_is_no_selector_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="write key=value"):
        selector(text)


@given(st.from_regex(r"[ -~]{1,63}", fullmatch=True))
@settings(max_examples=50)
def test_a_name_made_from_a_version_is_one_that_the_server_takes(version: str) -> None:
    stem = manifest("", {"version": version})["metadata"]["generateName"]
    assert len(stem) <= 58
    if re.fullmatch(r"v?[0-9]+\.[0-9]+\.[0-9]+([-+][a-z0-9]+)?", version):
        assert re.fullmatch(SUBDOMAIN, f"{stem}x7k2p")


def test_words_become_fields_and_no_word_is_no_field() -> None:
    words = {"nodes": "a, b,", "check": "cpu,disk", "tolerate": "10%", "timeout": 90.0, "confirm": True}
    assert spec("v1.23.0", words) == {
        "version": "v1.23.0", "nodeNames": ["a", "b"], "checkItems": ["cpu", "disk"], "failureTolerate": "10%",
        "timeoutSeconds": 90, "requireConfirmation": True,
    }  # fmt: skip
    assert manifest("", {"version": "v1.30.4+k3s1"})["metadata"] == {"generateName": "to-v1.30.4-k3s1-"}
    assert manifest("north", {"version": "x"})["metadata"] == {"name": "north"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must hold one NodeUpgradeJob; it holds 0 documents"),
        (GOOD + "---" + GOOD, "it holds 2 documents"),
        ("- a", "must hold one"),
        ("a: [", "f.yaml is no YAML: line 1"),
        ("!!python/object:os.system {}", "is no YAML"),
        ("[" * 1000, "nested too deeply"),
        ("kind: Pod\napiVersion: v1", "holds a Pod, not a NodeUpgradeJob"),
        (GOOD.replace("v1alpha2", "v1alpha1"), "is written in operations.kubeedge.io/v1alpha1"),
        (GOOD.replace("spec:", "spce:"), "needs both metadata and spec"),
        (GOOD.replace("[a]", "[a], concurrency: " + "9" * 5000), "a number or a date that cannot be read"),
        (GOOD.replace("[a]", '["\\ud800"]'), "half a character"),
        ("a: &a [*a]", "holds a thing without kind"),
    ],
)
def test_a_file_that_is_no_job_says_why(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said.replace("[", r"\[")):
        from_text(text, "f.yaml")


def test_a_good_file_is_a_job() -> None:
    assert job_of(from_text(GOOD, "f")).spec.node_names == ("a",)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"version": "latest", "nodeNames": ["a"]}, "* invalid version latest"),
        ({"version": "v1.2.3"}, "both NodeNames and LabelSelector are NOT specified"),
        ({"version": "v1.2.3", "nodeNames": ["a"], "retry": 1}, "a new job has not been tried"),
        ({"version": 1.2, "nodeNames": ["a"]}, "* spec.version: Expected `str`, got `float`"),
        ({"version": "v1.2.3", "nodeNames": ["a"], "concurrency": 0}, "spec.concurrency: 0 is out of range"),
    ],
)
def test_what_is_wrong_with_a_job_is_said_before_the_server_is_asked(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as caught:
        job_of({"metadata": {"name": "north"}, "spec": wrong})
    assert caught.value.reason.startswith("Job north is invalid:\n")
    assert said in caught.value.reason


@pytest.mark.parametrize(
    ("reply", "verb", "said"),
    [
        (Reply(401), "list", "does not know these credentials"),
        (Reply(403, b'{"message":"jobs is forbidden: User \\"eve\\" cannot list"}'), "list",
         'Jobs is forbidden: User "eve" cannot list. Ask who runs the cluster for this right'),
        (Reply(403, b'{"message":"denied by policy"}'), "create", "refused to create north: denied by policy"),
        (Reply(404, b"404 page not found"), "list", "Beehive is not installed there"),
        (Reply(404, b'{"reason":"NotFound"}'), "get", "There is no job north. See them all: beehive job list"),
        (Reply(409, b'{"reason":"AlreadyExists"}'), "create", "There is a job north already"),
        (Reply(422, b'{"details":{"causes":[{"field":"spec.version","message":"no"},{"message":"one-of"}]}}'), "create",
         "Job north is invalid:\n* spec.version: no\n* one-of"),
        (Reply(500, b'{"message":"webhook failed"}'), "patch", "refused to patch north: webhook failed"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_sentence_with_what_to_do(reply: Reply, verb: str, said: str) -> None:
    error = refusal(reply, verb, "north", "The API server at https://x")
    assert isinstance(error, Refused)
    assert said in str(error)


def test_a_server_that_is_too_busy_may_be_asked_again() -> None:
    assert isinstance(refusal(Reply(429), "list", "x", "The API server"), Unavailable)
