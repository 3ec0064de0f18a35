"""One upgrade after the other on one booted host, each an attempt of its own."""

import os
from pathlib import Path

from modules.upgrader.host.files import digest_of
from modules.upgrader.tool.record import open_records
from tests.hosts.running.edge import NEW, OLD, Edge
from tests.hosts.running.machine import wait_until
from tests.real.running.standins import standin

BLOCK = 4096


class Rounds:
    """Counts them. The version that runs is always `OLD` or `NEW`."""

    def __init__(self, host: Edge) -> None:
        self.host = host
        self.number = 0

    @property
    def next(self) -> str:
        """The version that does not run now."""
        return NEW if self.host.running() == OLD else OLD

    def ask(self, program: Path | None = None, version: str = "") -> str:
        """Ask for the next version (by default a good program); returns it."""
        version = version or self.next
        program, host, self.number = program or standin(version), self.host, self.number + 1
        host.offer(program, version)
        uid = f"{self.number:08x}-0000-4000-8000-000000000000"
        host.ask(program, uid=uid, old_version=host.running(), version=version)
        return version

    def upgrade(self) -> None:
        """The next version, and it must be a success."""
        version = self.ask()
        self.host.upgrade()
        record = self.host.until_verdict()
        assert record.verdict
        assert (record.verdict.step, record.verdict.ok) == ("Upgrade", True), f"{record} {self.host.explain()}"
        assert self.host.running() == version


def over(host: Edge) -> bool:
    """No tool is at work for the attempt at hand; it may have ended without a verdict."""
    busy = {"active", "activating", "deactivating"}
    return not {host.state(host.unit), host.state("beehive-recover.service")} & busy


def sound(host: Edge) -> str:
    """What is not as it must be on a host without an open attempt; empty: it runs one of the two versions, whole."""
    wait_until(host.running, "the target runs", 20, host.explain)
    runs, layout = host.running(), host.layout
    places = (layout.executable.parent, layout.records, layout.etc, layout.backups, layout.upgrades)
    left = [path.name for place in places if place.is_dir() for path in place.glob(".*")]
    problems = [
        "" if digest_of(layout.executable) == digest_of(standin(runs)) else f"{runs} runs, another lies on the disk",
        "a lock is left" if layout.lock.exists() else "",
        f"left behind: {left}" if left else "",
        f"open: {list(open_records(layout))}" if open_records(layout) else "",
    ]
    return "; ".join(problem for problem in problems if problem)


def fill(host: Edge, leave: int) -> Path:
    """Fill the disk but for so many blocks, by one file. (What ext4 keeps for itself no statistics leave out.)"""
    filler = host.machine.path("/filler")
    with filler.open("wb") as file:
        step = 1 << 13
        while step:
            try:
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step * BLOCK)
            except OSError:
                step //= 2
        os.truncate(file.fileno(), max(0, os.fstat(file.fileno()).st_size - leave * BLOCK))
    return filler
