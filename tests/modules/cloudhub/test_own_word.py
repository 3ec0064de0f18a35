"""Promise 9: a node can speak only for itself, whatever its frames say; without sockets."""

import asyncio
import logging
from typing import Any

import pytest

from beehive.bus import Bus
from beehive.messages import wire
from beehive.messages.fleet import Heard, ListOnline, NodeOffline, NodeOnline
from beehive.messages.tasks import TaskReport
from beehive.module import Endpoint
from beehive.router import Declaration
from beehive.seam import Seam
from beehive.world import World
from modules.cloudhub.fleet import Fleet, Pace
from modules.cloudhub.sessions import Sessions
from tests.modules.cloudhub.ends import report
from tests.vectors import KUBEEDGE


class Connected:
    """A connected node, as far as the fleet looks at one."""

    def __init__(self, node: str, *, legacy: bool) -> None:
        self.node, self.legacy, self.epoch, self.refused = node, legacy, 7, 0
        self.guard = Seam("a message", World(), logging.getLogger(__name__)).guarding()
        self.heard: list[Heard] = []
        self.told: list[bytes] = []
        self.closed = ""

    def hand_on(self, heard: Heard) -> None:
        self.heard.append(heard)

    def has_room(self) -> bool:
        return True

    def write(self, data: bytes) -> bool:
        self.told.append(data)
        return True

    def close(self, _code: Any, reason: str) -> None:
        self.closed = reason


def fleet() -> Fleet:
    says = Declaration("cloudhub", accepts=(ListOnline,), sends=(Heard, NodeOnline, NodeOffline))
    bus = Bus((says, Declaration("taskmanager", accepts=(Heard,))), {"cloudhub": 8, "taskmanager": 8})
    made = Fleet(Endpoint("cloudhub", bus), World(), Sessions(1), asyncio.ensure_future, Pace(100.0, 100.0))
    made.until = asyncio.get_running_loop().time() + 60
    return made


def ours(node: str) -> bytes:
    return wire.to_cloud(report(1), node, "m-1", 1.0)


def legacys(node: str) -> bytes:
    """As a real EdgeCore writes it."""
    return (KUBEEDGE / "ws_upstream_v1alpha2_check_ok.json").read_bytes().replace(b"edge-a", node.encode())


@pytest.mark.parametrize(("frame", "legacy"), [(ours, False), (legacys, True)])
async def test_a_message_about_another_node_is_set_aside(frame: Any, legacy: bool) -> None:
    one, peer = fleet(), Connected("edge-a", legacy=legacy)
    one.frame(peer, frame("edge-b"))  # type: ignore[arg-type]
    assert peer.heard == []
    assert one.counters["about_another_node"] == 1
    if not legacy:  # a real EdgeCore does not read answers
        assert b"edge-a may not speak for edge-b" in peer.told[0]
    one.frame(peer, frame("edge-a"))  # type: ignore[arg-type]
    assert [(heard.node, heard.epoch, type(heard.body)) for heard in peer.heard] == [("edge-a", 7, TaskReport)]
    assert not peer.closed


async def test_who_goes_on_speaking_for_another_is_sent_away() -> None:
    one, peer = fleet(), Connected("edge-a", legacy=False)
    for _ in range(21):
        assert not peer.closed
        one.frame(peer, ours("edge-b"))  # type: ignore[arg-type]
    assert "edge-a may not speak for edge-b" in peer.closed
