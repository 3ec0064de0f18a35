"""docs/metrics.md, reasons.md and settings.md say what the code says; every code and every alert has its paragraph."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from beehive.api.reasons import NONE, OTHER, REASONS, bounded
from beehive.figures import COUNTER, HISTOGRAM, Metric
from beehive.metrics import KERNEL
from modules.console.papers import declared, papers
from modules.registry import MODULES
from modules.taskmanager import codes

TOP = Path(__file__).resolve().parents[3]
DOCS = TOP / "docs"
METRICS: list[Metric] = [*KERNEL, *(metric for spec in MODULES for metric in declared(spec))]
OF_JOBS = {codes.INVALID, codes.NOTHING_SELECTED}
"""Reasons of a job, not of an entry."""


@pytest.mark.parametrize("name", ["metrics.md", "reasons.md", "settings.md"])
def test_a_paper_is_as_the_code_makes_it(name: str) -> None:
    made = papers(MODULES)[name]
    assert (DOCS / name).read_text(encoding="utf-8") == made, "make docs"


def words(path: Path) -> set[str]:
    """Every text of a file that looks like a reason code."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if re.fullmatch(r"([A-Z][a-z]+){1,5}", text)}


def test_every_code_that_the_rules_know_has_a_meaning_and_a_remedy() -> None:
    known = words(TOP / "modules/taskmanager/codes.py") - OF_JOBS
    assert "RolledBack" in known
    assert known - REASONS.keys() == set()
    assert REASONS.keys() - known == set(), "a meaning for a code that nobody gives"
    assert all(one.meaning.endswith(".") and len(one.remedy) > 10 for one in REASONS.values())


def test_every_code_that_a_host_gives_is_one_that_the_rules_know() -> None:
    given: set[str] = set()
    for path in (*(TOP / "modules/upgrader").rglob("*.py"), TOP / "modules/taskmanager/flow.py"):
        text = path.read_text(encoding="utf-8")
        given |= set(re.findall(r'(?:code=|Objection\(|ROLLED_BACK\b.*= )"([A-Z]\w+)"', text))
    assert {"CheckFailed", "Busy", "Aborted"} <= given
    assert given - REASONS.keys() == set()


def test_a_label_takes_no_code_of_somebody_else() -> None:
    assert [bounded(code) for code in ("", "RolledBack", "x" * 500)] == [NONE, "RolledBack", OTHER]


def test_names_of_metrics_say_their_units() -> None:
    names = [one.name for one in METRICS]
    assert all(re.fullmatch(r"beehive(_[a-z]+)+", name) for name in names)
    assert [name for name in names if re.search(r"_(ms|minutes|hours|percent|kb|mb|total)$", name)] == []
    timed = [one for one in METRICS if re.search(r"\b(seconds|Age|how long)\b", one.text)]
    assert [one.name for one in timed if "seconds" not in one.name and one.kind != COUNTER] == []
    assert all(one.bounds == tuple(sorted(one.bounds)) and one.bounds for one in METRICS if one.kind == HISTOGRAM)
    assert {len(one.labels) for one in METRICS} <= {0, 1, 2}


def test_every_alert_has_a_place_that_says_what_to_do() -> None:
    rules = [
        rule
        for group in yaml.safe_load((TOP / "configs/prometheus/alerts.yaml").read_text())["groups"]
        for rule in group["rules"]
    ]
    assert len(rules) > 15
    operations = (DOCS / "operations.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### (\w+)$", operations, re.MULTILINE)
    assert sorted(headings) == sorted(rule["alert"] for rule in rules)
    for rule in rules:
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{rule['alert'].lower()}"
        assert {"summary", "action"} <= rule["annotations"].keys()
