"""Promise 1 by enumeration: every state of the disk that a power cut may leave, during an upgrade, a rollback, and the
recovery from such a cut; each is recovered from, as the host's boot does it, and looked at."""

import contextlib
import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.config import Duration
from beehive.journal import Journal
from beehive.messages.host import Verdict
from modules.upgrader.config import Config, Target
from modules.upgrader.host.backup import make_backup
from modules.upgrader.host.files import Files
from modules.upgrader.host.host import Host
from modules.upgrader.host.lock import Holder, held
from modules.upgrader.tool import diary, orders, recovery
from modules.upgrader.tool.attempts import conclude, settle
from modules.upgrader.tool.record import Order, Record, load_record, open_records, untold_records
from modules.upgrader.tool.work import Tool
from tests.fakes.cut_disk import Cut, RecordingFiles, Tree, lay, read
from tests.fakes.memory_host import FILE, NEW, OLD, TREE, MemoryHost, MemoryServices

GOOD, CRASHING, MIGRATING = f"{NEW} good", f"{NEW} crash", f"{NEW} migrates"
KEY = "6b1f-0"
LOCK = "etc/kubeedge/idempotency_record"
NONE, FEW, ALL = 0, 2, 99
"""So many changes that were not synced may be lost: `FEW` in `make check`, `ALL` in the tests marked long."""


class CutServices(MemoryServices):
    """What the target writes is the target's to make durable."""

    def boot(self) -> None:
        before = self.database.read_bytes() if self.database.exists() else None
        super().boot()
        if self.database.exists() and self.database.read_bytes() != before:
            self._files.foreign(self.database)  # type: ignore[attr-defined]


class CutHost(MemoryHost):
    """A host on what lies at `root`, recorded from now on; `starts` counts on, as a service manager's names do."""

    def __init__(self, root: Path, starts: int = 1, target: Target = FILE) -> None:
        self.disk = RecordingFiles(root)  # type: ignore[assignment]
        self.memory = CutServices(self.disk)
        config = Config(root=str(root), soak=Duration(0), start_timeout=Duration(1), target=target)
        Host.__init__(self, config, files=self.disk, services=self.memory)
        assert self.layout.database
        self.memory.executable, self.memory.database = self.layout.executable, self.layout.database
        self.memory.starts = [""] * starts

    @property
    def record_of_disk(self) -> RecordingFiles:
        return self.disk  # type: ignore[return-value]


@pytest.fixture
def place() -> Iterator[Path]:
    """In memory where there is such a folder: thousands of small hosts are laid out here."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="beehive-cuts-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What a cut takes is decided by the recorder; the boot unit finds the same host."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr(recovery, "_host_of", lambda host, _record: host)
    monkeypatch.setattr(diary, "kept", lambda _: contextlib.nullcontext())  # a log is nothing that anybody goes by
    caplog.set_level("CRITICAL", logger="beehive.tool")


# ---- what is cut -------------------------------------------------------------------------------------------------


def prepared(root: Path, new: str, target: Target, *, rollback: bool) -> Order:
    """A host as an upgrade finds it; for a rollback, as a good upgrade left it."""
    host = MemoryHost(root, new, target=target)
    host.files.directory(host.layout.etc)
    order = host.order()
    if rollback:
        make_backup(host.files, host.layout, OLD)
        host.layout.executable.write_text(new)
        order = orders.rollback(host, "6b1f", NEW, OLD)
    return order


def carried_out(root: Path, order: Order, target: Target) -> CutHost:
    """The attempt, recorded, from where it stands to its verdict."""
    host = CutHost(root, target=target)
    host.memory.running = host.installed()
    with held(host.layout.lock, Holder()):
        settle(host, but=KEY)
        conclude(host, Tool(host, KEY, load_record(host.layout, KEY) or Record(order=order)))
    return host


def recovered(host: CutHost, order: Order) -> Verdict:
    """The boot: the boot unit, the target, the tool's unit. Without any record the agent asks for the step again."""
    recovery.at_boot(host)
    host.memory.boot()
    record = load_record(host.layout, KEY)
    if record is None:
        assert host.installed() == order.from_version, "nothing was begun"
    elif record.verdict is None:
        assert host.memory.launched[-1:] == [f"beehive-tool@{KEY}"], "somebody is left to act"
    with held(host.layout.lock, Holder()):
        settle(host, but=KEY)
        return conclude(host, Tool(host, KEY, record or Record(order=order)))


