"""Whatever is unplugged when, an attempt ends, and what it says in the end is true.

A model of one host: its disk and its tool survive what real ones survive, time passes in ticks, and power is cut or the
agent killed at moments that Hypothesis chooses: between saving and acting, inside actions, during recovery.
"""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from beehive.api.nodeupgradejob import BACK_UP, CHECK, ROLL_BACK, UPGRADE, WAITING_CONFIRMATION
from beehive.messages.host import Evidence, RunStep, StepDone, Verdict, WatchStep
from beehive.messages.tasks import Hello, TaskReport
from beehive.messages.uplink import Say
from modules.taskmanager.hearing import step
from modules.taskmanager.record import Decision, Moment, Policy, Record
from modules.taskmanager.resume import resume
from tests.rules.playing import done, start

OLD, NEW = "v1.22.0", "v1.23.0"
POLICY = Policy()


class Unplugged(Exception):  # noqa: N818 - nothing went wrong in the test
    """The power went, or the agent was killed."""


class Ways(Struct):
    """How this host and its new program behave."""

    good: bool = True
    """The new program runs; else the tool finds out and rolls back."""
    undo_works: bool = True
    recovers: bool = True
    """A unit at boot starts the tool again; else nobody does (no systemd)."""
    boot_leaves_half: bool = False
    """Nobody finishes a half swap at boot either."""
    crashes_late: bool = False
    """A program that is not good runs for a while, until the tool finds out."""


class Host:
    """Disk, tool and agent of one node."""

    def __init__(self, ways: Ways, cuts: list[tuple[int, bool]]) -> None:
        self.ways = ways
        self._cuts = iter(cuts)
        self._next_cut = next(self._cuts, None)
        self._ticks = 0
        # what survives everything
        self.disk = Record()
        self.installed, self.complete = OLD, True
        self.verdict: Verdict | None = None
        self.taken_up = False
        self.boot = 1
        # what survives the agent
        self.tool: Iterator[None] | None = None
        # what survives nothing
        self.in_process: StepDone | None = None
        self.watched = False
        self.record = Record()
        self.said: list[TaskReport] = []
        self.runs: list[str] = []

    # -- moments at which something may be unplugged

    def tick(self) -> None:
        self._ticks += 1
        if self._next_cut and self._ticks >= self._next_cut[0]:
            power = self._next_cut[1]
            self._next_cut, self._ticks = next(self._cuts, None), 0
            raise self._unplug(power)
        if self.tool is not None and next(self.tool, "end") == "end":
            self.tool = None

    def _unplug(self, power: bool) -> Unplugged:
        self.in_process, self.watched = None, False
        if power:
            self.boot += 1
            upgrading, self.tool = self.tool is not None, None
            if not self.complete and not self.ways.boot_leaves_half:
                self.installed, self.complete = OLD, True
            if upgrading and self.ways.recovers and self.verdict is None:
                self.tool = self._upgrade()
        return Unplugged()

    # -- the tool

    def _upgrade(self) -> Iterator[None]:
        self.taken_up = True
        yield
        if self.installed != NEW:
            self.installed, self.complete = "", False
            yield
            self.installed, self.complete = NEW, True
        yield
        yield
        if self.ways.good:
            self.verdict = Verdict("Upgrade", True, "", "", OLD, NEW)
        else:
            yield from self._undo("it crashed")

    def _undo(self, why: str) -> Iterator[None]:
        if self.installed != OLD:
            self.installed, self.complete = "", False
            yield
        if not self.ways.undo_works:
            self.verdict = Verdict("RollBack", False, "RollbackFailed", why)
            return
        self.installed, self.complete = OLD, True
        yield
        self.verdict = Verdict("RollBack", True, "RolledBack", why, NEW, OLD)

    # -- the agent

    def now(self) -> Moment:
        return Moment(1e9, f"boot-{self.boot}", 10.0)

    def evidence(self) -> Evidence:
        healthy = self.complete and (self.installed == OLD or self.ways.good or self.ways.crashes_late)
        return Evidence(
            installed=self.installed if self.complete else "",
            healthy=healthy,
            complete=self.complete,
            unit_runs=self.tool is not None,
            verdict=self.verdict,
            undecided=self.taken_up and self.verdict is None,
        )

    def do(self, decision: Decision) -> None:
        self.tick()
        self.disk = decision.record
        self.record = decision.record
        self.tick()
        for effect in decision.effects:
            self._act(effect)
            self.tick()

    def _act(self, effect: object) -> None:
        if isinstance(effect, Say) and isinstance(effect.body, TaskReport):
            self.said.append(effect.body)
        elif isinstance(effect, Say) and isinstance(effect.body, Hello):
            self.asked = True
        elif isinstance(effect, RunStep):
            assert self.disk.attempt is not None, "it acts before it saved"
            assert self.disk.attempt.step == effect.step, "it acts before it saved"
            assert self.disk.attempt.begun
            self._run(effect.step)
        elif isinstance(effect, WatchStep):
            self.watched = True

    def _run(self, action: str) -> None:
        self.runs.append(action)
        if action in (CHECK, BACK_UP, WAITING_CONFIRMATION):
            self.in_process = done(action, from_version=OLD)
        elif self.tool is None:
            if action == UPGRADE and self.verdict is None:
                self.tool = self._upgrade()
            elif action == ROLL_BACK and (self.verdict is None or (self.verdict.ok and self.verdict.step == UPGRADE)):
                self.tool = self._undo("asked to")
            self.watched = True

    def work(self) -> StepDone | None:
        """A word of the upgrader, when it has one."""
        self.tick()
        if self.in_process:
            word, self.in_process = self.in_process, None
            return word
        if self.watched and self.tool is None and self.verdict:
            self.watched, v = False, self.verdict
            return StepDone(
                uid="u1", attempt=1, step=v.step, ok=v.ok, code=v.code, reason=v.reason,
                from_version=v.from_version, to_version=v.to_version,
            )  # fmt: skip
        return None

    asked = False


