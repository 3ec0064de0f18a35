"""Power cuts: at each moment of a run of the tool, what a cut would leave on the disk, and what becomes of that."""

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from modules.upgrader.host.files import digest_of
from modules.upgrader.tool.record import open_records
from modules.upgrader.tool.report import encode, of_verdict
from tests.hosts.running.edge import NEW, OLD, UNIT, Edge
from tests.hosts.running.forge import Forge
from tests.hosts.running.machine import wait_until
from tests.hosts.running.root import HostsError

SOAK = 0.3


@dataclass(frozen=True)
class Cut:
    """A disk as a cut left it."""

    run: str
    number: int
    name: str
    """Where in the tool's work: `before rename .edgecore.new`."""
    disk: Path
    """Not there yet before the moment is chosen."""


@dataclass
class Matrix:
    """What became of all cuts."""

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    boots: Counter[int] = field(default_factory=Counter)
    left_out: int = 0

    def lines(self) -> list[str]:
        """For people."""
        runs = sorted({run for run, _ in self.ends})
        table = [f"{'run':<10} {'moments':>8} {'ended old':>10} {'ended new':>10}"]
        for run in runs:
            old, new = self.ends[run, "old"], self.ends[run, "new"]
            table.append(f"{run:<10} {old + new:>8} {old:>10} {new:>10}")
        boots = ", ".join(f"{count} after {number}" for number, count in sorted(self.boots.items()))
        return [*table, f"wrong {len(self.wrong)}, left out for time {self.left_out}; boots: {boots}"]


def moments(forge: Forge, run: str, new: Path, chosen: Callable[[Cut], bool]) -> Iterator[Cut]:
    """Every moment of one upgrade, in order, with the disk of each that is chosen."""
    host = forge.edge(new, soak=SOAK)
    cut = host.machine.folder / "cut"
    cut.mkdir()
    (cut / "stepping").touch()
    host.machine.shared["/cut"] = cut
    host.machine.boot()
    try:
        host.upgrade()
        number = 0
        while name := _reached(host, cut, number):
            cut_here = Cut(run, number, name, forge.folder / f"{run}-{number}.img")
            if chosen(cut_here):
                host.machine.snapshot(cut_here.disk)
            yield cut_here
            beside = cut / "go.new"
            beside.write_text(str(number))
            beside.rename(cut / "go")
            number += 1
    finally:
        host.machine.remove()


def _reached(host: Edge, cut: Path, number: int) -> str:
    """The name of the moment; empty when the tool has ended."""

    def over() -> bool:
        return bool(number) and host.state(UNIT) in ("inactive", "failed")

    wait_until(lambda: reached(cut)[:1] == [str(number)] or over(), f"moment {number}", 60, host.explain)
    at, name = [*reached(cut), "", ""][:2]
    return name if at == str(number) else ""


def reached(cut: Path) -> list[str]:
    """Number and name of the moment at which the tool waits; empty: it has not begun."""
    with contextlib.suppress(FileNotFoundError):
        return (cut / "at").read_text().split(" ", 1)
    return []


def recovered(forge: Forge, cut: Cut, new: Path, old: Path, matrix: Matrix) -> None:
    """Boot what the cut left, and judge what becomes of it."""
    host = Edge(forge.machine(cut.disk), soak=SOAK)
    try:
        host.machine.boot()
        wait_until(lambda: at_rest(host), "the attempt is at its end", 45, host.explain)
        _note(matrix, cut, host, judged(host, new, old), 1)
    except HostsError as problem:
        matrix.wrong.append(f"{cut.run} {cut.number} {cut.name}: {problem}")
    finally:
        host.machine.remove()


def _note(matrix: Matrix, cut: Cut, host: Edge, ended: str, boots: int) -> None:
    if ended in ("old", "new"):
        matrix.ends[cut.run, ended] += 1
        matrix.boots[boots] += 1
    else:
        matrix.wrong.append(f"{cut.run} {cut.number} {cut.name}: {ended}\n{host.explain()}")


