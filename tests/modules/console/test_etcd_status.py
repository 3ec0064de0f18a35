"""`beehive etcd status`: what people read, and what the exit code says."""

import json

import msgspec
import pytest

from beehive.errors import Refused
from beehive.world import rfc3339
from modules.console.etcd import fetch, healthy, lines, read, spoken, stale
from modules.etcdmanager.learners import Clock
from modules.etcdmanager.members import Memory, Silence
from modules.etcdmanager.report import KEY, Remarks, Report, report
from modules.informer.config import Config as ApiConfig
from tests.rules.members import DEAD, NODES, NOW, THREE, WELL, answer, judged, member, seen

AT = 1_767_225_600.0


def told(*arguments: object, memory: Memory | None = None, **remarks: object) -> Report:
    look = seen(*arguments)  # type: ignore[arg-type]
    given = {"now": NOW, "observer": "the holder of the Lease", **remarks}
    return report(look, judged(look, memory), Remarks(**given))  # type: ignore[arg-type]


def test_a_healthy_cluster() -> None:
    one = told()
    assert healthy(one, NOW + 3)
    assert lines(one, NOW + 3) == [
        "CLUSTER   3 voters   quorum 2 of 3   leader m-1   term 2   as of 3 s ago (observer the holder of the Lease)",
        "NODE      MEMBER  ROLE    VOTER  LAG  DB     WHY",
        "server-1  m-1     leader  True   0    41 MB",
        "server-2  m-2     voter   True   0    41 MB",
        "server-3  m-3     voter   True   0    41 MB",
        "May a node go down now?  Yes, one of them: 3 of 3 voters answer, 2 are needed.",
        "May a member be added?   Yes.",
    ]


def test_a_broken_cluster_says_what_why_and_what_follows() -> None:
    members = (*THREE, member(4, learner=True), member(9, name="ghost"))
    behind = answer(4, learner=True, index=-4_900)
    alarm = answer(2, errors=("memberID:77 alarm:NOSPACE ",))
    nodes = {**NODES, "server-4": "m-4", "server-5": "m-5"}
    memory = Memory(
        silent={3: Silence(2, NOW - 47)}, last_seen={3: NOW - 47}, clocks={4: Clock("m-4", 0, 100, NOW - 40)}
    )
    one = told(
        members, {**WELL, 2: alarm, 3: DEAD, 4: behind, 9: answer(9)}, nodes, memory=memory,
        troubles=("nonsense: nonsense is not a client URL of etcd",),
    )  # fmt: skip
    assert not healthy(one, NOW)
    said = lines(one, NOW)
    assert said[0].startswith("CLUSTER   4 voters, 1 learner   quorum 3 of 4   leader m-1   term 2   as of 0 s ago")
    table = [" ".join(line.split()) for line in said[2:8]]
    assert table == [
        "server-1 m-1 leader True 0 41 MB",
        "server-2 m-2 voter True 0 41 MB",
        "server-3 m-3 voter False - - Unhealthy: did not answer in 2 s (3 passes); last s…",
        "server-4 m-4 learner False 5,000 41 MB catching up, 5,000 entries behind; last moved 40 s …",
        "server-5 m-5 - False - - NotAMember: Node is not a member of the etcd cluster",
        "- ghost voter - 0 41 MB a ghost: no Node claims this member",
    ]
    assert said[8:] == [
        "Alarm: NOSPACE of 4d, a member that is gone; it stays until disarmed",
        "Trouble: nonsense: nonsense is not a client URL of etcd",
        "May a node go down now?  No: 3 of 4 voters answer, 3 are needed (silent: m-3): losing another one would lose "
        "the quorum.",
        "May a member be added?   No: m-4 is still a learner; members join one at a time.",
    ]


def test_without_a_leader() -> None:
    one = told(THREE, {n: answer(n, leads=0) for n in (1, 2, 3)})
    assert not healthy(one, NOW)
    said = lines(one, NOW)
    assert "no leader" in said[0]
    assert [" ".join(line.split())[:52] for line in said[2:5]] == [
        f"server-{n} m-{n} voter Unknown 0 41 MB LeaderMissing: no" for n in (1, 2, 3)
    ]


def test_an_old_verdict_is_not_believed() -> None:
    one = told()
    assert stale(one, NOW + 345) == ""
    assert "nobody has confirmed this for 6m" in stale(one, NOW + 346)
    assert not healthy(one, NOW + 346)
    assert stale(msgspec.structs.replace(one, as_of="yesterday"), NOW).startswith("ObserverStale")


def test_names_of_members_cannot_move_the_cursor() -> None:
    members = (member(1), member(2, name="\x1b[2J\n\u202eevil"))
    said = lines(told(members, {1: answer(1), 2: answer(2)}), NOW)
    assert all(line.isprintable() for line in said)
    assert any("?[2J??evil" in line for line in said)


def test_a_report_survives_its_config_map() -> None:
    one = told()
    body = json.dumps({"data": {KEY: msgspec.json.encode(one).decode()}}).encode()
    assert read(body, "a/b") == one


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{}", "nobody has written to ConfigMap a/b yet; run the cloud with etcdmanager.endpoints set"),
        (b'{"data":{}}', "nobody has written"),
        (b"garbage", "ConfigMap a/b holds no verdict on etcd: "),
        (json.dumps({"data": {KEY: "{}"}}).encode(), "ConfigMap a/b holds no verdict on etcd: "),
        (json.dumps({"data": {KEY: "[" * 100_000}}).encode(), "ConfigMap a/b holds no verdict on etcd: "),
    ],
)
def test_what_holds_no_report_is_named(body: bytes, text: str) -> None:
    with pytest.raises(Refused) as refused:
        read(body, "a/b")
    assert text in refused.value.reason


async def test_without_a_config_map_there_is_nothing_to_fetch() -> None:
    with pytest.raises(Refused, match=r"etcdmanager\.report is empty"):
        await fetch(ApiConfig(), "")


@pytest.mark.parametrize(
    ("seconds", "text"), [(3, "3 s"), (119, "119 s"), (120, "2m"), (7_200, "2h"), (float("inf"), "a long time")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert spoken(seconds) == text


def test_times_in_the_report_are_absolute() -> None:
    assert told(now=AT).as_of == rfc3339(AT)
