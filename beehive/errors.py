"""Every error that crosses a border of the house, on two axes: whose fault it is, and whether it can pass.

Adapters translate their library's errors into these at the port and nowhere else (architecture.md 9). Whatever else is
raised is a bug: it fails the module, and the supervisor decides.
"""

from collections.abc import Sequence
from typing import NamedTuple

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BUSY = 3
EXIT_RUNTIME = 70
EXIT_CONFIG = 78


class BeehiveError(Exception):
    """Base of all errors that are meant; its text is a sentence that a person may read."""


class Problem(NamedTuple):
    """One thing that is wrong in the configuration."""

    where: str
    """File and line, the environment variable or the flag."""
    path: str
    """Dotted path of the field, such as `cloudhub.websocket.port`; empty for the whole file."""
    text: str
    """What is wrong and what to write instead."""


def _line(problem: Problem) -> int:
    """In the order of the file; what is not in the file comes first."""
    number = problem.where.removeprefix("line ")
    return int(number) if number.isdigit() else 0


class ConfigError(BeehiveError):
    """The configuration cannot be used; holds *all* problems found, so that one round mends them (exit 78)."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda problem: (_line(problem), problem)))
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = (f"  {p.where:<8} {p.path + ': ' if p.path else ''}{p.text}" for p in self.problems)
        super().__init__("\n".join((f"{source} has {count}:", *lines)))


class Refused(BeehiveError):  # noqa: N818 - the field's word: permanent, do not try again
    """The other side, or a rule of ours, says no, and will say no again."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unavailable(BeehiveError):  # noqa: N818 - may pass
    """It did not work now and may work later; `retry_after` is in seconds when the other side named it."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class RuntimeFailed(BeehiveError):  # noqa: N818
    """The process cannot go on (a taken port, a module that keeps failing): it ends with exit code 70."""


class Undeliverable(BeehiveError):  # noqa: N818
    """The message has no receiver: its type was not declared by the sender, or its owner has stopped."""


class InboxFull(BeehiveError):  # noqa: N818
    """The owner's inbox stayed full for as long as the sender had patience; the message was withdrawn."""


class NoAnswer(BeehiveError):  # noqa: N818
    """The owner did not answer within the asker's timeout. Whether it acted is unknown."""


class PeerFailed(BeehiveError):  # noqa: N818
    """The owner failed while it had the question in hand, or stopped before it took it; the text says how."""