def live(host: Host) -> None:
    """From a start of the agent until the attempt has ended."""
    host.record = host.disk
    evidence = host.evidence() if host.record.attempt else None
    host.do(resume(host.record, evidence, host.now(), POLICY))
    if host.record.attempt is None and not host.record.finished:
        host.do(step(host.record, start(), host.now(), POLICY))
    for _ in range(60):
        if host.record.attempt is None:
            return
        if not host.record.attempt.begun:
            host.do(step(host.record, start(), host.now(), POLICY))  # the cloud answers its Hello
        word = host.work()
        if word is not None:
            host.do(step(host.record, word, host.now(), POLICY))
    raise AssertionError(f"it does not end: {host.record.attempt}, {host.verdict}")


ways = st.builds(Ways, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
cuts = st.lists(st.tuples(st.integers(1, 14), st.booleans()), max_size=8)


@settings(max_examples=1500, deadline=None)
@given(ways, cuts)
def test_under_any_eight_cuts_it_ends_and_what_it_says_is_true(how: Ways, when: list[tuple[int, bool]]) -> None:
    host = Host(how, when)
    for _ in range(10):
        try:
            live(host)
            break
        except Unplugged:
            continue
    (last,) = host.record.finished
    word = last.report
    assert word.final
    if word.code == "":
        assert (host.installed, host.complete) == (NEW, True), "success means that the target is installed"
        assert word.to_version == NEW
        assert how.good, "and that it runs"
    elif word.code in ("RolledBack", "Interrupted"):
        assert (host.installed, host.complete) == (OLD, True), "rolled back means that the source is installed"
    else:
        assert word.code == "RollbackFailed"
        assert not how.undo_works
    revisions = [one.revision for one in host.said]
    assert revisions == sorted(revisions), "revisions never fall"
    assert word in host.said, "and the end was said"
    assert len({one.revision: one for one in host.said if one.final}) == 1, "there is one end"
    if not when:
        assert word.code == ("" if how.good else "RolledBack" if how.undo_works else "RollbackFailed")


@given(ways, cuts)
def test_one_revision_says_one_thing(how: Ways, when: list[tuple[int, bool]]) -> None:
    host = Host(how, when)
    for _ in range(10):
        try:
            live(host)
            break
        except Unplugged:
            continue
    told: dict[int, TaskReport] = {}
    for one in host.said:
        assert told.setdefault(one.revision, one) == one


def test_without_recovery_three_cuts_in_the_upgrade_are_rolled_back() -> None:
    host = Host(Ways(recovers=False), [])
    host.do(step(host.record, start(), host.now(), POLICY))
    while not host.tool:
        if word := host.work():
            host.do(step(host.record, word, host.now(), POLICY))
    for _ in range(3):
        host.tool, host.in_process, host.boot = None, None, host.boot + 1
        host.do(resume(host.disk, host.evidence(), host.now(), POLICY))
    assert host.runs[-1] == ROLL_BACK
    live(host)
    assert host.record.finished[-1].report.code == "RolledBack"
    assert host.installed == OLD
