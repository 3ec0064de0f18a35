"""The port to etcd: member list and probes over gRPC with mutual TLS, through aetcd's stubs.

aetcd 1.0.0 itself opens only plain channels to one host, so the channels are made here (libraries.md, blocking gap 1):
one for each endpoint, each call with a deadline. gRPC's own complaints on stderr are silenced; ours carry their text.
"""

import os
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc
import grpc.aio
from aetcd import rpc

from beehive.errors import Refused, Unavailable
from modules.etcdmanager.config import Config
from modules.etcdmanager.members import Member, Probe

T = TypeVar("T")

_OPTIONS = (("grpc.max_reconnect_backoff_ms", 1000), ("grpc.enable_http_proxy", 0))


class Etcd:
    """Channels to the members of one cluster."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._timeout = float(config.probe_timeout)
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._credentials: grpc.ChannelCredentials | None = None

    async def close(self) -> None:
        """Close all channels."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def members(self) -> tuple[Member, ...]:
        """The member list from the first endpoint that answers. Raises Unavailable when none does."""
        troubles = []
        for url in self._config.endpoints:
            try:
                stub = rpc.ClusterStub(self._channel(url))
                answer = await self._call(
                    url, stub.MemberList(rpc.MemberListRequest(linearizable=False), timeout=self._timeout)
                )
            except Unavailable as error:
                troubles.append(error.reason)
                continue
            return tuple(Member(one.ID, one.name, tuple(one.clientURLs), one.isLearner) for one in answer.members)
        raise Unavailable("; ".join(troubles) or "no endpoint is configured")

    async def probe(self, member: Member) -> Probe:
        """Ask the member itself how it is, at its own addresses in order; never raises."""
        trouble = ""
        for url in member.client_urls:
            try:
                stub = rpc.MaintenanceStub(self._channel(url))
                answer = await self._call(url, stub.Status(rpc.StatusRequest(), timeout=self._timeout))
            except (Unavailable, Refused) as error:
                trouble = f"failed to check etcd member status: {error.reason}"
                continue
            return Probe(
                member_id=answer.header.member_id, leader=answer.leader, term=answer.raftTerm,
                is_learner=answer.isLearner, errors=tuple(answer.errors),
            )  # fmt: skip
        return Probe(trouble=trouble or "etcd member ClientURLs list is empty")

    async def _call(self, url: str, call: Awaitable[T]) -> T:
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise Unavailable(self._explained(url, error)) from None

    def _explained(self, url: str, error: grpc.aio.AioRpcError) -> str:
        if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"{url} did not answer in {self._timeout:g} s"
        return f"{url}: {error.code().name.lower()}: {error.details()}"

    def _channel(self, url: str) -> grpc.aio.Channel:
        if url not in self._channels:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.netloc:
                raise Refused(f"{url} is not a client URL of etcd; write one like https://10.0.0.1:2379")
            options: Any = list(_OPTIONS)
            self._channels[url] = (
                grpc.aio.secure_channel(parts.netloc, self._secure(), options=options)
                if parts.scheme == "https"
                else grpc.aio.insecure_channel(parts.netloc, options=options)
            )
        return self._channels[url]

    def _secure(self) -> grpc.ChannelCredentials:
        if self._credentials is None:
            ca, key, certificate = (
                Path(name).read_bytes() if name else None
                for name in (self._config.ca_file, self._config.key_file, self._config.cert_file)
            )
            self._credentials = grpc.ssl_channel_credentials(ca, key, certificate)
        return self._credentials
