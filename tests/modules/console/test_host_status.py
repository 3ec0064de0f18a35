"""What `beehive edge status` prints: the table of experience.md, and every trouble it may have to show."""

import msgspec

from beehive.messages.attempts import Attempts, InHand
from beehive.messages.host import Ended, HostState, Waiting
from beehive.messages.uplink import Link
from modules.console.host import Seen, lines

NOW = 1_764_540_000.0
NODE = HostState(
    service="edgecore", active=True, pid=812, version="v1.22.0", digest="sha256:3f01" + "0" * 56 + "99c1",
    last=Ended(
        event="Upgrade", from_version="v1.21.0", to_version="v1.22.0", result="upgrade_success",
        at=NOW - 86400, seconds=48,
    ),
)  # fmt: skip
LINK = Link(True, NOW - 3 * 3600, "wss://cloud.example:10000", 0, "", "edge-7", NOW + 212.5 * 86400)
GOOD = Seen(agent="0.1.0", trouble="", node=NODE, attempts=Attempts(), link=LINK)
IN_HAND = InHand(job="north", uid="u", attempt=1, version="v1.23.0", step="Upgrade", from_version="v1.22.0")


def shown(**changes: object) -> str:
    return "\n".join(lines(msgspec.structs.replace(GOOD, **changes), NOW))


def test_a_host_at_rest() -> None:
    assert shown() == (
        "node        edge-7          certificate good for 212 days\n"
        "cloud       connected       wss://cloud.example:10000, for 3h\n"
        "version     v1.22.0         edgecore.service active, pid 812, digest sha256:3f01…99c1\n"
        "upgrade     none\n"
        "last        v1.21.0 → v1.22.0, upgrade_success, 2025-11-29 22:00 UTC, 48s\n"
        "reports     0 waiting"
    )


def test_an_upgrade_that_waits_for_its_owner_says_what_to_type_and_until_when() -> None:
    asked = Waiting(job="north", uid="u", attempt=1, version="v1.23.0", since=NOW - 360)
    in_hand = msgspec.structs.replace(IN_HAND, step="WaitingConfirmation", owner_left=54 * 60.0)
    text = shown(node=msgspec.structs.replace(NODE, waiting=asked), attempts=Attempts(in_hand))
    assert "upgrade     waiting for you: job north wants v1.23.0 (asked 6m ago, expires in 54m)\n" in text
    assert '            beehive edge confirm north      or      beehive edge reject north --reason "…"\n' in text


def test_an_upgrade_under_way_and_one_that_waits_for_leave() -> None:
    assert "upgrade     job north, attempt 1: v1.22.0 → v1.23.0, in Upgrade\n" in shown(attempts=Attempts(IN_HAND))
    asking = msgspec.structs.replace(IN_HAND, begun=False, reason="its lease ended")
    assert "v1.23.0, before Upgrade; its lease ended\n" in shown(attempts=Attempts(asking))
    by_hand = msgspec.structs.replace(NODE, holder="somebody on this host, pid 4021, step Upgrade, since 12 s")
    assert "upgrade     under way: somebody on this host, pid 4021" in shown(node=by_hand)


def test_troubles_are_said_where_they_are() -> None:
    lost = Link(False, NOW - 60, "", 2, "the cloud cannot be reached: refused", "edge-7", NOW + 3600)
    text = shown(link=lost, attempts=Attempts(fault="attempt.json is no record"))
    assert "cloud       not connected   the cloud cannot be reached: refused (for 1m)\n" in text
    assert "node        edge-7          certificate ends in 1h\n" in text
    assert "reports     2 waiting\n" in text
    assert text.endswith("journal     attempt.json is no record")
    expired = msgspec.structs.replace(LINK, certificate_ends=NOW - 7200)
    assert "certificate expired 2h ago; join again with a token: beehive edge join" in shown(link=expired)
    stranger = Link(False, 0.0, "", 0, "there is no identity")
    assert "node        has not joined  beehive edge join --cloud" in shown(link=stranger)
    silent = HostState(service="edgecore")
    assert "version     no answer       edgecore.service not active\n" in shown(node=silent)
    assert NODE.last
    rolled = msgspec.structs.replace(NODE.last, result="upgrade_failed_rollback_success", reason="it crashed")
    assert "upgrade_failed_rollback_success, 2025-11-29 22:00 UTC, 48s: it crashed\n" in shown(
        node=msgspec.structs.replace(NODE, last=rolled)
    )


def test_without_an_agent_the_first_line_says_so() -> None:
    text = shown(agent="", trouble="nobody answers at /x")
    assert text.startswith(
        "agent       does not run    nobody answers at /x; what follows is from its records on disk\n"
    )
