"""What the tool and the check say: report file, verdict, reasons, sentences."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.errors import Refused
from beehive.messages.host import Verdict
from modules.upgrader.checks import Room, judge_load, judge_room, judge_tool, judge_version, unknown_items
from modules.upgrader.config import Config, Limits, from_json, to_json
from modules.upgrader.host.lock import Holder
from modules.upgrader.host.names import attempt_key, checked_name, unit_key
from modules.upgrader.host.service import Status, ended
from modules.upgrader.host.systemd import read_status
from modules.upgrader.sentences import LONGEST, reason, with_last_words, without_secrets
from modules.upgrader.tool.phases import Phase
from modules.upgrader.tool.record import Order, Record
from modules.upgrader.tool.report import encode, of_verdict, report
from modules.upgrader.tool.verdict import verdict_of
from tests.vectors import KUBEEDGE

# ---- the report file ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vector", "ours"),
    [
        ("file_upgrade_report_backup_ok.json", report("Backup", "", "v1.22.1")),
        ("file_upgrade_report_upgrade_ok.json", report("Upgrade", "v1.22.1", "v1.23.1")),
        (
            "file_upgrade_report_upgrade_failed.json",
            report("Upgrade", "v1.22.1", "v1.23.1", "failed to stop edgecore, err: boom"),
        ),
        ("file_upgrade_report_rollback_ok.json", report("Rollback", "v1.23.1", "v1.22.1")),
        (
            "file_upgrade_report_occupied.json",
            report("Upgrade", "unknown", "v1.23.1", "the mutually exclusive command is being executed"),
        ),
    ],
)
def test_the_report_file_is_kubeedges_byte_for_byte(vector: str, ours: object) -> None:
    theirs = (KUBEEDGE / vector).read_bytes()
    assert msgspec.json.encode(ours) == theirs


ORDER = Order(
    uid="6b1f",
    from_version="v1.22.1",
    to_version="v1.23.1",
    old_digest="sha256:a",
    new_digest="sha256:b",
    backup="v1.22.1",
)


def test_an_upgrade_that_went_well_is_reported_as_kubeedge_does() -> None:
    verdict = verdict_of(Record(order=ORDER, phase=Phase.DONE), "v1.23.1")
    assert verdict == Verdict("Upgrade", True, "", "", "v1.22.1", "v1.23.1")
    assert encode(of_verdict(ORDER, verdict)) == (KUBEEDGE / "file_upgrade_report_upgrade_ok.json").read_bytes()


def test_a_rolled_back_upgrade_is_reported_as_the_rollback_that_it_was() -> None:
    """A failed `Upgrade` would make a real EdgeCore start a second rollback (spec/kubeedge.md 7.7)."""
    verdict = verdict_of(Record(order=ORDER, phase=Phase.ROLLED_BACK, reason="it crashed"), "v1.22.1")
    assert (verdict.step, verdict.ok, verdict.code) == ("RollBack", True, "RolledBack")
    assert (verdict.from_version, verdict.to_version) == ("v1.22.1", "v1.22.1"), "what was there, what is there"
    assert msgspec.to_builtins(of_verdict(ORDER, verdict)) == {
        "event": "Rollback",
        "success": True,
        "fromVersion": "v1.23.1",
        "toVersion": "v1.22.1",
        "errorMessage": "it crashed",
    }


def test_a_failed_rollback_explains_itself_within_256_characters() -> None:
    record = Record(order=ORDER, phase=Phase.ROLLBACK_FAILED, reason="x" * 300, undo_problem="y" * 300)
    verdict = verdict_of(record, "")
    assert len(verdict.reason) <= LONGEST
    assert verdict.reason.endswith(
        "on disk: no program that answers; mend it: keadm rollback edge --historical-version v1.22.1"
    )
    assert of_verdict(ORDER, verdict).success is False


# ---- reasons --------------------------------------------------------------------------------------------------------


def test_a_crash_is_told_in_one_sentence() -> None:
    status = Status(exit_code=1, lasted=0.3)
    log = ["starting", "panic: x", "cannot open database: schema 9", ""]
    said = with_last_words(f"v1.23.0 {ended(status)}", log)
    assert said == 'v1.23.0 exited with code 1 after 0.3 s: "cannot open database: schema 9"'
    assert with_last_words("v1.23.0 stopped", []) == "v1.23.0 stopped"


@pytest.mark.parametrize(
    ("text", "gone", "stays"),
    [
        ("login failed: password=hunter2 user=bob", "hunter2", "user=bob"),
        ('config {"token": "abc.def", "port": 1}', "abc.def", '"port": 1'),
        ("Authorization: Bearer abcdef.ghi-jkl", "abcdef.ghi-jkl", "Authorization"),
        ("sent header Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "sent header"),
        ("dial https://bob:hunter2@registry.example/v2/", "hunter2", "registry.example"),
        ("run edgecore --token=hunter2 --port 1", "hunter2", "--port 1"),
        ("run edgecore --token hunter2 --port 1", "hunter2", "--port 1"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.sig-nature here", "sig-nature", "here"),
        ("AWS_SECRET_ACCESS_KEY=hunter2 set", "hunter2", "set"),
        ("-----BEGIN PRIVATE KEY----- MIIEvQ", "MIIEvQ", ""),
    ],
)
def test_secrets_do_not_leave_the_host(text: str, gone: str, stays: str) -> None:
    cleaned = without_secrets(text)
    assert gone not in cleaned
    assert stays in cleaned


@pytest.mark.parametrize(
    "text", ["cannot open database: schema 9", "disk: 91 % used", "token bucket is empty", "v1.23.0"]
)
def test_ordinary_words_stay(text: str) -> None:
    assert reason(text) == text


@given(st.text(max_size=600), st.lists(st.text(max_size=300), max_size=4))
def test_a_reason_is_one_short_printable_line(text: str, log: list[str]) -> None:
    for said in (reason(text), with_last_words(text, log)):
        assert len(said) <= LONGEST
        assert "\n" not in said
        assert "\x1b" not in said
        said.encode()


# ---- the check ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("installed", "wanted", "downgrade", "code"),
    [
        ("v1.22.0", "v1.23.0", False, None),
        ("v1.23.0", "v1.23.0", False, "AlreadyAtVersion"),
        ("v1.23.0", "1.23.0", True, "AlreadyAtVersion"),
        ("v1.24.0", "v1.23.0", False, "Newer"),
        ("v1.24.0", "v1.23.0", True, None),
        ("v1.23.0-acme.5", "v1.23.0", False, None),  # vendors' suffixes have no order that one may trust
    ],
)
def test_versions_are_judged(installed: str, wanted: str, downgrade: bool, code: str | None) -> None:
    objection = judge_version(installed, wanted, allow_downgrade=downgrade)
    assert (objection.code if objection else None) == code


def test_only_what_is_more_than_the_limit_fails_and_is_told_with_numbers() -> None:
    assert judge_load({"cpu": 80.0, "mem": 79.9}, Limits()) is None
    objection = judge_load({"cpu": 91.04, "mem": 10.0, "disk /var": 99.0}, Limits())
    assert objection
    assert objection.reason == "cpu: 91.0 % used, 80 % allowed; disk /var: 99.0 % used, 80 % allowed"


def test_an_unknown_item_or_tool_never_passes() -> None:
    assert unknown_items(("cpu", "gpu"))
    assert unknown_items(("cpu", "mem", "disk")) is None
    assert judge_tool("keadm") is None
    assert judge_tool("") is not None
    assert "'rm -rf'" in (judge_tool("rm -rf") or pytest.fail("taken")).reason


def test_too_little_room_is_told_with_its_parts() -> None:
    gib = 1024**3
    needs = {"image": int(0.4 * gib), "backup": int(0.9 * gib), "program": int(0.1 * gib), "reserve": int(0.6 * gib)}
    objection = judge_room([Room("/etc/kubeedge", int(1.2 * gib), needs)])
    assert objection
    assert objection.reason == (
        "disk: 1.2 GiB free on /etc/kubeedge, 2.0 GiB needed: image 0.4, backup 0.9, program 0.1, reserve 0.6"
    )
    assert judge_room([Room("/etc/kubeedge", 3 * gib, needs)]) is None


# ---- names, settings, systemd ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "-rf", ".hidden", "a..b", "a b", "a\n", "ä", "a" * 101])
def test_names_that_are_no_part_of_a_path_are_refused(name: str) -> None:
    with pytest.raises(Refused, match="cannot be the name of a file"):
        checked_name(name)


def test_an_attempt_has_a_full_key_and_a_short_unit() -> None:
    uid = "6b1f2c34-0000-4000-8000-000000000000"
    assert attempt_key(uid, 2) == f"{uid}-2"
    assert unit_key(uid, 2) == "6b1f2c34-2"
    with pytest.raises(Refused):
        unit_key("../../x", 0)


def test_settings_travel_in_a_request_unchanged() -> None:
    config = Config(root="/srv/host", tool=("keadm",))
    assert from_json(to_json(config)) == config


def test_a_holder_is_a_phrase() -> None:
    assert (
        Holder(step="Upgrade", pid=7, since=10.0).phrase(15.0)
        == "somebody on this host, pid 7, step Upgrade, since 5 s"
    )


SHOWN = """ActiveState={active}
SubState={sub}
MainPID={pid}
NRestarts={restarts}
ExecMainCode={code}
ExecMainStatus={status}
ExecMainStartTimestampMonotonic=5000000
ExecMainExitTimestampMonotonic={end}
InvocationID=3f2a
"""


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (
            SHOWN.format(active="active", sub="running", pid=812, restarts=0, code=0, status=0, end=0),
            Status(active=True, pid=812, run="3f2a"),
        ),
        (
            SHOWN.format(active="failed", sub="failed", pid=0, restarts=0, code=1, status=1, end=5300000),
            Status(exit_code=1, lasted=0.3, run="3f2a"),
        ),
        (
            SHOWN.format(active="failed", sub="failed", pid=0, restarts=2, code=2, status=9, end=7000000),
            Status(restarts=2, signal=9, lasted=2.0, run="3f2a"),
        ),
        (  # it pauses before its next run: how the last one ended is known
            SHOWN.format(active="activating", sub="auto-restart", pid=0, restarts=3, code=1, status=1, end=5100000),
            Status(active=True, restarts=3, exit_code=1, lasted=0.1, run="3f2a"),
        ),
        (  # the same, from systemd 254 on, while the start waits in the queue
            SHOWN.format(
                active="activating", sub="auto-restart-queued", pid=0, restarts=3, code=2, status=9, end=5100000
            ),
            Status(active=True, restarts=3, signal=9, lasted=0.1, run="3f2a"),
        ),
        (  # its next run is under way: how the one before ended says nothing about this one
            SHOWN.format(active="activating", sub="start", pid=813, restarts=3, code=1, status=1, end=5100000),
            Status(active=True, pid=813, restarts=3, lasted=0.1, run="3f2a"),
        ),
        ("ActiveState=inactive\nMainPID=[not set]\nNRestarts=", Status()),
        ("", Status()),
    ],
)
def test_what_systemctl_shows_is_read(text: str, status: Status) -> None:
    assert read_status(text) == status
