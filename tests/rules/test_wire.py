"""The wire: every recorded frame of KubeEdge is understood, our own go there and back, nothing else can hurt."""

import json
import math
import string
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beehive.api.nodeupgradejob import ActionResult
from beehive.errors import Refused
from beehive.messages import wire
from beehive.messages.tasks import (
    CancelTask,
    Downstream,
    Hello,
    ReportSeen,
    SendSnapshot,
    StartTask,
    TaskReport,
    TaskSpec,
    Upstream,
)
from beehive.messages.wire import kubeedge
from tests.vectors import KUBEEDGE

UID = "11111111-1111-4111-8111-111111111111"
NOW = 1767225600.001
ALL = sorted(path.stem for path in KUBEEDGE.glob("ws_*.json"))
SPEC = TaskSpec(version="v1.23.1", image="registry.example.org/kubeedge/installation-package")


def frame(name: str) -> bytes:
    return (KUBEEDGE / f"{name}.json").read_bytes()


def report(**changed: Any) -> TaskReport:
    values: dict[str, Any] = {"job": "job-1", "uid": UID, "attempt": 0, "revision": 1, "action": "Check"} | changed
    return TaskReport(**values)


# ---- vectors -----------------------------------------------------------------------------------------------------

LEGACY_REPORTS = {
    "check_ok": ("Check", "True", False, "", "", ""),
    "check_failed": ("Check", "False", True, "CheckFailed", "", ""),
    "waitingconfirmation_ok": ("WaitingConfirmation", "True", False, "", "", ""),
    "backup_ok": ("BackUp", "True", False, "", "", "v1.22.1"),
    "upgrade_ok_final": ("Upgrade", "True", True, "", "v1.22.1", "v1.23.1"),
    "upgrade_failed_not_final": ("Upgrade", "False", False, "", "v1.22.1", "v1.23.1"),
    "rollback_ok_final": ("RollBack", "True", True, "RolledBack", "v1.23.1", "v1.22.1"),
    "rollback_failed_final": ("RollBack", "False", True, "RollbackFailed", "", ""),
}
TASKS = (
    "ws_downstream_v1alpha2_nodeupgradejob_check_full_spec",
    "ws_downstream_v1alpha2_nodeupgradejob_check_minimal_spec",
)
OTHERS = [
    name for name in ALL if name not in TASKS and name.removeprefix("ws_upstream_v1alpha2_") not in LEGACY_REPORTS
]


def test_all_vectors_are_covered() -> None:
    assert len(ALL) == 24
    assert len(OTHERS) + len(TASKS) + len(LEGACY_REPORTS) == len(ALL)


@pytest.mark.parametrize("name", ALL)
def test_writing_what_was_read_gives_the_recorded_bytes(name: str) -> None:
    assert wire.encode(msgspec.json.decode(frame(name), type=wire.Frame)) == frame(name)


@pytest.mark.parametrize("name", sorted(LEGACY_REPORTS))
def test_a_report_of_a_real_edgecore(name: str) -> None:
    action, status, final, code, before, after = LEGACY_REPORTS[name]
    read = wire.from_edge(frame(f"ws_upstream_v1alpha2_{name}"))
    body = read.body
    assert isinstance(body, TaskReport)
    assert read.node == "edge-a"
    assert read.message_id.startswith("00000000-0000-4000-8000-0000000000")
    assert wire.is_legacy(body)
    assert (body.job, body.uid, body.attempt, body.revision) == ("job-1", "", -1, 0)
    assert (body.action, body.final, body.code) == (action, final, code)
    assert (body.from_version, body.to_version) == (before, after)
    (result,) = body.results
    assert (result.action, result.status, result.time) == (action, status, "2026-01-01T00:00:05Z")
    assert body.reason == json.loads(frame(f"ws_upstream_v1alpha2_{name}"))["content"]["reason"] == result.reason


def test_a_task_of_a_real_cloudcore() -> None:
    read = wire.from_cloud(frame(TASKS[0]))
    task = read.body
    assert isinstance(task, StartTask)
    assert wire.is_legacy(task)
    assert (task.job, task.uid, read.node) == ("job-1", read.message_id, "edge-a")
    assert task.lease_seconds == wire.NO_LEASE
    assert task.spec == TaskSpec(
        version="v1.23.1",
        image="registry.example.org/kubeedge/installation-package",
        digests={"arm64": "sha256:" + "b" * 64, "amd64": "sha256:" + "a" * 64},
        check_items=("cpu", "mem", "disk"),
        require_confirmation=True,
        timeout_seconds=600,
    )


