"""What a host's tool says by HTTP: KubeEdge's recorded bodies, read as they are meant."""

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.api.nodeupgradejob import ActionResult
from beehive.errors import Refused
from beehive.messages import wire
from beehive.messages.wire import posts
from beehive.world import rfc3339
from tests.vectors import KUBEEDGE

NOW = 1_767_225_605.9
UID = "11111111-1111-4111-8111-111111111111"


def vector(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((KUBEEDGE / f"http_post_{name}.json").read_bytes())
    return loaded


def body(name: str, **changed: Any) -> bytes:
    return json.dumps(vector(name)["request"]["body"] | changed).encode()


def verdict(name: str, **changed: Any) -> wire.Post:
    return wire.verdict(body(f"nodeupgrade_{name}", **changed), NOW)


VERDICTS = {
    # name: (what KubeEdge makes of it, our code, our actions, what runs now)
    "1_upgrade_success": (("Upgrade", "Success"), "", [("Upgrade", "True")], "v1.16.0"),
    "2_upgrade_failed_rollback_success": (
        ("Rollback", "Failure"), "RolledBack", [("Upgrade", "False"), ("RollBack", "True")], "v1.15.0",
    ),
    "3_upgrade_failed_rollback_failed": (
        ("Rollback", "Success"), "RollbackFailed", [("Upgrade", "False"), ("RollBack", "False")], "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_a_verdict_means_what_it_says(name: str) -> None:
    """Theirs: the ids are lost and the results of a rollback swapped. Ours: both are right."""
    theirs, code, actions, runs = VERDICTS[name]
    forwarded = vector(f"nodeupgrade_{name}")["message_forwarded_to_taskmanager"]
    assert (forwarded["content"]["Event"], forwarded["content"]["Action"]) == theirs
    assert forwarded["route"]["resource"] == "task//node/"
    post = verdict(name, Reason="exit status 1")
    assert (post.node, post.report.job) == ("edge-a", "job-1")
    assert (post.report.final, post.report.code, post.report.to_version) == (True, code, runs)
    assert [(one.action, one.status) for one in post.report.results] == actions
    assert {one.reason for one in post.report.results if one.status == "False"} <= {"exit status 1"}
    assert wire.is_legacy(post.report)  # its HistoryID is a bare uuid


def test_an_unknown_status_is_refused() -> None:
    """Theirs: 200, and the upgrade counts as a success."""
    recorded = vector("nodeupgrade_4_anything-else")
    assert recorded["message_forwarded_to_taskmanager"]["content"]["Action"] == "Success"
    assert recorded["response"]["status"] == 200
    with pytest.raises(Refused, match=r"the Status 'anything-else' is none of upgrade_success, .*"):
        verdict("4_anything-else")


def test_our_own_tool_names_uid_and_attempt() -> None:
    report = verdict("1_upgrade_success", HistoryID=f"{UID}.2").report
    assert (report.uid, report.attempt, report.revision, report.final) == (UID, 2, 0, True)
    assert not wire.is_legacy(report)


@pytest.mark.parametrize("history", ["", "x", f"{UID}.", f"{UID}.-1", f"{UID}.1.2", ".1", f"../{UID}.1", f"{UID}.1\n"])
def test_any_other_history_is_a_legacy_word(history: str) -> None:
    assert wire.is_legacy(verdict("1_upgrade_success", HistoryID=history).report)


def test_the_status_of_a_task_is_one_action() -> None:
    post = wire.task_status("upgrade", "job-1", "edge-a", body("task_status_keadm_report"), NOW)
    assert vector("task_status_keadm_report")["message_forwarded_to_taskmanager"]["route"]["resource"] == (
        f"task/{post.report.job}/node/{post.node}"
    )
    assert post.report.results == (
        ActionResult(action="Upgrade", status="True", reason="", time="2026-01-01T00:00:05Z"),
    )
    assert (post.report.final, post.report.code, wire.is_legacy(post.report)) == (True, "", True)


@pytest.mark.parametrize(
    ("event", "action", "final", "code"),
    [
        ("Check", "Success", False, ""),
        ("Check", "Failure", True, "CheckFailed"),
        ("Backup", "Success", False, ""),
        ("Backup", "Failure", True, "BackUpFailed"),
        ("Upgrade", "Success", True, ""),
        ("Upgrade", "Failure", False, ""),
        ("Rollback", "Success", True, "RolledBack"),
        ("Rollback", "Failure", True, "RollbackFailed"),
    ],
)
def test_each_event(event: str, action: str, final: bool, code: str) -> None:
    data = body("task_status_keadm_report", Event=event, Action=action, Reason="why", Time="")
    report = wire.task_status("upgrade", "job-1", "edge-a", data, NOW).report
    assert (report.final, report.code) == (final, code)
    assert report.results[0].time == rfc3339(NOW)
    assert report.results[0].reason == ("why" if action == "Failure" else "")


@pytest.mark.parametrize(
    ("path", "changed", "text"),
    [
        (("prepull", "job-1", "edge-a"), {}, "tasks of the type 'prepull' are not known here"),
        (("upgrade", "Job_1", "edge-a"), {}, "the path names the job 'Job_1', and no job can be called so"),
        (("upgrade", "job-1", "edge-b"), {}, "the path is about the node 'edge-b', NodeName says 'edge-a'"),
        (("upgrade", "job-1", "edge-a"), {"Event": "Init"}, "Event 'Init' with Action 'Success' is no result"),
        (("upgrade", "job-1", "edge-a"), {"Action": "success"}, "Action 'success' is no result"),
    ],
)
def test_what_no_status_can_be(path: tuple[str, str, str], changed: dict[str, str], text: str) -> None:
    with pytest.raises(Refused, match=text):
        wire.task_status(*path, body("task_status_keadm_report", **changed), NOW)


def test_bad_json_is_refused_as_kubeedge_does() -> None:
    recorded = vector("task_status_bad_json")
    beginning, _, _ = recorded["body"].rpartition("unexpected end of JSON input")
    assert (recorded["status"], beginning) == (400, "failed to unmarshal task info: ")
    with pytest.raises(Refused, match=beginning):
        wire.task_status("upgrade", "job-1", "edge-a", recorded["request_body"].encode(), NOW)
    with pytest.raises(Refused, match="failed to marshal task info: "):
        wire.verdict(b"{", NOW)


def test_too_large_says_what_kubeedge_says() -> None:
    """Theirs: 400 above 3 MiB. Ours: 413 above 1 MiB, with the same words."""
    recorded = vector("nodeupgrade_too_large")
    assert (recorded["body"], recorded["status"], recorded["request_body_bytes"]) == (posts.TOO_LARGE, 400, 3145729)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("UpgradeID", "HistoryID", "NodeName", "FromVersion", "ToVersion", "Status", "Reason", "Event", "Action", "Time")
BODIES = st.binary(max_size=64) | st.dictionaries(st.sampled_from(KEYS), JSON).map(msgspec.json.encode)


@settings(max_examples=50)
@given(BODIES, st.text(max_size=12))
def test_nothing_but_a_report_or_a_refusal_comes_of_any_body(data: bytes, word: str) -> None:
    said: list[wire.Post] = []
    with contextlib.suppress(Refused):
        said.append(wire.verdict(data, NOW))
    with contextlib.suppress(Refused):
        said.append(wire.task_status("upgrade", word, word, data, NOW))
    assert all(wire.is_name(post.report.job) and len(post.report.results) in (1, 2) for post in said)


@pytest.mark.parametrize("key", ["UpgradeID", "Status"])
def test_a_refusal_does_not_repeat_what_is_long(key: str) -> None:
    with pytest.raises(Refused) as refused:
        verdict("1_upgrade_success", **{key: "x" * 100_000})
    assert len(refused.value.reason) < 250


def test_a_body_nested_without_end_is_refused() -> None:
    with pytest.raises(Refused):
        wire.verdict(b"[" * 100_000, NOW)
