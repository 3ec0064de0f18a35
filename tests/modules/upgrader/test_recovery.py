"""What the boot unit does, on hosts in memory: cut at every step, also in the recovery itself, then booted."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from beehive.messages.host import Verdict
from modules.upgrader.host.backup import make_backup
from modules.upgrader.host.files import digest_of
from modules.upgrader.host.lock import Holder, held
from modules.upgrader.tool import main
from modules.upgrader.tool.attempts import conclude
from modules.upgrader.tool.phases import Phase
from modules.upgrader.tool.record import Record, load_record, open_records, save_record
from modules.upgrader.tool.recovery import Occasion, at_boot, occasion
from modules.upgrader.tool.request import read_request
from modules.upgrader.tool.work import Tool
from tests.fakes.edge_host import EdgeHost
from tests.fakes.memory_host import NEW, OLD, Killed, MemoryHost

GOOD, CRASHING = f"{NEW} good", f"{NEW} crash"
KEY = "6b1f-0"
UNIT = "beehive-tool@6b1f-0"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What a power cut takes of what was not synced is the hosts' tier's to show."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    caplog.set_level("CRITICAL", logger="beehive.tool")


def cut(host: MemoryHost, step: int) -> bool:
    """The tool at work until the power goes before this step; False: it had ended."""
    host.files.directory(host.layout.etc)
    host.disk.kill_before = len(host.disk.steps) + step
    try:
        conclude(host, Tool(host, KEY, load_record(host.layout, KEY) or host.record()))
    except Killed:
        return True
    return False


def boot(host: MemoryHost, cut_at: int = -1) -> None:
    """The boot unit, cut or not, then the target; a cut boot is followed by a whole one."""
    host.memory.running = ""
    host.disk.kill_before = len(host.disk.steps) + cut_at if cut_at >= 0 else -1
    try:
        at_boot(host)
    except Killed:
        boot(host)
        return
    host.disk.kill_before = -1
    host.memory.boot()


def finish(host: MemoryHost) -> Verdict | None:
    """The tool's unit, if the boot unit started it; None: there is no attempt."""
    record = load_record(host.layout, KEY)
    if record is None:
        return None
    if record.verdict is None:
        assert host.memory.launched[-1:] == [UNIT], "somebody is left to act"
        return conclude(host, Tool(host, KEY, record))
    return record.verdict


def assert_good(host: MemoryHost, verdict: Verdict | None, new: str) -> None:
    text = host.layout.executable.read_text()
    assert text == (new if verdict and verdict.step == "Upgrade" else f"{OLD} good")
    assert host.memory.running == text.split()[0]
    assert host.layout.database
    if not (verdict and verdict.step == "Upgrade"):
        assert host.layout.database.read_text() == "data of the owner"
    if verdict:
        assert verdict.ok, verdict
        assert json.loads(host.layout.report.read_text())["success"], "the report is there, whenever the power went"
    assert not open_records(host.layout)
    places = (host.layout.executable.parent, host.layout.records, host.layout.etc, host.layout.backups)
    assert not [left for place in places if place.is_dir() for left in place.glob(".*.new")]


@pytest.mark.parametrize("new", [GOOD, CRASHING])
def test_cut_at_any_step_and_booted_it_ends_old_good_or_new_good(tmp_path: Path, new: str) -> None:
    step, went_on = 0, True
    while went_on:
        host = MemoryHost(tmp_path / f"host-{step}", new)
        went_on = cut(host, step)
        boot(host)
        assert_good(host, finish(host), new)
        step += 3
    assert step > 60


@pytest.mark.parametrize("phase_at", [55, 85])
def test_cut_again_in_the_recovery_itself(tmp_path: Path, phase_at: int) -> None:
    for again in range(0, 24, 4):
        host = MemoryHost(tmp_path / f"host-{again}", CRASHING)
        assert cut(host, phase_at)
        boot(host, cut_at=again)
        assert_good(host, finish(host), CRASHING)


class Stopping(Tool):
    """A tool whose host loses its power as soon as the record says that a phase begins."""

    phase = Phase.SWAP

    def save(self) -> None:
        super().save()
        if self.record.phase is self.phase:
            raise Killed


def stopped_at(host: MemoryHost, phase: Phase, **more: object) -> Record:
    """A record as a cut in this phase leaves it, and the host off."""
    host.files.directory(host.layout.etc)
    tool = Stopping(host, KEY, host.record())
    tool.phase = phase
    with pytest.raises(Killed):
        tool.run()
    host.memory.running = ""
    record = msgspec.structs.replace(tool.record, **more)
    save_record(host.files, host.layout, KEY, record)
    return record


def test_an_interrupted_swap_is_finished_while_the_target_stands_still(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path, GOOD)
    before = stopped_at(host, Phase.SWAP)
    host.memory.starts.clear()
    at_boot(host)
    record = load_record(host.layout, KEY)
    assert record
    assert (record.phase, record.boots, record.starts) == (Phase.START, 1, before.starts)
    assert host.layout.executable.read_text() == GOOD
    assert host.memory.starts == [], "starting it is its own boot's"
    assert host.memory.launched == [UNIT]