def test_a_minimal_task_of_a_real_cloudcore_gets_the_documented_defaults() -> None:
    task = wire.from_cloud(frame(TASKS[1])).body
    assert isinstance(task, StartTask)
    assert task.spec == TaskSpec(version="v1.23.1", image="kubeedge/installation-package", timeout_seconds=300)


@pytest.mark.parametrize("name", OTHERS)
def test_everything_else_is_other(name: str) -> None:
    route = json.loads(frame(name))["route"]
    for read in (wire.from_edge(frame(name)), wire.from_cloud(frame(name))):
        assert isinstance(read.body, wire.Other)
        assert (read.body.operation, read.body.resource) == (route["operation"], route["resource"])


@pytest.mark.parametrize("name", [f"ws_upstream_v1alpha2_{one}" for one in LEGACY_REPORTS])
def test_a_report_that_comes_down_is_not_believed(name: str) -> None:
    assert isinstance(wire.from_cloud(frame(name)).body, wire.Other)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_that_comes_up_is_not_believed(name: str) -> None:
    assert isinstance(wire.from_edge(frame(name)).body, wire.Other)


def test_the_all_empty_message_at_edgecores_shutdown() -> None:
    read = wire.from_edge(b'{"header":{"msg_id":"","timestamp":0},"route":{},"content":null}')
    assert isinstance(read.body, wire.Other)
    assert read.body.operation == ""


# ---- our own form ------------------------------------------------------------------------------------------------

FULL = report(
    revision=5,
    action="RollBack",
    results=(
        ActionResult(action="Check", status="True", time="2026-01-01T00:00:01Z"),
        ActionResult(action="Upgrade", status="False", reason="exit code 1: <a> & \u2028", time="2026-01-01T00:00:02Z"),
        ActionResult(action="RollBack", status="True", time="2026-01-01T00:00:05Z"),
    ),
    final=True,
    code="RolledBack",
    reason="rolled back",
    from_version="v1.23.1",
    to_version="v1.22.1",
)
DOWN: list[Downstream] = [
    StartTask(job="job-1", uid=UID, attempt=2, spec=SPEC, lease_seconds=300.0),
    StartTask(
        job="a.b-c", uid=UID, attempt=0, lease_seconds=0.0,
        spec=TaskSpec(version="v1", image="x", digests={"riscv64": "sha256:" + "c" * 64}, upgrade_tool="k3s",
                      allow_downgrade=True, check_items=("disk",), require_confirmation=True),
    ),
    CancelTask(job="job-1", uid=UID, attempt=2, reason="aborted"),
    SendSnapshot(job="job-1", uid=UID, attempt=2),
    ReportSeen(job="job-1", uid=UID, attempt=2, revision=7, lease_seconds=60.0),
]  # fmt: skip
UP: list[Upstream] = [report(), FULL, Hello(job="job-1", uid=UID, attempt=1, action="Upgrade")]


@pytest.mark.parametrize("body", DOWN, ids=lambda body: type(body).__name__)
def test_down_and_read_again(body: Downstream) -> None:
    read = wire.from_cloud(wire.to_edge(body, "edge-a", "m-1", NOW, answers="m-0"))
    assert read == wire.Read("m-1", "m-0", "edge-a", body)


@pytest.mark.parametrize("body", UP, ids=lambda body: type(body).__name__)
def test_up_and_read_again(body: Upstream) -> None:
    read = wire.from_edge(wire.to_cloud(body, "edge-a", "m-1", NOW))
    assert read == wire.Read("m-1", "", "edge-a", body)


def test_a_task_is_what_cloudcore_would_have_sent_without_what_no_node_may_know() -> None:
    """Theirs holds every node's name; ours never does (spec/kubeedge.md S12)."""
    theirs = json.loads(frame(TASKS[0]))
    task = wire.from_cloud(frame(TASKS[0])).body
    assert isinstance(task, StartTask)
    data = wire.to_legacy_edge(task, "edge-a", theirs["header"]["msg_id"], NOW)
    for key in ("nodeNames", "concurrency", "failureTolerate"):
        del theirs["content"][key]
    assert data == msgspec.json.encode(theirs) + b"\n"


