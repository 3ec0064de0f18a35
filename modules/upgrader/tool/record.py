"""The tool's own record of one attempt: what a restarted tool, the agent (old or new) and the boot unit go by."""

import contextlib
from pathlib import Path

import msgspec
from msgspec import Struct

from beehive.messages.host import Verdict
from modules.upgrader.host.files import Files
from modules.upgrader.host.layout import Layout
from modules.upgrader.host.names import unit_key
from modules.upgrader.tool.phases import Phase


class Order(Struct, frozen=True, kw_only=True):
    """What the attempt is to do; complete, so that whoever finds the record can finish or undo it."""

    job: str = ""
    """Empty: a person called the tool."""
    uid: str
    attempt: int = 0
    event: str = "Upgrade"
    """`Upgrade` or `Rollback`, as in KubeEdge's report file."""
    from_version: str
    to_version: str
    old_digest: str
    """Of the program before the attempt."""
    new_digest: str
    """Of the program that it brings; empty: what the provider brings is not known before."""
    tool: str = "keadm"
    """The provider (product.md 6.3)."""
    image: str = ""
    """The job's image, for providers that fetch it themselves."""
    backup: str
    """The version whose backup a rollback restores."""


class Record(Struct, frozen=True, kw_only=True):
    """Where the attempt is. Written before each phase begins and after it ended: a phase is the one that is begun."""

    order: Order
    phase: Phase = Phase.PREPARE
    starts: int = 0
    """How often a tool took it up."""
    boots: int = 0
    """How often this host came up and found it without a verdict."""
    reason: str = ""
    """Why the upgrade failed; empty as long as it did not."""
    undo_problem: str = ""
    """What went wrong in the rollback itself."""
    saved_database: str = ""
    """Digest of the database's copy that was made while the old version stood still; empty: none yet."""
    began: float = 0.0
    """Seconds since the epoch."""
    last_run: str | None = None
    """The service's last run before the swap (`Status.run`); None: not known. A later one is of the new version."""
    stopped_at: float = 0.0
    """When the service was told to stop: seconds since the boot `stopped_boot` began. No clock that is set moves it."""
    stopped_boot: str = ""
    down: float = 0.0
    """Seconds from there until the service had started again; from the last boot on, if one came between."""
    verdict: Verdict | None = None
    announced: str = ""
    """What was written to the report file before the service's last start; only where no job of ours is behind it."""
    told: bool = False
    """The verdict is in the report file too."""


def load_record(layout: Layout, key: str) -> Record | None:
    """The record of an attempt; None: there is none that can be read."""
    return _read(layout.record(key))


def save_record(files: Files, layout: Layout, key: str, record: Record) -> None:
    """Store it durably before returning. Raises OSError: then the old one stands."""
    files.directory(layout.records)
    data = msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
    files.replace(layout.record(key), data)


def all_records(layout: Layout) -> dict[str, Record]:
    """By key, oldest first."""
    found = {path.stem: record for path in layout.records.glob("*.json") if (record := _read(path))}
    return dict(sorted(found.items(), key=lambda item: item[1].began))


def open_records(layout: Layout) -> dict[str, Record]:
    """Those without a verdict."""
    return {key: record for key, record in all_records(layout).items() if record.verdict is None}


def untold_records(layout: Layout) -> dict[str, Record]:
    """Those with a verdict that has not reached the report file."""
    return {key: record for key, record in all_records(layout).items() if record.verdict and not record.told}


def prune_records(files: Files, layout: Layout, keep: int) -> None:
    """Forget all but the last `keep` attempts that have a verdict, and what the agent asked for them."""
    records = all_records(layout)
    ended = [key for key, record in records.items() if record.verdict]
    forgotten = ended[: max(0, len(ended) - keep)]
    needed = {_unit(record) for key, record in records.items() if key not in forgotten}
    for key in forgotten:
        files.remove(layout.record(key))
        files.remove(layout.saved_database(key))
        if (unit := _unit(records[key])) not in needed:
            files.remove(layout.request(unit))


def _unit(record: Record) -> str:
    return unit_key(record.order.uid, record.order.attempt)


def _read(path: Path) -> Record | None:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=Record)
    return None
