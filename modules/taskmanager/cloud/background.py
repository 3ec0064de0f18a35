"""Work that the loop does not wait for: asks whose answers come back as messages to the module itself."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from beehive.errors import InboxFull, NoAnswer, PeerFailed, Undeliverable
from beehive.message import Command, Request
from beehive.messages.objects import Away, RecordEvent
from beehive.module import Endpoint

R = TypeVar("R")
_PATIENCE = 86400.0
"""Seconds that an answer waits for a place in our own inbox: it is never dropped."""


class Background:
    """The asks of one term of leadership; `end` ends them all, and what they would have said is not heard any more."""

    def __init__(self, term: int, endpoint: Endpoint, group: asyncio.TaskGroup, timeout: float) -> None:
        self.term = term
        self._endpoint = endpoint
        self._group = group
        self._timeout = timeout
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, request: Request[R], then: Callable[[R | Away, float], Command]) -> None:
        """Ask, and send ourselves what `then` makes of the answer and of the seconds that it took."""
        self._start(self._ask(request, then))

    def tell(self, events: Iterable[RecordEvent]) -> None:
        """Hand Events to the informer, at its own pace; one that finds no place is a line less in the story."""
        if told := tuple(events):
            self._start(self._tell(told))

    def end(self) -> None:
        """The term is over."""
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, request: Request[R], then: Callable[[R | Away, float], Command]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer: R | Away
        try:
            answer = await self._endpoint.ask(request, self._timeout)
        except (NoAnswer, PeerFailed, Undeliverable) as error:
            answer = Away(str(error))
        try:
            await self._endpoint.send(then(answer, loop.time() - began), _PATIENCE)
        except Undeliverable:
            return  # the module's own inbox is closed: it ends

    async def _tell(self, events: tuple[RecordEvent, ...]) -> None:
        for event in events:
            try:
                await self._endpoint.send(event)
            except (InboxFull, Undeliverable):
                return
