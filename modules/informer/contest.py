"""Does somebody else write what only we should write? The API server says who wrote a status (managedFields). Pure."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from beehive.api.nodeupgradejob import NodeUpgradeJob
from beehive.world import from_rfc3339

OURS = "beehive"
"""Our name there: the User-Agent of our calls."""
ANOTHER = "AnotherController"
"""Reason of the Event on a job that somebody else writes."""
RECENT = 600.0
"""Seconds for which a foreign write counts: who was switched off is not complained of for ever."""


class _Field(Struct, frozen=True, rename="camel", gc=False):
    manager: str = ""
    subresource: str = ""
    time: str = ""


class _Meta(Struct, frozen=True, rename="camel", gc=False):
    managed_fields: tuple[_Field, ...] | None = None


class _Headed(Struct, frozen=True, gc=False):
    metadata: _Meta = _Meta()


_headed = msgspec.json.Decoder(_Headed).decode
Read = Callable[[bytes | msgspec.Raw], NodeUpgradeJob]


class Foreign(Struct, frozen=True):
    """Who wrote a job's status beside us, and when."""

    manager: str
    at: float


class Contest:
    """Remembers the last foreign writer of each job's status."""

    def __init__(self) -> None:
        self._last: dict[str, Foreign] = {}

    def reading(self, read: Read) -> Read:
        """`read`, and a look at who wrote what is read."""

        def noting(raw: bytes | msgspec.Raw) -> NodeUpgradeJob:
            job = read(raw)
            found = foreign(raw)
            if found is not None:  # our next write takes their fields over, and the API server forgets them
                self._last[job.metadata.name] = found
            return job

        return noting

    def forget(self, name: str) -> None:
        """The job is gone."""
        self._last.pop(name, None)

    def standing(self, now: float) -> Mapping[str, str]:
        """Name of a job -> who wrote its status within the last ten minutes."""
        return {name: one.manager for name, one in list(self._last.items()) if now - one.at < RECENT}


def foreign(raw: bytes | msgspec.Raw) -> Foreign | None:
    """The last who wrote the status and is not us."""
    found = [
        Foreign(one.manager, _moment(one.time))
        for one in _headed(raw).metadata.managed_fields or ()
        if one.subresource == "status" and one.manager != OURS
    ]
    return max(found, key=lambda one: one.at, default=None)


def _moment(text: str) -> float:
    try:
        return from_rfc3339(text)
    except (ValueError, OverflowError):
        return 0.0


def warning(standing: Mapping[str, str]) -> str:
    """The sentence for people; empty where nobody does."""
    if not standing:
        return ""
    name = min(standing)
    more = f" and {len(standing) - 1} more" if len(standing) > 1 else ""
    return (
        f"{standing[name]} also writes the status of job {name}{more}; two controllers spoil each other's work: "
        "switch the other one off (docs/beside-kubeedge.md)"
    )
