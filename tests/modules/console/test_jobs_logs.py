"""`beehive job logs`: the story of a job, in order, from its status and Beehive's Events."""

import json

from beehive.world import rfc3339
from modules.console.jobs_logs import About, Happened, Line, contested, lines
from tests.fakes.jobs import START, an_entry, result
from tests.modules.console.test_jobs_words import seen

FLOW = (result("Check", at=START + 20), result("Upgrade", ok=False, reason="exited with code 1", at=START + 30))
BAD = an_entry(
    "a", "Failure", reason_code="RolledBack", reason="rolled back", action_flow=FLOW, since=rfc3339(START + 40)
)
JOB = seen(BAD, an_entry("b", "Pending"))


def event(uid: str, kind: str, name: str, reason: str, message: str, at: float, count: int = 1) -> Happened:
    about = About(kind=kind, name=name, uid=uid)
    return Happened(
        involved_object=about, reason=reason, message=message, last_timestamp=rfc3339(at), count=count, type="Warning"
    )


EVENTS = (
    event("uid-north", "NodeUpgradeJob", "north", "NodeFailed", "a: rolled back", START + 41, count=2),
    event("uid-other", "NodeUpgradeJob", "other", "NodeFailed", "x: rolled back", START + 41),
    event("node-a", "Node", "a", "UpgradeStarted", "job north: to v1.23.0", START + 10),
    event("node-a", "Node", "a", "UpgradeStarted", "job north: to v1.21.0", START - 900),
    event("node-a", "Node", "a", "UpgradeStarted", "job north-2: to v1.24.0", START + 10),
)


def test_it_is_told_in_order_and_of_this_job_alone() -> None:
    assert [(one.who, one.level, one.what) for one in lines(JOB, EVENTS)] == [
        ("a", "WARN", "started: to v1.23.0"),
        ("a", "INFO", "Check done"),
        ("a", "WARN", "Upgrade failed: exited with code 1"),
        ("a", "WARN", "Failure: rolled back"),
        ("north", "WARN", "NodeFailed: a: rolled back (x2)"),
    ]


def test_one_node_alone() -> None:
    assert {one.who for one in lines(JOB, EVENTS, "a")} == {"a"}
    assert lines(JOB, EVENTS, "b") == []


def test_a_line_is_text_or_json() -> None:
    line = Line(rfc3339(START), "WARN", "a", "Upgrade failed: x")
    assert line.text() == f"{rfc3339(START)}  WARN  a  Upgrade failed: x"
    assert json.loads(line.json()) == {"time": rfc3339(START), "level": "WARN", "who": "a", "what": "Upgrade failed: x"}


def test_who_writes_the_status_beside_us_is_named_for_ten_minutes() -> None:
    note = "cloudcore also writes the status of job north; switch it off"
    events = [
        event("uid-north", "NodeUpgradeJob", "north", "AnotherController", note, START),
        event("uid-other", "NodeUpgradeJob", "other", "AnotherController", "no", START + 50),
    ]
    assert contested(JOB, events, START + 599) == ["", f"Beware: {note}."]
    assert contested(JOB, events, START + 601) == []
    assert contested(JOB, EVENTS, START) == []
