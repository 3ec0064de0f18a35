"""`beehive job logs`: what happened, in order, from the job's status and the Events that Beehive wrote."""

import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct

from beehive.api.nodeupgradejob import NodeEntry, NodeUpgradeJob
from beehive.errors import BeehiveError
from modules.console.jobs import Jobs
from modules.console.jobs_words import ended
from modules.console.sentences import sentence
from modules.console.times import moment
from modules.informer.contest import ANOTHER, RECENT

_CLOSED = ("Successful", "Failure", "Unknown", "Skipped")


class Wanted(NamedTuple):
    """What is to be told."""

    node: str = ""
    """Of this node alone; empty for all, and the job itself."""
    follow: bool = False
    as_json: bool = False


class About(Struct, frozen=True, rename="camel"):
    kind: str = ""
    name: str = ""
    uid: str = ""


class Happened(Struct, frozen=True, rename="camel"):
    """An Event of the API server; of Beehive's own."""

    involved_object: About = About()
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int = 1
    last_timestamp: str = ""


class Line(NamedTuple):
    """One thing that happened."""

    time: str
    level: str
    who: str
    """Name of a node, or of the job."""
    what: str

    def text(self) -> str:
        """For people."""
        return f"{self.time or '-':<20}  {self.level:<4}  {self.who}  {self.what}"

    def json(self) -> str:
        """For programs."""
        return msgspec.json.encode(self._asdict()).decode()


def lines(job: NodeUpgradeJob, events: Iterable[Happened], node: str = "") -> list[Line]:
    """All of it in order; `events` are Beehive's, of any job."""
    found = [*_of_events(job, events), *_of_entries(job)]
    wanted = [one for one in found if not node or one.who == node]
    return sorted(wanted, key=lambda one: moment(one.time) or 0.0)


def _of_events(job: NodeUpgradeJob, events: Iterable[Happened]) -> Iterator[Line]:
    """Those of the job; of its nodes only their beginning, for how it ended their entries say."""
    meta, prefix = job.metadata, f"job {job.metadata.name}: "
    for event in events:
        about = event.involved_object
        level = "WARN" if event.type == "Warning" else "INFO"
        again = f" (x{event.count})" if event.count > 1 else ""
        if about.uid == meta.uid:
            yield Line(event.last_timestamp, level, meta.name, f"{event.reason}: {event.message}{again}")
        elif about.kind == "Node" and event.reason == "UpgradeStarted" and event.message.startswith(prefix):
            what = f"started{again}: {event.message[len(prefix) :]}"
            if not is_older(event.last_timestamp, meta.creation_timestamp):
                yield Line(event.last_timestamp, level, about.name, what)


def is_older(one: str | None, other: str | None) -> bool:
    """By time; what has none is not."""
    return (moment(one) or 0.0) < (moment(other) or 0.0)


def _of_entries(job: NodeUpgradeJob) -> Iterator[Line]:
    for entry in job.status.node_status or ():
        for step in entry.action_flow or ():
            good = step.status == "True"
            what = f"{step.action} done" if good else f"{step.action} failed: {step.reason or 'no reason was given'}"
            yield Line(step.time, "INFO" if good else "WARN", entry.node_name, what)
        if entry.phase in _CLOSED:
            yield Line(entry.since, _level(entry), entry.node_name, f"{entry.phase}: {sentence(entry)}")


def _level(entry: NodeEntry) -> str:
    return "WARN" if entry.phase in ("Failure", "Unknown") else "INFO"


def contested(job: NodeUpgradeJob, events: Iterable[Happened], now: float) -> list[str]:
    """A warning where another controller wrote this job's status lately."""
    said = [one for one in events if one.reason == ANOTHER and one.involved_object.uid == job.metadata.uid]
    recent = [one for one in said if now - (moment(one.last_timestamp) or 0.0) < RECENT]
    return ["", f"Beware: {recent[-1].message}."] if recent else []


async def events_of(jobs: Jobs) -> list[Happened]:
    """Beehive's Events; none where they may not be read, for that is not what was asked."""
    try:
        return [msgspec.json.decode(raw, type=Happened) for raw in await jobs.events()]
    except BeehiveError:
        return []


async def tell(jobs: Jobs, name: str, wanted: Wanted) -> None:
    """Print it; with `follow`, until the job has ended."""
    said: set[Line] = set()
    async for found in jobs.follow(name, lambda text: print(text, file=sys.stderr, flush=True)):
        for line in lines(found.job, await events_of(jobs), wanted.node):
            if line not in said:
                said.add(line)
                print(line.json() if wanted.as_json else line.text(), flush=True)
        if not wanted.follow or ended(found.job):
            return
