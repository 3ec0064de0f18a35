"""Reports that came by POST and wait for what becomes of them."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable

from beehive.errors import InboxFull, Undeliverable
from beehive.messages.fleet import Answer, Heard
from beehive.messages.tasks import TaskReport
from beehive.module import Endpoint

NOT_YET = "not-yet"
PATIENCE = 10.0
"""Seconds; then the POST is answered with 503 and the tool tries again (product.md 4)."""
_MOST = 1000


class Tickets:
    """Each is answered once; one that nobody answers is `NOT_YET`."""

    def __init__(self, endpoint: Endpoint, counters: Counter[str], leads: Callable[[], bool]) -> None:
        self._endpoint = endpoint
        self._counters = counters
        self._leads = leads
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._numbers = itertools.count(1)

    async def ask(self, node: str, report: TaskReport) -> str:
        """Hand the report to taskmanager and wait for its word: `seen`, `unknown` or NOT_YET."""
        if not self._leads() or len(self._waiting) >= _MOST:
            self._counters["posts_refused"] += 1
            return NOT_YET
        ticket = next(self._numbers)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = answer
        try:
            async with asyncio.timeout(PATIENCE):
                heard = Heard(node=node, epoch=0, body=report, ticket=ticket)
                await self._endpoint.send(heard, patience=PATIENCE)
                return await answer
        except (TimeoutError, InboxFull, Undeliverable):
            self._counters["posts_unanswered"] += 1
            return NOT_YET
        finally:
            del self._waiting[ticket]

    def answer(self, answer: Answer) -> None:
        """taskmanager's word; nobody waits for one that came too late."""
        waiting = self._waiting.get(answer.ticket)
        if waiting is None or waiting.done():
            self._counters["answers_too_late"] += 1
        else:
            waiting.set_result(answer.outcome)

    def give_up(self) -> None:
        """Nobody here will know any more."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(NOT_YET)
