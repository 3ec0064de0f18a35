"""`beehive job validate`: every problem of a manifest with its line and path, without a cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive_cli.job import job
from beehive_cli.job_validate import validate
from modules.console.manifests import Judged, Problem, judged
from tests.vectors import vector

EXAMPLES = sorted((Path(__file__).parents[3] / "configs/examples").glob("*.yaml"))
HEAD = "apiVersion: operations.kubeedge.io/v1alpha2\nkind: NodeUpgradeJob\nmetadata: {name: north}\n"
"""Three lines, so the spec begins in the fourth."""
SPEC = "spec:\n  version: v1.23.1\n  nodeNames: [edge-a]\n"


def said(text: str) -> list[tuple[int, str, str]]:
    return [(line, path, sentence) for line, path, sentence in judged(text).problems]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_good(path: Path) -> None:
    assert judged(path.read_text()) == Judged(1, ())


@pytest.mark.parametrize(
    "name", ["v1alpha1_nodeupgradejob", "v1alpha2_nodeupgradejob_failure", "v1alpha2_nodeupgradejob_in_progress"]
)
def test_kubeedges_objects_are_good_as_json(name: str) -> None:
    assert judged(json.dumps(vector(f"cr_{name}"), indent=1)) == Judged(1, ())


BAD: list[tuple[str, list[tuple[int, str, str]]]] = [
    (HEAD + SPEC, []),
    (HEAD + "spec:\n  version: latest\n  nodeNames: [edge-a]\n", [(5, "spec.version", "invalid version latest")]),
    (HEAD + SPEC + "  labelSelector: {}\n", [(5, "spec", "both NodeNames and LabelSelector are specified")]),
    (HEAD + "spec:\n  image: a/b\n", [(5, "spec.version", "it is missing")]),
    (HEAD, [(1, "spec", "it is missing; it says what to upgrade")]),
    (HEAD + SPEC + "  timeoutSecond: 3\n", [(7, "spec.timeoutSecond", "no such field; did you mean timeoutSeconds?")]),
    (HEAD + SPEC + "  concurrency: 2\n  concurrency: 3\n", [(8, "spec.concurrency", "it stands twice; take one away")]),
    (HEAD + SPEC + "  failureTolerate: 0.1\n",
     [(7, "spec.failureTolerate", 'expected a text, found 0.1; write it in quotes: "0.1"')]),
    (HEAD + "spec:\n  version: 1.20\n  nodeNames: [edge-a, 7]\n",
     [(5, "spec.version", 'expected a text, found 1.20; write it in quotes: "1.20"'),
      (6, "spec.nodeNames[1]", 'expected a text, found 7; write it in quotes: "7"')]),
    (HEAD + SPEC + "  concurrency: 0\n  timeoutSeconds: -1\n",
     [(7, "spec.concurrency", "0 is out of range; give 1 to 2147483647"),
      (8, "spec.timeoutSeconds", "-1 is out of range; give 0 to 2147483647")]),
    (HEAD + SPEC + "  concurrency: " + "9" * 5000 + "\n",
     [(7, "spec.concurrency", "a number of 5,000 digits is too large")]),
    (HEAD + "spec: {version: v1.2.3, nodeNames: ['a', \"\\ud800\"]}\n",
     [(4, "", "\\ud800 holds half a character (\\ud800 to \\udfff)")]),
    (HEAD + "spec:\n  version: v1.2.3\n  retry: 3\n  unknown: 1\n  image: http://x\n  nodeNames: [a/b]\n  suspend: 7\n",
     [(6, "spec.retry", "a new job has not been tried; leave it out instead of 3"),
      (7, "spec.unknown", "no such field"),
      (8, "spec.image", "invalid image repo http://x"),
      (9, "spec.nodeNames", '"a/b" cannot be the name of a node'),
      (10, "spec.suspend", "expected true or false, found 7")]),
    (HEAD + "spec:\n  version: v1.2.3\n  nodeNames: a\n",
     [(6, "spec.nodeNames", "expected a list, found a")]),
    (HEAD.replace("{name: north}", "{name: north, annotations: {a: 2026-02-31}}") + SPEC, []),
    (HEAD + SPEC + "  suspend: maybe\n", [(7, "spec.suspend", "expected true or false, found maybe")]),
    (HEAD + SPEC + "  checkItems: cpu\n", [(7, "spec.checkItems", "expected a list, found cpu")]),
    (HEAD + SPEC + "  imageDigestGatter: {amd64: [x]}\n",
     [(7, "spec.imageDigestGatter.amd64", "expected a text, found a list")]),
    (HEAD + SPEC + "  imageDigestGatter:\n    amd65: x\n",
     [(8, "spec.imageDigestGatter.amd65", "no such field; did you mean amd64?")]),
    (HEAD + SPEC + "  imageDigestGatter: null\n  checkItems: ~\n", []),
    (HEAD + SPEC + "  retry: 3\n", [(7, "spec.retry", "a new job has not been tried; leave it out instead of 3")]),
    (HEAD.replace("v1alpha2", "v1"), [(1, "apiVersion",
     "write operations.kubeedge.io/v1alpha2 or operations.kubeedge.io/v1alpha1")]),
    (HEAD.replace("NodeUpgradeJob", "Pod"), [(1, "kind", "expected a NodeUpgradeJob, found Pod")]),
    (HEAD.replace("north", "North") + SPEC,
     [(3, "metadata.name", '"North" cannot be the name of a job; write up to 200 of a-z, 0-9, - and .')]),
    (HEAD.replace("{name: north}", "{}") + SPEC, [(3, "metadata.name", "it is missing")]),
    (HEAD.replace("alpha2", "alpha1") + SPEC + "  onOffline: Wait\n", [(7, "spec.onOffline", "no such field")]),
    (HEAD.replace("alpha2", "alpha1") + SPEC + "  imageDigestGatter: {value: x}\n",
     [(7, "spec.imageDigestGatter", f'"x" for {one} is no digest; write sha256: and 64 digits of 0-9 and a-f')
      for one in ("amd64", "arm64")]),
    ("", [(0, "", "it holds no NodeUpgradeJob")]),
    ("---\n---\n", [(0, "", "it holds no NodeUpgradeJob")]),
    ("7", [(1, "kind", "expected a NodeUpgradeJob, found none")]),
    ("a: [", [(1, "", "expected the node content, but found '<stream end>'")]),
    ("[" * 600, [(0, "", "it is nested too deeply")]),
    ("a: &a [1]\nb: *a\n", [(2, "", "aliases are not taken here; write it out")]),
    ("a: !!python/object:os.system x\n", [(1, "kind", "expected a NodeUpgradeJob, found none")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problems"), BAD, ids=range(len(BAD)))
def test_each_problem_has_its_line_and_path(text: str, problems: list[Any]) -> None:
    assert said(text) == problems


def test_several_documents_and_lists_are_judged_one_by_one() -> None:
    second = HEAD + "spec:\n  version: v1\n  nodeNames: [a]\n"
    found = judged(HEAD + SPEC + "---\n" + second + "---\n" + HEAD + SPEC)
    assert found == Judged(3, (Problem(12, "spec.version", "invalid version v1"),))
    good = json.loads(json.dumps(vector("cr_v1alpha2_nodeupgradejob_failure")))
    assert judged(json.dumps({"apiVersion": "v1", "kind": "List", "items": [good, good]})) == Judged(2, ())


def test_the_command_names_the_file_and_exits_with_1(tmp_path: Path) -> None:
    good, bad, none = tmp_path / "good.yaml", tmp_path / "bad.yaml", tmp_path / "none.yaml"
    good.write_text(HEAD + SPEC)
    bad.write_text(HEAD + SPEC + "  concurrency: 0\n")
    done = CliRunner().invoke(validate, [str(good), str(bad), str(none)])
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"{good}: 1 job is good",
        f"{bad}:7: spec.concurrency: 0 is out of range; give 1 to 2147483647",
        f"{none}: it cannot be read: No such file or directory",
    ]
    assert CliRunner().invoke(validate, ["-"], input=HEAD + SPEC).exit_code == 0
    assert CliRunner().invoke(validate, ["-"], input=b"\xff").exit_code == 1
    assert CliRunner().invoke(validate, []).exit_code == 2


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"# \n\t0\x00é", max_size=40))
def test_no_text_makes_it_fail(text: str) -> None:
    assert judged(text).problems
    judged(HEAD + "spec:\n  " + text.replace("\n", "\n  "))


def test_it_is_a_command_of_job() -> None:
    assert job.commands["validate"] is validate