def at_rest(host: Edge) -> bool:
    """Nothing is open, no tool is at work, and the target is up."""
    if open_records(host.layout) or not host.running():
        return False
    busy = {"active", "activating", "deactivating"}
    return not {host.state(UNIT), host.state("beehive-recover.service")} & busy


def judged(host: Edge, new: Path, old: Path) -> str:
    """`old`, `new`, or what is wrong."""
    digest = digest_of(host.layout.executable)
    ended = {digest_of(old): "old", digest_of(new): "new"}.get(digest)
    if ended is None:
        return f"the program is neither the old nor the new one: {digest}"
    record, running = host.record(), host.running()
    problems = [
        "" if running == {"old": OLD, "new": NEW}[ended] else f"{running or 'nothing'} runs, {ended} lies on the disk",
        "a lock is left" if host.layout.lock.exists() else "",
        *(f"{left} is left" for left in _leftovers(host)),
        host.machine.run("systemctl", "--failed", "--plain", "--no-legend").strip(),
    ]
    if record is None:
        problems += ["" if ended == "old" else "the new version runs without a record"]
        problems += ["a report without a record"] if host.layout.report.exists() else []
    elif record.verdict is None:
        problems += ["no verdict"]
    else:
        steps = {"old": ("RollBack", True), "new": ("Upgrade", True)}
        problems += ["" if (record.verdict.step, record.verdict.ok) == steps[ended] else f"verdict {record.verdict}"]
        wanted = encode(of_verdict(record.order, record.verdict))
        problems += ["" if _read(host.layout.report) == wanted else f"report {_read(host.layout.report)!r}"]
    return "; ".join(problem for problem in problems if problem) or ended


def _leftovers(host: Edge) -> list[str]:
    places = (host.layout.executable.parent, host.layout.records, host.layout.etc, host.layout.backups)
    found = [path for place in places if place.is_dir() for path in place.glob(".*")]
    return [str(path) for path in found] + [str(path) for path in host.layout.records.glob("*.database")]


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def is_boundary(cut: Cut) -> bool:
    """Does this moment lie directly before or after a change of the tool's record?"""
    return "rename" in cut.name and ".json" in cut.name


def recover_all(forge: Forge, run: str, new: Path, old: Path, chosen: Callable[[Cut], bool]) -> Matrix:
    """Cut at each moment, recover the chosen ones, two at once, and say what became of them."""
    matrix, waiting = Matrix(), threading.BoundedSemaphore(4)

    def one(cut: Cut) -> None:
        try:
            recovered(forge, cut, new, old, matrix)
        finally:
            waiting.release()

    with ThreadPoolExecutor(2) as workers:
        for cut in moments(forge, run, new, chosen):
            if cut.disk.exists():
                waiting.acquire()
                workers.submit(one, cut).add_done_callback(_raise)
            else:
                matrix.left_out += 1
    return matrix


def _raise(done: "Future[None]") -> None:
    done.result()


def random_cuts(forge: Forge, seed: int, new: Path, old: Path, matrix: Matrix) -> None:
    """Pull the plug at a random moment of an upgrade, and up to twice again while the host recovers from that."""
    chance = random.Random(seed)
    host, boots = forge.edge(new, soak=SOAK), 1
    cut = Cut("random", seed, "", host.machine.disk)
    try:
        host.machine.boot()
        host.upgrade()
        moment = time.monotonic() + chance.uniform(0.0, 3.0)
        while chance.random() < (1.0, 0.6, 0.6, 0.0)[boots - 1]:
            wait_until(lambda until=moment: time.monotonic() > until, "the moment", 10)  # type: ignore[misc]
            host.machine.pull_the_plug()
            host.machine.power_on()
            boots += 1
            moment = time.monotonic() + chance.uniform(0.3, 3.5)
        wait_until(host.machine.has_booted, "its last boot", 60)
        wait_until(lambda: at_rest(host), "the attempt is at its end", 45, host.explain)
        _note(matrix, cut, host, judged(host, new, old), boots - 1)
    except HostsError as problem:
        matrix.wrong.append(f"random {seed}, boot {boots}: {problem}")
    finally:
        host.machine.remove()