# ---- what must be true after it ----------------------------------------------------------------------------------


def assert_good(host: CutHost, order: Order, verdict: Verdict) -> str:
    """Old-good or new-good, whole, running; the record and the report say which; nobody holds the host."""
    layout = host.layout
    assert verdict.ok, verdict
    ended = NEW if verdict.step == "Upgrade" else OLD
    assert host.program.digest() == (order.new_digest if verdict.step == "Upgrade" else order.old_digest)
    assert host.memory.running == ended
    assert layout.config
    assert layout.database
    assert layout.config.read_text() == "kind: EdgeCore\n"
    if ended == OLD and order.event == "Upgrade":
        assert layout.database.read_text() == "data of the owner"
    report = json.loads(layout.report.read_bytes())
    assert report["success"]
    assert (report["event"], report["toVersion"]) == ("Upgrade" if ended == NEW else "Rollback", ended)
    assert not open_records(layout)
    assert not untold_records(layout)
    assert not layout.lock.exists()
    assert not list(layout.root.rglob(".*.new"))
    if layout.link and layout.tool_link:
        assert layout.tool_link.readlink() == layout.link.readlink(), "tools start from what has proved itself"
    return ended


def assert_recorded(host: CutHost) -> None:
    """Nothing but the lock and the log went past the port."""
    logs = str(host.layout.logs.relative_to(host.layout.root))
    assert _but(read(host.layout.root), logs) == _but(host.record_of_disk.now(), logs)


def _but(tree: Tree, logs: str) -> Tree:
    others = ("var/log", logs, LOCK)
    return {name: what for name, what in tree.items() if name not in others and not name.startswith(f"{logs}/")}


# ---- the sweep ---------------------------------------------------------------------------------------------------


_TIMES = re.compile(rb'"(began|stopped_at|down)": [0-9.e+-]+')


def same_but_for_times(tree: Tree, starts: int) -> bytes:
    """Two states that differ in the time of day alone are one."""
    digest = hashlib.sha256(str(starts).encode())
    for name in sorted(tree):
        mode, content = tree[name]
        digest.update(f"{name} {mode:o} {content if isinstance(content, str | None) else ''} ".encode())
        digest.update(_TIMES.sub(b"", content) if isinstance(content, bytes) else b"")
    return digest.digest()


class Sweep:
    """Recovers from each state once, and counts how it ended."""

    def __init__(self, place: Path, order: Order, target: Target) -> None:
        self.place, self.order, self.target = place, order, target
        self.seen: set[bytes] = set()
        self.ends: dict[str, int] = {}
        self.states = 0

    def cuts_of(self, host: CutHost, most: int) -> Iterator[tuple[Cut, int]]:
        """The states that a cut of what this host did can leave, that were not seen yet."""
        for cut in host.record_of_disk.cuts(most):
            self.states += 1
            found = same_but_for_times(cut.tree, len(host.memory.starts))
            if found not in self.seen:
                self.seen.add(found)
                yield cut, len(host.memory.starts)

    def recover(self, cut: Cut, starts: int) -> CutHost:
        """The host of this state, after its next boot and the tool's end."""
        lay({**cut.tree, LOCK: (0o600, b'{"pid": 4711')}, self.place)
        host = CutHost(self.place, starts, self.target)
        try:
            ended = assert_good(host, self.order, recovered(host, self.order))
        except (AssertionError, OSError) as error:
            raise AssertionError(f"cut after {cut.after}\n{error!r}") from error
        self.ends[ended] = self.ends.get(ended, 0) + 1
        return host


