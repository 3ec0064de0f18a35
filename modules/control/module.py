"""The shell of local control: takes questions from the socket, asks who knows, answers."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

from beehive.errors import BeehiveError, RuntimeFailed
from beehive.local import listen, peer_of
from beehive.message import Request
from beehive.messages.attempts import ListAttempts
from beehive.messages.host import Decided, LookAtHost, OwnerDecides, ReadLogs
from beehive.messages.uplink import LinkState
from beehive.module import Endpoint
from modules.control.access import may_ask, number_of
from modules.control.config import Config
from modules.control.requests import (
    LONGEST,
    Answer,
    Decide,
    Hello,
    Logs,
    Question,
    Status,
    encode,
    question,
)
from modules.control.web import Web

_log = logging.getLogger(__name__)
_AGAIN = 30.0
_MOST_AT_ONCE = 8
R = TypeVar("R")


class Control:
    """One question a connection; a handful of connections at a time."""

    accepts = ()
    sends = ()
    asks = (ListAttempts, LookAtHost, OwnerDecides, ReadLogs, LinkState)

    def __init__(self, config: Config, place: Path) -> None:
        self._config, self._place = config, place
        self._group = number_of(config.group)
        self._busy = 0

    async def run(self, endpoint: Endpoint) -> None:
        """Until its messages end. A socket that cannot be made is waited for, visibly: the host is upgraded anyway."""
        endpoint.ready()
        async with asyncio.TaskGroup() as group:
            serving = [group.create_task(self._serve_socket(endpoint))]
            if self._config.http:
                serving.append(group.create_task(Web(self._config.http, self._confirm_by(endpoint)).serve(endpoint)))
            async for _ in endpoint.messages():
                """Nothing is said to it."""
            for task in serving:
                task.cancel()

    async def _serve_socket(self, endpoint: Endpoint) -> None:
        async with self._listening(endpoint) as listening:
            server = await asyncio.start_unix_server(
                lambda reader, writer: self._serve(endpoint, reader, writer), sock=listening, limit=LONGEST
            )
            async with server:
                await server.serve_forever()

    @contextlib.asynccontextmanager
    async def _listening(self, endpoint: Endpoint) -> AsyncIterator[socket.socket]:
        made = self._try_to_listen(endpoint)
        while made is None:
            await asyncio.sleep(_AGAIN)
            made = self._try_to_listen(endpoint)
        endpoint.ready()
        ours = self._place.lstat().st_ino
        try:
            yield made
        finally:
            with contextlib.suppress(OSError):
                if self._place.lstat().st_ino == ours:
                    self._place.unlink()

    def _try_to_listen(self, endpoint: Endpoint) -> socket.socket | None:
        try:
            return listen(self._place, group=self._group)
        except (OSError, RuntimeFailed) as error:
            trouble = f"its socket {self._place}: {getattr(error, 'strerror', None) or error}"
            _log.warning("nobody can ask this agent on its host: %s", trouble)
            endpoint.waiting_for(trouble)
            return None

    # ---- one connection -------------------------------------------------------------------------------------------

    async def _serve(self, endpoint: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._busy += 1
        try:
            async with asyncio.timeout(3 * self._config.patience):
                answer = await self._answered(endpoint, reader, writer)
                if answer:
                    writer.write(encode(answer))
                    await writer.drain()
        except (OSError, TimeoutError):
            _log.debug("somebody on this host went away in the middle of a question")
            writer.transport.abort()
        finally:
            self._busy -= 1
            writer.close()

    async def _answered(
        self, endpoint: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Answer | None:
        """None: nobody is there to hear it."""
        peer = peer_of(writer.get_extra_info("socket"))
        if not may_ask(peer, os.geteuid(), self._group):
            who = f"root and the group {self._config.group}" if self._config.group else "root"
            return Answer(problem=f"only {who} may ask this agent; you are user {peer.uid}")
        if self._busy > _MOST_AT_ONCE:
            return Answer(problem=f"{_MOST_AT_ONCE} others are asking this agent just now; ask again in a moment")
        try:
            async with asyncio.timeout(self._config.patience):
                line = await reader.readuntil(b"\n")
            asked = question(line)
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError:
            return Answer(problem=f"a question has at most {LONGEST} bytes")
        except TimeoutError:
            return Answer(problem=f"no question came within {self._config.patience:g} s")
        except ValueError as error:
            return Answer(problem=str(error))
        return await self._answer(endpoint, asked)

    async def _answer(self, endpoint: Endpoint, asked: Question) -> Answer:
        match asked:
            case Hello():
                return Answer(version=_version(), nonce=asked.nonce)
            case Status():
                return await self._status(endpoint)
            case Logs():
                found = await self._ask(endpoint, ReadLogs(lines=asked.lines), "the logs")
                return Answer(problem=found) if isinstance(found, str) else Answer(lines=found.lines)
            case Decide():
                decided = await self._decide(endpoint, asked)
                return Answer(decided=decided, problem=decided.problem)

    async def _status(self, endpoint: Endpoint) -> Answer:
        looks = self._ask(endpoint, LookAtHost(), "this host")
        lists = self._ask(endpoint, ListAttempts(), "its attempts")
        links = self._ask(endpoint, LinkState(), "the link to the cloud")
        node, attempts, link = await asyncio.gather(looks, lists, links)
        return Answer(
            version=_version(),
            node=None if isinstance(node, str) else node,
            attempts=None if isinstance(attempts, str) else attempts,
            link=None if isinstance(link, str) else link,
            problem="; ".join(one for one in (node, attempts, link) if isinstance(one, str)),
        )

    async def _decide(self, endpoint: Endpoint, asked: Decide) -> Decided:
        word = OwnerDecides(confirmed=asked.confirmed, job=asked.job, reason=asked.reason)
        decided = await self._ask(endpoint, word, "the upgrade")
        return Decided(problem=decided) if isinstance(decided, str) else decided

    def _confirm_by(self, endpoint: Endpoint) -> Callable[[], Awaitable[Decided]]:
        return lambda: self._decide(endpoint, Decide(confirmed=True))

    async def _ask(self, endpoint: Endpoint, request: Request[R], whom: str) -> R | str:
        """The answer, or why there is none."""
        try:
            return await endpoint.ask(request, timeout=self._config.patience)
        except BeehiveError as error:
            return f"the agent cannot say anything about {whom}: {error}"


def _version() -> str:
    try:
        return version("beehive")
    except PackageNotFoundError:
        return ""