def test_a_report_for_a_real_cloudcore_is_byte_for_byte_a_real_edgecores() -> None:
    up = msgspec.structs.replace(FULL, from_version="v1.22.1", to_version="v1.23.1")
    done = ActionResult(
        action="Upgrade", status="True", time="2026-01-01T00:00:05Z", reason="not said when it went well"
    )
    data = wire.to_legacy_cloud(up, done, "edge-a", "00000000-0000-4000-8000-000000000024", 1767225600.024)
    assert data == frame("ws_upstream_v1alpha2_upgrade_ok_final")


def test_the_keepalive_is_byte_for_byte_a_real_edgecores() -> None:
    data = wire.keepalive("00000000-0000-4000-8000-000000000040", 1767225600.04)
    assert data == frame("ws_keepalive_edge_to_cloud")


def test_our_report_carries_kubeedges_five_keys_of_the_last_action() -> None:
    content = json.loads(wire.to_cloud(FULL, "edge-a", "m", NOW))["content"]
    assert content == {
        "action": "RollBack", "succ": True, "finishTime": "2026-01-01T00:00:05Z", "reason": "",
        "extend": "v1.23.1,v1.22.1",
    }  # fmt: skip


def test_extend_has_one_comma_whatever_a_host_calls_its_version() -> None:
    odd = msgspec.structs.replace(FULL, from_version="1,2,3", to_version=",")
    assert json.loads(wire.to_cloud(odd, "edge-a", "m", NOW))["content"]["extend"].count(",") == 1


def test_the_acknowledgement_is_kubeedges() -> None:
    data = json.loads(wire.to_edge(DOWN[-1], "edge-a", "m-1", NOW, answers="m-0"))
    assert data["content"] == "OK"
    assert data["route"]["operation"] == "response"
    assert data["header"]["parent_msg_id"] == "m-0"


def test_an_image_is_never_empty() -> None:
    task = StartTask(job="j", uid=UID, attempt=0, spec=TaskSpec(version="v1", image=""), lease_seconds=1.0)
    for data in (wire.to_edge(task, "n", "m", NOW), wire.to_legacy_edge(task, "n", "m", NOW)):
        assert json.loads(data)["content"]["image"] == "kubeedge/installation-package"
        assert json.loads(data)["content"]["imageDigestGatter"] is None


def test_pins_for_no_architecture_that_kubeedge_knows_are_not_null() -> None:
    """Null would mean: not checked."""
    assert json.loads(wire.to_edge(DOWN[1], "n", "m", NOW))["content"]["imageDigestGatter"] == {}


def test_a_spec_with_empty_pins_stays_pinned() -> None:
    data = frame(TASKS[1]).replace(b'"imageDigestGatter":null', b'"imageDigestGatter":{}')
    task = wire.from_cloud(data).body
    assert isinstance(task, StartTask)
    assert task.spec.digests == {}


def test_go_escapes_are_written_and_read() -> None:
    data = wire.to_cloud(FULL, "edge-a", "m", NOW)
    assert data.endswith(b"}\n")
    assert not set(b"<>&") & set(data)
    assert b"\\u003ca\\u003e \\u0026 \\u2028" in data


def test_an_error_names_what_it_answers() -> None:
    read = wire.from_edge(frame("ws_upstream_v1alpha1_task_response"))
    data = json.loads(wire.answer(read, wire.ERROR, "nobody knows upgrade", "m-9", NOW))
    assert data["header"]["parent_msg_id"] == "00000000-0000-4000-8000-000000000030"
    assert data["route"] == {
        "source": "taskmanager", "group": "hub", "operation": "error", "resource": "task/job-1/node/edge-a"
    }  # fmt: skip
    assert data["content"] == "nobody knows upgrade"


# ---- what cannot be used -----------------------------------------------------------------------------------------

TASK_RESOURCE = b"operations.kubeedge.io/v1alpha2/nodeupgradejob/job-1/node/edge-a"


def broken(change: tuple[bytes, bytes], body: Upstream = FULL) -> bytes:
    data = wire.to_cloud(body, "edge-a", "m", NOW)
    assert change[0] in data
    return data.replace(*change)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\n", b"null", b"[]", b"7", b'"x"', b"{", b"\xff\xfe\x00", b"PRI * HTTP/2.0", b"{}{}",
        b'{"header":[]}', b'{"header":{"timestamp":1e999}}', b'{"header":{"timestamp":' + b"9" * 5000 + b"}}",
        b'{"header":{"msg_id":7}}', b'{"route":{"resource":[]}}', b'{"route":{"operation":"\\ud800"}}',
        b"[" * 500_000, b'{"content":' + b"[" * 500_000, b'{"content":' + b"[" * 400_000 + b"]" * 400_000 + b"}",
        b'{"content":"' + b"x" * wire.MOST_BYTES + b'"}',
    ],
    ids=lambda data: repr(data[:24]),
)  # fmt: skip
def test_what_is_not_a_message_is_refused_with_a_sentence(data: bytes) -> None:
    for read in (wire.from_edge, wire.from_cloud):
        with pytest.raises(Refused, match=r"^a frame .{5,300}$"):
            read(data)


