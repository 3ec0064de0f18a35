"""gRPC channels to etcd with mutual TLS: one for each address, made anew when a certificate file changes.

aetcd 1.0.0 itself opens only plain channels to one host (libraries.md, blocking gap 1), so only its stubs are used.
gRPC's defaults would let a channel wait up to two minutes before it tries again, and it never reads a file twice
(trap 24). Its own complaints on stderr are silenced; ours carry their text.
"""

import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc
import grpc.aio

from beehive.errors import Refused
from modules.etcdmanager.answers import NEXT, UNKNOWN, in_words, meaning
from modules.etcdmanager.config import Config
from modules.etcdmanager.tls import address, context, stamp

T = TypeVar("T")

_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class EtcdError(Exception):
    """A call that etcd, or the way to it, did not answer as asked."""

    def __init__(self, url: str, means: str, words: str, *, timed_out: bool = False, ours: bool = False) -> None:
        super().__init__(f"{url}: {words}")
        self.url = url
        self.means = means
        """One of the words of `answers`."""
        self.words = words
        self.timed_out = timed_out
        self.ours = ours
        """Nothing was sent: the address or the files are wrong."""


class Channels:
    """By client URL."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._open: dict[str, grpc.aio.Channel] = {}
        self._credentials: grpc.ChannelCredentials | None = None
        self._stamp = stamp(config)
        self.reloads = 0

    async def refresh(self) -> None:
        """At the start of a pass: forget channels whose certificates were replaced."""
        now = stamp(self._config)
        if now != self._stamp:
            self._stamp, self._credentials = now, None
            self.reloads += 1
            await self.close()

    async def keep_only(self, urls: frozenset[str]) -> None:
        """Close the channels to members that are gone."""
        for url in self._open.keys() - urls:
            await self._open.pop(url).close()

    async def close(self) -> None:
        """Close all."""
        while self._open:
            await self._open.popitem()[1].close()

    async def call(
        self, url: str, stub: Callable[[grpc.aio.Channel], Any], method: str, request: Any, seconds: float
    ) -> Any:  # fmt: skip
        """Call a method of a stub at this address, with a deadline. Raises EtcdError."""
        try:
            return await _within(getattr(stub(self._channel(url)), method)(request, timeout=seconds))
        except Refused as error:
            raise EtcdError(url, NEXT, error.reason, ours=True) from None
        except grpc.aio.AioRpcError as error:
            code, details = error.code().name, error.details() or ""
            timed_out = code == "DEADLINE_EXCEEDED"
            words = f"did not answer in {seconds:g} s" if timed_out else in_words(code, details)
            raise EtcdError(url, UNKNOWN if timed_out else meaning(code, details), words, timed_out=timed_out) from None

    def _channel(self, url: str) -> grpc.aio.Channel:
        if url not in self._open:
            parts = address(url)
            options: Any = list(_OPTIONS)
            self._open[url] = (
                grpc.aio.secure_channel(parts.netloc, self._secure(), options=options)
                if parts.scheme == "https"
                else grpc.aio.insecure_channel(parts.netloc, options=options)
            )
        return self._open[url]

    def _secure(self) -> grpc.ChannelCredentials:
        if self._credentials is None:
            names = (self._config.ca_file, self._config.key_file, self._config.cert_file)
            _usable(self._config)
            self._credentials = grpc.ssl_channel_credentials(*(_read(name) for name in names))
        return self._credentials


def _usable(config: Config) -> None:
    try:
        context(config)
    except ssl.SSLError as error:
        files = ", ".join(name for name in (config.ca_file, config.cert_file, config.key_file) if name)
        raise Refused(f"{files} are not certificates and key that belong together: {error.reason}") from None
    except OSError as error:
        name = next((one for one in (config.ca_file, config.cert_file, config.key_file) if _missing(one)), "")
        raise Refused(f"{name}: {error.strerror}; etcdmanager cannot talk TLS without it") from None


def _missing(name: str) -> bool:
    return bool(name) and not os.access(name, os.R_OK)


def _read(name: str) -> bytes | None:
    return Path(name).read_bytes() if name else None


async def _within(call: Awaitable[T]) -> T:
    return await call
