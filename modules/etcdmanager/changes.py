"""The port to etcd, its writing half: one membership change with a deadline, and the progress records.

etcd itself has no time limit for a removal, and an order whose deadline passed may still be carried out when a dead
member comes back (spec/k3s-etcd.md 12b.3). So a change that was not answered is `unknown`, never sent again; who
ordered it lists the members anew. MemberUpdate is not used at all: it can kill every other member.
"""

from collections.abc import Callable, Mapping
from typing import Any

from aetcd import rpc
from msgspec import Struct

from modules.etcdmanager.answers import AGAIN, GONE, NEXT, UNKNOWN, WAIT
from modules.etcdmanager.channels import Channels, EtcdError
from modules.etcdmanager.config import Config
from modules.etcdmanager.etcd import Listing
from modules.etcdmanager.learners import Clock
from modules.etcdmanager.orders import Evict, MoveLeader, Order, Promote, Remove
from modules.etcdmanager.records import key, write_k3s, write_own
from modules.etcdmanager.sight import Member

DEADLINE = 5.0
"""Seconds for one change."""

DONE = "done"


class Outcome(Struct, frozen=True):
    """What became of an order."""

    kind: str
    """DONE, `wait`, `refused` or `unknown`."""
    text: str = ""


class Changes:
    """Of one cluster."""

    def __init__(self, config: Config, channels: Channels) -> None:
        self._config = config
        self._channels = channels

    async def carry_out(self, order: Order, leader: Member) -> Outcome:
        """Send it to the leader, once; the leader's further addresses only where the first did not take it."""
        stub, method, request = _request(order)
        last = Outcome("refused", "the leader has no address")
        for url in leader.client_urls:
            try:
                await self._channels.call(url, stub, method, request, DEADLINE)
            except EtcdError as error:
                last = _outcome(order, error)
                if error.means == NEXT:
                    continue
                return last
            return Outcome(DONE)
        return last

    async def keep(self, clocks: Mapping[int, Clock], listing: Listing, leader: Member) -> str:
        """Write the records; why not, else empty.

        Never leave it out while there is a learner: an idle learner of etcd 3.6 that joined by a snapshot hangs until
        something is committed (spec/k3s-etcd.md 12b.3).
        """
        oldest = min(clocks, key=lambda one: (clocks[one].since, one), default=0)
        puts = [rpc.RequestOp(request_put=rpc.PutRequest(key=key(one).encode(), value=write_own(clock)))
                for one, clock in clocks.items()]  # fmt: skip
        if oldest:
            put = rpc.PutRequest(key=self._config.progress_key.encode(), value=write_k3s(oldest, clocks[oldest]))
            puts.append(rpc.RequestOp(request_put=put))
        known = {key(one) for one in clocks}
        gone = [rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=name.encode()))
                for name in sorted(listing.own.keys() - known)]  # fmt: skip
        if not puts and not gone:
            return ""
        guard = rpc.Compare(
            result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=self._config.progress_key.encode(),
            mod_revision=listing.k3s_revision,
        )  # fmt: skip
        request = rpc.TxnRequest(compare=[guard], success=[*puts, *gone])
        try:
            answer = await self._channels.call(
                leader.client_urls[0], rpc.KVStub, "Txn", request, float(self._config.probe_timeout)
            )  # fmt: skip
        except EtcdError as error:
            return str(error)
        return "" if answer.succeeded else "another observer wrote the progress record just now"


def _request(order: Order) -> tuple[Callable[[Any], Any], str, Any]:
    match order:
        case Promote(id=member):
            return rpc.ClusterStub, "MemberPromote", rpc.MemberPromoteRequest(ID=member)
        case Evict(id=member) | Remove(id=member):
            return rpc.ClusterStub, "MemberRemove", rpc.MemberRemoveRequest(ID=member)
        case MoveLeader(id=member):
            return rpc.MaintenanceStub, "MoveLeader", rpc.MoveLeaderRequest(targetID=member)


def _outcome(order: Order, error: EtcdError) -> Outcome:
    if error.means == GONE:
        return Outcome(DONE) if isinstance(order, Evict | Remove) else Outcome("refused", error.words)
    if error.means == WAIT:
        return Outcome("wait", error.words)
    if error.means in (UNKNOWN, AGAIN):
        return Outcome("unknown", error.words)
    return Outcome("refused", error.words)