@pytest.mark.parametrize(
    "change",
    [
        (b'"beehive":{', b'"beehive":null,"x":{'),
        (b'"beehive":{', b'"beehive":[],"x":{'),
        (b'"type":"tasks.task-report"', b'"type":"tasks.hello"'),
        (b'"type":"tasks.task-report"', b'"type":"tasks.start-task"'),
        (b'"revision":5', b'"revision":-5'),
        (b'"revision":5', b'"revision":"5"'),
        (b'"attempt":0', b'"attempt":-2'),
        (b'"attempt":0', b'"attempt":2147483648'),
        (UID.encode(), b"../../etc/passwd"),
        (UID.encode(), b""),
        (UID.encode(), b"-x"),
        (UID.encode(), b"a" * 65),
        (UID.encode(), b"a\\nb"),
        (b'"job":"job-1"', b'"job":"job-2"'),
        (TASK_RESOURCE, TASK_RESOURCE.replace(b"job-1", b"job-2")),
        (TASK_RESOURCE, TASK_RESOURCE.replace(b"edge-a", b"")),
        (TASK_RESOURCE, TASK_RESOURCE.replace(b"edge-a", b"Edge_A")),
        (TASK_RESOURCE, TASK_RESOURCE.replace(b"edge-a", b"..")),
        (b'"wait_seconds":0.0', b'"wait_seconds":-1'),
        (b'"wait_seconds":0.0', b'"wait_seconds":1e999'),
    ],
)
def test_a_message_of_ours_in_the_wrong_shape_is_refused(change: tuple[bytes, bytes]) -> None:
    with pytest.raises(Refused):
        wire.from_edge(broken(change))


def test_too_many_results_are_refused() -> None:
    flood = report(results=tuple(ActionResult(action="Check", status="True") for _ in range(65)))
    with pytest.raises(Refused, match="more than 64 results"):
        wire.from_edge(wire.to_cloud(flood, "edge-a", "m", NOW))


@pytest.mark.parametrize("action", ["", "Pull", "check", "Upgrade\n", "x" * 10_000])
def test_a_legacy_report_of_an_unknown_action_is_refused(action: str) -> None:
    content = json.loads(frame("ws_upstream_v1alpha2_check_ok"))
    content["content"]["action"] = action
    with pytest.raises(Refused, match="which no upgrade has") as refusal:
        wire.from_edge(msgspec.json.encode(content))
    assert len(str(refusal.value)) < 120


@pytest.mark.parametrize("content", [b"null", b"7", b"{}", b'{"version":7}', b'{"version":"v1","imageDigestGatter":7}'])
def test_a_legacy_task_without_a_usable_spec_is_refused(content: bytes) -> None:
    data = json.loads(frame(TASKS[1]))
    data["content"] = json.loads(content)
    with pytest.raises(Refused, match="the spec of a Check"):
        wire.from_cloud(msgspec.json.encode(data))


def test_a_legacy_task_without_an_id_is_refused() -> None:
    """Its id is the only name that such a task has."""
    with pytest.raises(Refused, match="a uid"):
        wire.from_cloud(frame(TASKS[1]).replace(b"00000000-0000-4000-8000-000000000002", b""))


def test_a_message_of_our_own_cloud_without_a_uid_is_refused() -> None:
    data = wire.to_edge(DOWN[0], "n", "m", NOW).replace(UID.encode(), b"").replace(b'"attempt":2', b'"attempt":-1')
    with pytest.raises(Refused, match="a uid"):
        wire.from_cloud(data)


def test_a_job_named_node_is_read_right() -> None:
    """KubeEdge sends its message to the node `node` (spec/kubeedge.md R13)."""
    read = wire.from_edge(wire.to_cloud(report(job="node"), "edge-a", "m", NOW))
    assert (read.node, read.body) == ("edge-a", report(job="node"))