def test_the_third_boot_goes_back_and_says_why(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path, GOOD)
    stopped_at(host, Phase.VERIFY, boots=1)
    boot(host)
    record = load_record(host.layout, KEY)
    assert record
    assert record.phase is Phase.START, "a second boot still trusts the new version"
    boot(host)
    assert host.memory.running == OLD, "the old version is there before the target starts"
    verdict = finish(host)
    assert verdict
    assert verdict.reason == "this host came up 3 times without a verdict, last in start"
    assert_good(host, verdict, GOOD)


def test_a_lock_file_that_a_cut_left_is_taken_away_even_with_nothing_open(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path)
    host.files.directory(host.layout.etc)
    host.layout.lock.write_text("{}")
    assert at_boot(host) == 0
    assert not host.layout.lock.exists()
    assert host.memory.launched == []


def test_a_host_without_a_trace_of_us_is_not_written_to(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path)
    host.disk.steps.clear()
    assert at_boot(host) == 0
    assert host.disk.steps == []


def test_a_tool_that_holds_the_host_is_left_alone_and_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = MemoryHost(tmp_path, GOOD)
    before = stopped_at(host, Phase.SWAP)
    with held(host.layout.lock, Holder(job="north", step="Upgrade")):
        assert at_boot(host) == 1
    assert "Another upgrade holds this host: job north" in capsys.readouterr().err
    assert load_record(host.layout, KEY) == before


def test_an_attempt_by_hand_gets_the_request_that_it_never_had(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path, GOOD)
    stopped_at(host, Phase.SWAP)
    at_boot(host)
    request, config = read_request(host.layout.request("6b1f-0"))
    assert (request.uid, request.attempt, request.from_version, request.to_version) == ("6b1f", 0, OLD, NEW)
    assert config == host.config


@pytest.mark.parametrize(
    ("environment", "marked", "why"),
    [
        ({}, False, Occasion.PERSON),
        ({}, True, Occasion.PERSON),
        ({"RUNTIME_DIRECTORY": "here"}, False, Occasion.BOOT),
        ({"RUNTIME_DIRECTORY": "here"}, True, Occasion.TOOL_FAILED),
        ({"RUNTIME_DIRECTORY": "here", "MONITOR_UNIT": "beehive-tool@x-0.service"}, False, Occasion.TOOL_FAILED),
    ],
)
def test_why_it_runs(tmp_path: Path, environment: dict[str, str], marked: bool, why: Occasion) -> None:
    if "RUNTIME_DIRECTORY" in environment:
        environment = environment | {"RUNTIME_DIRECTORY": str(tmp_path)}
    if marked:
        (tmp_path / "recovered").touch()
    assert occasion(environment) is why


Make = Callable[..., EdgeHost]


def run(host: EdgeHost) -> int:
    place = host.root / "edge.yaml"
    target = {"format": "any", "start": host.config.target.start}
    section = {"root": str(host.root), "serviceManager": "process", "soak": "100ms", "target": target}
    place.write_text(json.dumps({"upgrader": section}))
    return main(["recover", "edge", "--settings", str(place)])


def test_a_person_has_everything_brought_to_its_end(edge: Make) -> None:
    host = edge(soak=0.1)
    assert run(host) == 0
    assert host.runs() == OLD


def test_when_the_tools_unit_has_failed_it_rolls_back_at_once(
    edge: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = edge(soak=0.1)
    artefact = host.layout.artefact(NEW)
    artefact.parent.mkdir(parents=True)
    artefact.write_bytes(host.layout.executable.read_bytes().replace(OLD.encode(), NEW.encode()))
    order = msgspec.structs.replace(
        MemoryHost(tmp_path / "memory").order(),
        old_digest=digest_of(host.layout.executable),
        new_digest=digest_of(artefact),
    )
    make_backup(host.host.files, host.layout, OLD)
    host.install(artefact.read_bytes())
    save_record(host.host.files, host.layout, KEY, Record(order=order, phase=Phase.VERIFY, starts=3))
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("MONITOR_UNIT", "beehive-tool@6b1f-0.service")
    assert run(host) == 0
    record = load_record(host.layout, KEY)
    assert record
    assert record.verdict
    assert record.verdict.reason == "the tool ended again and again without a verdict"
    assert host.runs() == OLD
    assert host.report()["success"]


def test_broken_settings_are_said_and_do_not_stop_it(edge: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = edge()
    place = host.root / "edge.yaml"
    place.write_text("upgrader: [")
    assert main(["recover", "edge", "--settings", str(place), "--root", str(host.root)]) == 0
    assert "edge.yaml" in capsys.readouterr().err
    assert main(["backup", "edge", "--settings", str(place), "--root", str(host.root)]) == 78