def sweep(place: Path, new: str, most: int, *, rollback: bool = False, again: int = 0, target: Target = FILE) -> Sweep:
    """Cut everywhere, and `again` times more in the recovery."""
    order = prepared(place / "host", new, target, rollback=rollback)
    host = carried_out(place / "host", order, target)
    assert_recorded(host)
    made = Sweep(place / "cut", order, target)
    hosts = [host]
    for left in range(again, -1, -1):
        cuts = [(cut, starts) for one in hosts for cut, starts in made.cuts_of(one, most)]
        hosts = []
        for cut, starts in cuts:
            after = made.recover(cut, starts)
            if left:
                hosts.append(after)
    return made


CASES = [(MIGRATING, False), (CRASHING, False), (GOOD, True)]
NAMES = ["upgrade", "upgrade that is rolled back", "rollback"]


@pytest.mark.parametrize(("new", "rollback"), CASES, ids=NAMES)
def test_cut_anywhere_it_ends_old_good_or_new_good(place: Path, new: str, rollback: bool) -> None:
    made = sweep(place, new, FEW, rollback=rollback)
    assert made.states > 60
    assert len(made.ends) == 1, "the same version whenever the power went"


@pytest.mark.long
@pytest.mark.timeout(600)  # thousands of hosts
@pytest.mark.parametrize(("new", "rollback"), CASES, ids=NAMES)
def test_cut_anywhere_and_anywhere_in_the_recovery_too(place: Path, new: str, rollback: bool) -> None:
    made = sweep(place, new, ALL, rollback=rollback, again=1)
    assert made.states > 1000
    assert len(made.ends) == 1


@pytest.mark.long
@pytest.mark.timeout(600)  # thousands of hosts
@pytest.mark.parametrize("new", [GOOD, CRASHING], ids=["upgrade", "upgrade that is rolled back"])
def test_cut_anywhere_where_the_program_is_a_tree_behind_a_symlink(place: Path, new: str) -> None:
    made = sweep(place, new, ALL, target=TREE)
    assert made.states > 200
    assert len(made.ends) == 1


@pytest.mark.long
@pytest.mark.timeout(600)  # thousands of hosts
def test_boot_after_boot_is_cut_until_it_gives_up_and_goes_back(place: Path) -> None:
    made = sweep(place, GOOD, NONE, again=3)
    assert set(made.ends) == {OLD, NEW}, "three boots in vain are enough"


def test_the_recorder_knows_every_step_of_the_port() -> None:
    """A new step that it does not know would be a change that no cut is tried for."""
    composed = {"directory", "replace", "discard", "beside", "install", "build"}
    steps = {name for kind in Files.__mro__[:-1] for name in vars(kind) if not name.startswith("_")} - composed
    assert steps == {name for name in vars(RecordingFiles) if not name.startswith("_")} & steps


# ---- the journal -------------------------------------------------------------------------------------------------


def test_a_record_of_the_journal_is_the_old_or_the_new_one_wherever_it_is_cut(place: Path) -> None:
    (place / "disk").mkdir()
    files = RecordingFiles(place / "disk")
    journal = Journal(place / "disk" / "lib" / "journal" / "taskmanager", files)
    acknowledged = []
    for number in range(3):
        journal.save(
            "attempt", Order(uid=str(number), from_version="", to_version="", old_digest="", new_digest="", backup="")
        )
        acknowledged.append(len(files.changes))
    journal.forget("attempt")
    acknowledged.append(len(files.changes))
    tried = 0
    for cut in files.cuts():
        lay(cut.tree, place / "cut")
        found = Journal(place / "cut" / "lib" / "journal" / "taskmanager").load("attempt", Order)
        end = int(cut.after.partition(":")[0])
        stands = sum(end >= at for at in acknowledged)
        allowed = ({"none", "0"}, {"0", "1"}, {"1", "2"}, {"2", "none"}, {"none"})[stands]
        assert (found.uid if found else "none") in allowed, f"cut after {cut.after}"
        assert not list((place / "cut").rglob("*.bad"))
        tried += 1
    assert tried > 30
