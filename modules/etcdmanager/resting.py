"""etcdmanager where no endpoint is configured: the same conversation, nothing done, and gRPC never imported."""

from beehive.message import Lagged
from beehive.messages.etcd import MembershipJudged
from beehive.messages.objects import (
    LeadershipChanged,
    ListNodes,
    PatchNode,
    PatchNodeCondition,
    PatchObject,
    RecordEvent,
)
from beehive.module import Endpoint

ACCEPTS = (LeadershipChanged, Lagged)
SENDS = (MembershipJudged, RecordEvent)
ASKS = (ListNodes, PatchNodeCondition, PatchNode, PatchObject)


class Resting:
    """Ready, and silent."""

    accepts = ACCEPTS
    sends = SENDS
    asks = ASKS

    async def run(self, endpoint: Endpoint) -> None:
        """Until the messages end."""
        endpoint.ready()
        async for _ in endpoint.messages():
            pass
