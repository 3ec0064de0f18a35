"""The tool's phase table: wherever it is killed, it ends old-good or new-good."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.upgrader.tool.phases import ENDS, NEXT, UNDO, Found, Phase, Standing, after, resume


def test_every_phase_that_is_no_end_has_a_way_on_after_success_and_after_failure() -> None:
    assert set(NEXT) == set(Phase) - ENDS
    for success, failure in NEXT.values():
        assert success in Phase
        assert failure in Phase


def test_the_way_forward_swaps_only_a_stopped_program_whose_data_are_saved() -> None:
    way, phase = [], Phase.PREPARE
    while phase not in ENDS:
        way.append(phase)
        phase = after(phase, ok=True)
    assert way == [Phase.PREPARE, Phase.STOP, Phase.SAVE, Phase.SWAP, Phase.START, Phase.VERIFY]
    assert phase is Phase.DONE


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in ENDS | UNDO])
def test_a_failure_on_the_way_forward_leads_to_the_old_version(phase: Phase) -> None:
    following = after(phase, ok=False)
    seen = []
    while following not in ENDS:
        seen.append(following)
        following = after(following, ok=True)
    assert following is Phase.ROLLED_BACK
    changed = phase in (Phase.SWAP, Phase.START, Phase.VERIFY)
    assert (Phase.UNDO_RESTORE in seen) == changed, "before the swap there is nothing to restore"


def test_a_rollback_that_could_not_restore_is_never_called_rolled_back() -> None:
    assert after(Phase.UNDO_VERIFY, ok=True) is Phase.ROLLED_BACK
    assert after(Phase.UNDO_VERIFY, ok=True, undo_failed=True) is Phase.ROLLBACK_FAILED


OLD_ONLY, NEW_ONLY, NEITHER, SAME = (
    Found(old=True, new=False),
    Found(old=False, new=True),
    Found(old=False, new=False),
    Found(old=True, new=True),
)


@pytest.mark.parametrize(
    ("phase", "disk", "expected"),
    [
        (Phase.PREPARE, OLD_ONLY, Phase.PREPARE),
        (Phase.STOP, OLD_ONLY, Phase.STOP),
        (Phase.SAVE, OLD_ONLY, Phase.STOP),  # the boot may have started it: its data moved on
        (Phase.SAVE, NEW_ONLY, Phase.UNDO_STOP),  # not our swap
        (Phase.SAVE, NEITHER, Phase.UNDO_STOP),
        (Phase.SWAP, OLD_ONLY, Phase.STOP),
        (Phase.SWAP, NEW_ONLY, Phase.START),
        (Phase.SWAP, NEITHER, Phase.UNDO_STOP),
        (Phase.SWAP, SAME, Phase.START),
        (Phase.START, NEW_ONLY, Phase.START),
        (Phase.START, OLD_ONLY, Phase.UNDO_STOP),
        (Phase.VERIFY, NEW_ONLY, Phase.START),
        (Phase.VERIFY, Found(old=False, new=True, ended=True), Phase.VERIFY),  # a crash is not tried twice
        (Phase.START, Found(old=False, new=True, ended=True), Phase.START),  # it may be the old one that ended
        (Phase.START, Found(old=False, new=True, ended=True, started=True), Phase.VERIFY),  # it is the new one
        (Phase.SWAP, Found(old=False, new=True, ended=True, started=True), Phase.VERIFY),  # the boot has started it
        (Phase.START, Found(old=False, new=True, started=True), Phase.START),  # it runs: nothing is to be started
        (Phase.START, Found(old=True, new=False, ended=True, started=True), Phase.UNDO_STOP),
        (Phase.VERIFY, NEITHER, Phase.UNDO_STOP),
        (Phase.UNDO_STOP, NEW_ONLY, Phase.UNDO_STOP),
        (Phase.UNDO_RESTORE, OLD_ONLY, Phase.UNDO_STOP),  # the data may be half restored
        (Phase.UNDO_START, OLD_ONLY, Phase.UNDO_START),
        (Phase.UNDO_VERIFY, OLD_ONLY, Phase.UNDO_START),
        (Phase.UNDO_VERIFY, NEW_ONLY, Phase.UNDO_STOP),
        (Phase.DONE, OLD_ONLY, Phase.DONE),
    ],
)
def test_resume_goes_by_what_lies_on_the_disk(phase: Phase, disk: Found, expected: Phase) -> None:
    assert resume(Standing(phase, starts=2), disk) is expected


@pytest.mark.parametrize(
    ("phase", "disk", "expected"),
    [
        (Phase.PREPARE, OLD_ONLY, Phase.UNDO_START),
        (Phase.SAVE, OLD_ONLY, Phase.UNDO_START),
        (Phase.SWAP, OLD_ONLY, Phase.UNDO_STOP),
        (Phase.VERIFY, NEW_ONLY, Phase.UNDO_STOP),
    ],
)
def test_the_fourth_start_rolls_back(phase: Phase, disk: Found, expected: Phase) -> None:
    assert resume(Standing(phase, starts=3), disk) not in UNDO
    assert resume(Standing(phase, starts=4), disk) is expected


# ---- the law --------------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """A host as small as it can be: each change is one step, and a kill may come before any of them."""

    new_is_good: bool
    kills: list[int]
    reboots: bool
    disk: str = "old"
    data: str = "old"
    running: str = "old"
    saved: str = ""
    phase: Phase = Phase.PREPARE
    starts: int = 0
    until_kill: int = 10**9
    swaps: int = 0
    runs: list[str] = field(default_factory=list)
    noted: int = 0
    boots: int = 0

    def step(self) -> None:
        """A kill may come here."""
        if self.until_kill == 0:
            raise KilledError
        self.until_kill -= 1

    def start(self) -> None:
        self.running = self.disk
        self.runs.append(self.disk)
        if self.disk == "new":
            self.data = "new"  # it may migrate what it finds
            if not self.new_is_good:
                self.running = ""

    def perform(self, phase: Phase) -> bool:
        self.step()
        match phase:
            case Phase.STOP | Phase.UNDO_STOP:
                self.running = ""
                self.noted = len(self.runs)
            case Phase.SAVE:
                assert not self.running, "the data are saved while nothing writes them"
                assert self.data == "old", "what is saved is the old version's"
                self.saved = self.data
            case Phase.SWAP:
                self.disk = "new"
                self.swaps += 1
            case Phase.UNDO_RESTORE:
                assert not self.running
                self.disk = "old"
                self.step()
                self.data = "half"
                self.step()
                self.data = self.saved or "old"
            case Phase.START | Phase.UNDO_START:
                if not self.running:
                    self.start()
            case Phase.VERIFY:
                return self.running == "new"
            case Phase.UNDO_VERIFY:
                return self.running == "old"
        self.step()
        return True

    def run(self) -> None:
        self.until_kill = self.kills.pop() if self.kills else 10**9
        self.starts += 1
        self.phase = resume(
            Standing(self.phase, self.starts),
            Found(
                old=self.disk == "old",
                new=self.disk == "new",
                ended=not self.running,
                started=len(self.runs) > self.noted,
            ),
        )
        while self.phase not in ENDS:
            self.step()
            self.phase = after(self.phase, ok=self.perform(self.phase))

    def life(self) -> None:
        while True:
            try:
                return self.run()
            except KilledError:
                if self.reboots:
                    self.running = ""
                    self.boots += 1
                    self.start()


class KilledError(Exception):
    pass


@given(
    new_is_good=st.booleans(),
    kills=st.lists(st.integers(0, 40), max_size=8),
    reboots=st.booleans(),
)
def test_under_any_eight_kills_it_ends_old_good_or_new_good(new_is_good: bool, kills: list[int], reboots: bool) -> None:
    many = len(kills)
    model = Model(new_is_good, kills, reboots)
    model.life()
    if model.phase is Phase.DONE:
        assert (model.disk, model.running) == ("new", "new")
        assert new_is_good
    else:
        assert model.phase is Phase.ROLLED_BACK
        assert (model.disk, model.running, model.data) == ("old", "old", "old")
        assert not new_is_good or many >= 3, "only three interruptions make a good version go back"
    assert model.swaps <= 1 + many
    if not new_is_good:
        assert model.runs.count("new") <= 1 + model.boots, "one that has ended is not let at its data again"


@given(kills=st.lists(st.integers(0, 40), max_size=2), reboots=st.booleans())
def test_fewer_than_three_interruptions_never_cost_a_good_version(kills: list[int], reboots: bool) -> None:
    model = Model(new_is_good=True, kills=kills, reboots=reboots)
    model.life()
    assert model.phase is Phase.DONE
    assert model.swaps == 1, "swapped once, however often it was killed"
