"""An observer hears of what is rare. Every message is for a tracer (`beehive.record`), figures are pulled from the
inboxes when somebody asks (`beehive.metrics`): to push them would cost more than the message itself.
"""

import logging
from typing import Any, Protocol

from beehive.errors import BeehiveError
from beehive.message import Envelope, kind

_log = logging.getLogger("beehive.kernel")


class Observer(Protocol):
    """Hears of the rare things; called synchronously, must not raise."""

    def failed(self, module: str, error: BaseException, dropped: Envelope | None) -> None:
        """A module raised; the message that it had in hand, if any, was dropped."""

    def restarting(self, module: str, after: float) -> None:
        """It starts again in so many seconds."""

    def stuck(self, module: str, seconds: float) -> None:
        """It did not end within its time and was cancelled."""

    def left_behind(self, module: str) -> None:
        """It did not even end when it was cancelled; the process ends without it."""

    def blocked(self, module: str, seconds: float, where: str) -> None:
        """It has kept the event loop for so long; `where` names module, line and function. Said by another thread."""


class LogObserver:
    """Says it in the log. The traceback is for developers: it is logged at debug level only."""

    def failed(self, module: str, error: BaseException, dropped: Envelope | None) -> None:
        extra: dict[str, Any] = {"of": module, "reason": describe(error)}
        if dropped is not None:
            extra["dropped"] = kind(dropped.body)
        _log.error("module failed", extra=extra)
        _log.debug("where it failed", exc_info=error)

    def restarting(self, module: str, after: float) -> None:
        _log.warning("module starts again", extra={"of": module, "after": f"{after:g}s"})

    def stuck(self, module: str, seconds: float) -> None:
        _log.error("module did not end in time and was cancelled", extra={"of": module, "limit": f"{seconds:g}s"})

    def left_behind(self, module: str) -> None:
        _log.error("module did not end when cancelled; ending without it", extra={"of": module})

    def blocked(self, module: str, seconds: float, where: str) -> None:
        _log.error("event loop is blocked", extra={"by": module, "for": f"{seconds:.1f}s", "at": where})


def describe(error: BaseException) -> str:
    """The error as a phrase for people: its own text if it is meant for them, else its type and text."""
    leaf = error
    while isinstance(leaf, BaseExceptionGroup):
        leaf = leaf.exceptions[0]
    text = str(leaf).strip() or "no further text"
    return text if isinstance(leaf, BeehiveError) else f"{type(leaf).__name__}: {text}"
