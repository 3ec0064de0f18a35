"""Being told to stop, and ending even if something does not want to."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Self

from beehive.errors import EXIT_RUNTIME
from beehive.observe import describe

_log = logging.getLogger("beehive.runtime")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopOnSignal:
    """While it is entered, SIGTERM and SIGINT set `stop`; a second one ends the process at once, with exit code 70.

    The handlers are Python's own and not the loop's, so that the second signal is also heard while a module blocks the
    loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        self._loop, self._stop = loop, stop
        self._told = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._told:
            with contextlib.suppress(OSError):  # no logging: the interrupted line may be in the middle of it
                os.write(2, b"Told to stop a second time: ending at once.\n")
            os._exit(EXIT_RUNTIME)
        self._told = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._stop.set)


class LastResort:
    """Ends the process with exit code 70 when all is over but a task or a thread that does not end."""

    def __init__(self, patience: float = 5.0) -> None:
        self._patience = patience
        self._timer: threading.Timer | None = None

    def begin(self, error: BaseException | None, left_behind: Sequence[str]) -> None:
        """The modules have ended, with this error; `left_behind` are those that have not."""
        self._timer = threading.Timer(self._patience, self._end, (error, left_behind))
        self._timer.daemon = True
        self._timer.start()

    def called_off(self) -> None:
        """Everything has ended."""
        if self._timer:
            self._timer.cancel()

    def _end(self, error: BaseException | None, left_behind: Sequence[str]) -> None:
        extra = {"waited": f"{self._patience:g}s", "left": ",".join(left_behind) or "a thread"}
        if error is not None:
            extra["reason"] = describe(error)
        _log.error("something does not end; ending without it", extra=extra)
        os._exit(EXIT_RUNTIME)
