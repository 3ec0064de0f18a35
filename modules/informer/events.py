"""Which Kubernetes Events are one, and what is written of them. Pure.

Equal ones within the window become one with a count; from the eleventh different sentence of one object and reason
on, they share one Event whose sentence is the latest. So a story stays a dozen lines however many nodes tell it.
"""

from typing import Any

from msgspec import Struct

from beehive.api.nodeupgradejob import API_VERSION
from beehive.messages.objects import RecordEvent
from beehive.world import rfc3339

NAMESPACE = "default"
"""Events about objects without a namespace belong here."""
COMBINED = "(combined from similar events) "
_WINDOW = 600.0
_MOST_SENTENCES = 10
_MOST_STORIES = 5000
_MOST_NOTE = 1024
_API_VERSIONS = {"Node": "v1", "NodeUpgradeJob": API_VERSION}

Key = tuple[str, str, str, bool, str]
_Story = tuple[str, str, str, bool]


class Line(Struct, frozen=True):
    """One Event, with how often it happened."""

    said: RecordEvent
    note: str
    first: float
    last: float
    count: int


class Ledger:
    """What was said lately."""

    def __init__(self, component: str, host: str) -> None:
        self._source = {"component": component, "host": host}
        self._lines: dict[Key, Line] = {}
        self._stories: dict[_Story, tuple[float, set[str]]] = {}

    def record(self, said: RecordEvent, now: float) -> tuple[Key, Line]:
        """It was said: the line that it belongs to, and its key."""
        note = shortened(said.note)
        story = (said.kind, said.uid, said.reason, said.warning)
        combined = self._is_one_too_many(story, note, now)
        key = (*story, "" if combined else note)
        old = self._lines.pop(key, None)
        if old is None or now - old.last > _WINDOW:
            old = Line(said, note, now, now, 0)
        line = Line(said, COMBINED + note if combined else note, old.first, now, old.count + 1)
        self._lines[key] = line
        if len(self._lines) > _MOST_STORIES:
            del self._lines[next(iter(self._lines))]
        return key, line

    def _is_one_too_many(self, story: _Story, note: str, now: float) -> bool:
        began, notes = self._stories.pop(story, (now, set()))
        if now - began > _WINDOW:
            began, notes = now, set()
        combined = note not in notes and len(notes) >= _MOST_SENTENCES
        if not combined:
            notes.add(note)
        self._stories[story] = (began, notes)
        if len(self._stories) > _MOST_STORIES:
            del self._stories[next(iter(self._stories))]
        return combined

    def body(self, line: Line, name: str) -> dict[str, Any]:
        """The Event to create."""
        said = line.said
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "involvedObject": {
                "apiVersion": _API_VERSIONS.get(said.kind, "v1"),
                "kind": said.kind,
                "name": said.name,
                "uid": said.uid,
            },
            "type": "Warning" if said.warning else "Normal",
            "reason": said.reason[:128],
            "source": self._source,
            "reportingComponent": self._source["component"],
            "firstTimestamp": rfc3339(line.first),
            **again(line),
        }


def again(line: Line) -> dict[str, Any]:
    """What changes in an Event when it happens again; a merge patch."""
    return {"count": line.count, "lastTimestamp": rfc3339(line.last), "message": line.note}


def shortened(note: str) -> str:
    """At most 1 kB of it, in whole characters."""
    raw = note.encode("utf-8", "replace")
    return note if len(raw) <= _MOST_NOTE else raw[: _MOST_NOTE - 3].decode("utf-8", "ignore") + "…"
