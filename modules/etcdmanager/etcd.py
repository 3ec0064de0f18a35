"""The port to etcd: what a cluster shows in one look, and the few orders that it is given.

A look asks every configured endpoint for the member list, the first good answer counts, and then every member at its
own addresses, all at once. `Status` makes a member panic whose removal was just applied (spec/k3s-etcd.md 12b.3), so
only members of the list of this very look are asked, and none that is being removed.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aetcd import rpc
from msgspec import Struct

from beehive.errors import Refused, Unavailable
from modules.etcdmanager import debugvars
from modules.etcdmanager.answers import AGAIN
from modules.etcdmanager.channels import Channels, EtcdError
from modules.etcdmanager.config import Config
from modules.etcdmanager.records import PREFIX
from modules.etcdmanager.sight import BUSY, SILENT, STARTING, Member, Probe, Seen, facts, trouble_of
from modules.etcdmanager.tls import OPEN_AND_SILENT, explain


class Listing(Struct, frozen=True):
    """A member list, and what lay beside it in the store."""

    members: tuple[Member, ...]
    cluster_id: int
    fenced: bool
    """A majority confirmed it: a linearizable read came just before, from the same member."""
    k3s: bytes | None = None
    k3s_revision: int = 0
    """Of its last change; 0: there is no record."""
    own: Mapping[str, bytes] = {}


class Look(Struct, frozen=True):
    """All of it."""

    seen: Seen
    listing: Listing


class Etcd:
    """One cluster."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._seconds = float(config.probe_timeout)
        self._known: tuple[str, ...] = ()
        self.channels = Channels(config)

    async def close(self) -> None:
        """Close all channels."""
        await self.channels.close()

    async def look(self, nodes: Mapping[str, str], wishes: frozenset[str], leaving: frozenset[int]) -> Look:
        """Raises Unavailable, naming every endpoint's trouble, when no endpoint has a member list."""
        await self.channels.refresh()
        troubles: dict[str, str] = {}
        asked = self._ask_all(troubles)
        try:
            listing = await self._first(asked) or await self._unconfirmed(troubles)
            # What a majority confirmed holds no member whose removal is done; whoever is still there stays.
            members = [one for one in listing.members if one.client_urls and (listing.fenced or one.id not in leaving)]
            probes = dict(
                zip((one.id for one in members), await asyncio.gather(*map(self.probe, members)), strict=True)
            )
            await asyncio.wait(asked)
            if not listing.fenced:
                # Without a quorum no list is confirmed by anybody: that is no fault of an endpoint that answers.
                answer = {url for one in members if not probes[one.id].trouble for url in one.client_urls}
                troubles = {url: why for url, why in troubles.items() if url not in answer}
        finally:
            for task in asked:
                task.cancel()
        self._known = tuple(url for one in members if not one.is_learner for url in one.client_urls)
        await self.channels.keep_only(frozenset((*self._config.endpoints, *self._known, *_urls(members))))
        seen = Seen(
            listing.members, probes, nodes, None, wishes, listing.cluster_id, troubles, listing.fenced
        )  # fmt: skip
        return Look(await self._with_progress(seen), listing)

    # ---- the member list ---------------------------------------------------------------------------------------

    def _ask_all(self, troubles: dict[str, str]) -> "list[asyncio.Task[Listing | None]]":
        urls = dict.fromkeys((*self._config.endpoints, *self._known))
        return [asyncio.create_task(self._listing(url, troubles)) for url in urls]

    async def _first(self, asked: "list[asyncio.Task[Listing | None]]") -> Listing | None:
        for done in asyncio.as_completed(asked):
            if listing := await done:
                return listing
        return None

    async def _listing(self, url: str, troubles: dict[str, str]) -> Listing | None:
        """A confirmed one from this endpoint, or None with its trouble noted."""
        try:
            return await self._confirmed(url)
        except EtcdError as error:
            if url in self._config.endpoints:
                troubles[url] = await self._why(url, error)
            return None

    async def _confirmed(self, url: str, again: bool = True) -> Listing:
        key = self._config.progress_key.encode()
        try:
            record = await self._call(url, rpc.KVStub, "Range", rpc.RangeRequest(key=key))
            own = await self._call(url, rpc.KVStub, "Range", rpc.RangeRequest(
                key=PREFIX.encode(), range_end=PREFIX[:-1].encode() + b"0", limit=64,
            ))  # fmt: skip
            answer = await self._call(
                url, rpc.ClusterStub, "MemberList", rpc.MemberListRequest(linearizable=True)
            )  # fmt: skip
        except EtcdError as error:
            if error.means == AGAIN and again:
                return await self._confirmed(url, again=False)
            raise
        first = record.kvs[0] if record.kvs else None
        return Listing(
            _members(answer), answer.header.cluster_id, True, first.value if first else None,
            first.mod_revision if first else 0, {one.key.decode("utf-8", "replace"): one.value for one in own.kvs},
        )  # fmt: skip

    async def _unconfirmed(self, troubles: dict[str, str]) -> Listing:
        """Without a quorum a voter still tells what it last knew."""
        urls = dict.fromkeys((*self._config.endpoints, *self._known))
        for done in asyncio.as_completed([self._last_known(url) for url in urls]):
            if listing := await done:
                return listing
        raise Unavailable("; ".join(f"{url}: {why}" for url, why in troubles.items()) or "no endpoint is configured")

    async def _last_known(self, url: str) -> Listing | None:
        try:
            answer = await self._call(url, rpc.ClusterStub, "MemberList", rpc.MemberListRequest(linearizable=False))
        except EtcdError:
            return None
        return Listing(_members(answer), answer.header.cluster_id, fenced=False)

    async def local_member(self) -> int:
        """Id of the member at `localEndpoint`; 0: it does not tell. No `Status`: it may just have been removed."""
        try:
            request = rpc.MemberListRequest(linearizable=False)
            answer = await self._call(self._config.local_endpoint, rpc.ClusterStub, "MemberList", request)
        except EtcdError:
            return 0
        return int(answer.header.member_id)

    # ---- probes ------------------------------------------------------------------------------------------------

    async def probe(self, member: Member) -> Probe:
        """Ask the member itself how it is, at all its addresses at once; never raises."""
        answers = await asyncio.gather(*(self._probe(member, url) for url in member.client_urls))
        good = [one for one in answers if not one.trouble]
        own = [one for one in good if one.member_id == member.id]
        return (own or good or sorted(answers, key=lambda one: one.state == SILENT))[0]

    async def _probe(self, member: Member, url: str) -> Probe:
        status = asyncio.create_task(self._status(url))
        done, _ = await asyncio.wait((status,), timeout=self._seconds / 2)
        # In the second half lesser questions go beside the first: a hung member costs no more than its time.
        beside = None if done else asyncio.create_task(self._lesser(url))
        try:
            return await status
        except EtcdError as error:
            state, why = await beside if beside else (SILENT, "")
            words = why or await self._why(url, error)
            return Probe(f"failed to check etcd member status: {url} {words}", state or SILENT)
        finally:
            if beside:
                beside.cancel()

    async def _status(self, url: str) -> Probe:
        answer = await self._call(url, rpc.MaintenanceStub, "Status", rpc.StatusRequest())
        return Probe(
            member_id=answer.header.member_id, cluster_id=answer.header.cluster_id, leader=answer.leader,
            term=answer.raftTerm, is_learner=answer.isLearner, errors=tuple(answer.errors), index=answer.raftIndex,
            applied=answer.raftAppliedIndex, db_size=answer.dbSize, db_in_use=answer.dbSizeInUse,
            version=answer.version,
        )  # fmt: skip

    async def _lesser(self, url: str) -> tuple[str, str]:
        """State and words for a member that does not answer `Status`."""
        rest = self._seconds / 2
        late = f"did not answer in {self._seconds:g} s"
        try:
            await self.channels.call(url, rpc.ClusterStub, "MemberList", rpc.MemberListRequest(), rest * 0.5)
        except EtcdError as error:
            if "not supported for learner" not in error.words:
                silent = await explain(url, self._config, rest * 0.35) == OPEN_AND_SILENT
                return (STARTING, f"{late}; {OPEN_AND_SILENT}") if silent else (SILENT, late)
        return BUSY, f"{late}, but answers other questions: it is busy"

    async def _why(self, url: str, error: EtcdError) -> str:
        """TLS faults by their names: gRPC has one text for three of them."""
        if error.ours or error.timed_out or error.words == "connection refused":
            return error.words
        try:
            return await explain(url, self._config, self._seconds / 2) or error.words
        except Refused as refused:
            return refused.reason

    async def _with_progress(self, seen: Seen) -> Seen:
        leads = facts(seen).leader
        found = next((one for one in seen.members if one.id == leads), None)
        if found is None or not any(one.is_learner or trouble_of(one, seen) for one in seen.members):
            return seen
        told, why = await debugvars.progress(found, self._config)
        troubles = seen.endpoint_troubles
        if why and self._config.http_url:  # where nobody set it, members need not tell
            troubles = {**troubles, "etcdmanager.httpUrl": why}
        return Seen(
            seen.members, seen.probes, seen.nodes, told, seen.wishes, seen.cluster_id, troubles, seen.fenced
        )  # fmt: skip

    async def _call(self, url: str, stub: Callable[[Any], Any], method: str, request: Any) -> Any:
        return await self.channels.call(url, stub, method, request, self._seconds)


def _members(answer: Any) -> tuple[Member, ...]:
    return tuple(Member(one.ID, one.name, tuple(one.clientURLs), one.isLearner) for one in answer.members)


def _urls(members: Iterable[Member]) -> list[str]:
    return [url for one in members for url in one.client_urls]