@pytest.mark.parametrize(
    "resource",
    ["", "/", "node", "a/b/c/d/e/f", f"{wire.RESOURCE}/j/node", f"{wire.RESOURCE}/j/node/n/x", f"/{wire.RESOURCE}/j/n"],
)
def test_only_six_segments_are_a_task(resource: str) -> None:
    assert wire.task_of(resource) is None


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("edge-a", True), ("a", True), ("ip-10-0-0-1.eu.internal", True), ("0", True), ("a" * 253, True),
        ("a" * 254, False), ("", False), ("A", False), ("a_b", False), ("-a", False), ("a-", False), ("a..b", False),
        (".", False), ("..", False), ("a/b", False), ("a\n", False), ("a b", False), ("ä", False), ("a\x00", False),
    ],
)  # fmt: skip
def test_names(text: str, good: bool) -> None:
    assert wire.is_name(text) is good


# ---- laws --------------------------------------------------------------------------------------------------------

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
UIDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
RESULTS = st.builds(ActionResult, action=TEXTS, status=st.sampled_from(("True", "False")), reason=TEXTS, time=TEXTS)
REPORTS = st.builds(
    TaskReport, job=NAMES, uid=UIDS, attempt=st.integers(0, 2**31 - 1), revision=st.integers(0, 2**62), action=TEXTS,
    results=st.lists(RESULTS, max_size=5).map(tuple), final=st.booleans(), code=TEXTS, reason=TEXTS,
    from_version=TEXTS, to_version=TEXTS, wait_seconds=st.floats(0, 1e9),
)  # fmt: skip
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(string.ascii_letters, max_size=10), inner),
    max_leaves=12,
)


def refusal_of(data: bytes) -> str:
    said = ""
    for read in (wire.from_edge, wire.from_cloud):
        try:
            read(data)
        except Refused as refusal:
            said += refusal.reason
    return said


@given(REPORTS, NAMES)
def test_any_report_survives_the_way(body: TaskReport, node: str) -> None:
    read = wire.from_edge(wire.to_cloud(body, node, "m", NOW))
    assert (read.node, read.body) == (node, body)


@given(st.builds(TaskSpec, version=TEXTS, image=TEXTS, digests=st.none() | st.dictionaries(TEXTS, TEXTS, max_size=4)),
       UIDS, st.floats(0, math.pow(10, 9)))  # fmt: skip
def test_any_task_survives_the_way(spec: TaskSpec, uid: str, lease: float) -> None:
    task = StartTask(job="j", uid=uid, attempt=0, spec=spec, lease_seconds=lease)
    assert wire.from_cloud(wire.to_edge(task, "n", "m", NOW)).body == task


@given(st.binary(max_size=300))
@example(b'{"route":{"operation":"Hello","resource":"' + TASK_RESOURCE + b'"}}')
def test_no_bytes_do_anything_but_be_read_or_refused(data: bytes) -> None:
    assert len(refusal_of(data)) < 1000


@given(JSON, JSON, st.sampled_from(["Check", "UpdateNodeActionStatus", "Hello", "CancelTask", "response", "x"]))
def test_no_json_does_anything_but_be_read_or_refused(content: Any, own: Any, operation: str) -> None:
    route = {"operation": operation, "resource": TASK_RESOURCE.decode()}
    data = msgspec.json.encode({"header": {"msg_id": "m"}, "route": route, "content": content, "beehive": own})
    assert len(refusal_of(data)) < 2000


@pytest.mark.parametrize(("seconds", "text"), [(0.0, "spread=0ms x"), (16.7, "spread=16700ms x")])
def test_the_spread_of_a_close(seconds: float, text: str) -> None:
    assert wire.spread_reason(seconds, "x") == text
    assert wire.spread_of(text) == seconds


@pytest.mark.parametrize(
    "reason", ["", "spread=ms", "spread=-1ms", "spread=9999999ms", "bye spread=1ms", "spread=1e9ms"]
)
def test_another_reason_of_a_close_has_no_spread(reason: str) -> None:
    assert wire.spread_of(reason) is None


def test_the_reason_of_a_close_fits_its_frame() -> None:
    assert len(wire.spread_reason(1.0, "x" * 500).encode()) <= 123


def test_what_a_peer_makes_us_remember_has_an_end() -> None:
    for number in range(5000):
        wire.task_of(f"{wire.RESOURCE}/job-{number}/node/edge")
        wire.task_of("x" * 10_000 + str(number))
    kept = kubeedge._remembered.cache_info()
    assert kept.currsize <= 4096
    assert kubeedge.task_of(f"{wire.RESOURCE}/{'j' * 10_000}/node/edge") == kubeedge.Task("j" * 10_000, "edge", False)
