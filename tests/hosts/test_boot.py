"""The boot unit: what it finishes, what it undoes, what it leaves alone, and how long it takes."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from modules.upgrader.host.files import Files, digest_of
from modules.upgrader.tool.record import save_record
from tests.hosts.running.cuts import at_rest, judged, moments, reached
from tests.hosts.running.edge import NEW, OLD, UID, UNIT, Edge
from tests.hosts.running.forge import Forge
from tests.hosts.running.machine import copy_image, wait_until
from tests.real.running.standins import Variant, standin

Make = Callable[..., Edge]
RECOVER = "beehive-recover.service"
_TIMES = ("ExecMainStartTimestampMonotonic", "ExecMainExitTimestampMonotonic", "ExecMainStatus", "Result")


def took(host: Edge) -> float:
    """Seconds that the boot unit took."""
    shown = host.machine.show(RECOVER, *_TIMES)
    assert (shown["ExecMainStatus"], shown["Result"]) == ("0", "success"), host.explain()
    return (int(shown[_TIMES[1]]) - int(shown[_TIMES[0]])) / 1_000_000


def test_with_nothing_to_do_it_costs_the_boot_less_than_a_second(edge: Make) -> None:
    host = edge(standin(NEW))
    times = [took(host)]
    while min(times) > 1.0 and len(times) < 3:  # the machine may be busy with something else
        host.machine.shut_down()
        host.machine.boot()
        times.append(took(host))
    crowd = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert min(times) <= 1.0 * crowd, f"{times} with {crowd:.1f} processes for each processor"
    assert host.record() is None
    assert host.running() == OLD


def test_the_target_starts_after_it(edge: Make) -> None:
    host = edge(standin(NEW))
    ended = int(host.machine.show(RECOVER, _TIMES[1])[_TIMES[1]])
    assert ended <= int(host.machine.show("edgecore.service", _TIMES[0])[_TIMES[0]])


@pytest.fixture(scope="module")
def half_swapped(forge: Forge) -> Iterator[Path]:
    """The disk of a host that was cut off just before the new program got its place."""
    for cut in moments(forge, "swap", standin(NEW), lambda cut: cut.name == "before rename .edgecore.new"):
        if cut.disk.exists():
            break
    else:
        pytest.fail("the program is renamed nowhere")
    yield cut.disk
    cut.disk.unlink()


@pytest.fixture
def swapping(forge: Forge, half_swapped: Path) -> Iterator[Edge]:
    """A host of its own with that disk."""
    copy = half_swapped.with_suffix(".copy")
    copy_image(half_swapped, copy)
    host = Edge(forge.machine(copy), soak=0.3)
    yield host
    host.machine.remove()


def test_an_interrupted_swap_is_finished_before_the_target_starts(swapping: Edge) -> None:
    swapping.machine.boot()
    wait_until(lambda: at_rest(swapping), "the end", 45, swapping.explain)
    assert judged(swapping, standin(NEW), standin(OLD)) == "new"
    assert swapping.starts() == [OLD, NEW], "the target was started once, and with the new program"


def test_a_swap_whose_new_program_was_lost_is_undone_before_the_target_starts(swapping: Edge) -> None:
    swapping.machine.mount()
    swapping.layout.artefact(NEW).write_bytes(b"half")
    swapping.layout.executable.write_bytes(b"half")
    swapping.machine.boot()
    wait_until(lambda: at_rest(swapping), "the end", 45, swapping.explain)
    assert judged(swapping, standin(NEW), standin(OLD)) == "old"
    assert swapping.starts() == [OLD, OLD]


def test_settings_that_nobody_can_read_do_not_keep_a_host_from_being_mended(swapping: Edge) -> None:
    swapping.machine.mount()
    swapping.machine.path("/etc/beehive/edge.yaml").write_text("upgrader: [")
    swapping.machine.boot()
    wait_until(lambda: at_rest(swapping), "the end", 45, swapping.explain)
    assert judged(swapping, standin(NEW), standin(OLD)) == "new"


def test_a_third_boot_without_a_verdict_goes_back_to_the_old_version(swapping: Edge) -> None:
    machine = swapping.machine
    cut = machine.folder / "cut"
    cut.mkdir()
    (cut / "stepping").touch()
    machine.shared["/cut"] = cut
    for boot in (1, 2):
        (cut / "at").unlink(missing_ok=True)
        machine.boot()
        wait_until(lambda: reached(cut), f"the tool's start in boot {boot}", 30, swapping.explain)
        assert swapping.running() == NEW
        machine.pull_the_plug()
    (cut / "stepping").unlink()
    machine.boot()
    wait_until(lambda: at_rest(swapping), "the end", 45, swapping.explain)
    assert judged(swapping, standin(NEW), standin(OLD)) == "old"
    record = swapping.record()
    assert record
    assert record.verdict
    assert record.boots == 3
    assert record.verdict.reason.startswith("this host came up 3 times without a verdict")
    assert swapping.starts()[-1] == OLD


def test_a_tool_that_is_killed_again_and_again_is_rolled_back_without_a_boot(edge: Make) -> None:
    host = edge(standin(NEW), soak=8.0)
    host.upgrade()
    wait_until(lambda: host.running() == NEW, "the new version", 30, host.explain)
    for kill in range(3):
        wait_until(lambda n=kill + 1: (r := host.record()) and r.starts == n, "the tool at work", 30, host.explain)  # type: ignore[misc]
        host.machine.kill_main(UNIT)
    wait_until(lambda: at_rest(host), "the end", 45, host.explain)
    record = host.record()
    assert record
    assert record.verdict
    assert (record.verdict.step, record.verdict.ok) == ("RollBack", True), f"{record} {host.explain()}"
    assert "the tool ended again and again without a verdict" in record.verdict.reason
    assert host.running() == OLD
    assert digest_of(host.layout.executable) == digest_of(standin(OLD))
    assert host.report()["success"]
    assert not host.layout.lock.exists()


def test_a_verdict_that_had_not_reached_the_report_file_is_written_there(edge: Make) -> None:
    host = edge(standin(NEW))
    host.upgrade()
    record = host.until_verdict()
    wanted = host.layout.report.read_bytes()
    host.layout.report.unlink()
    host.machine.shut_down()
    host.machine.boot()
    assert not host.layout.report.exists(), "EdgeCore took it: it is not told twice"
    save_record(Files(), host.layout, f"{UID}-0", replace(record, told=False))
    host.machine.shut_down()
    host.machine.boot()
    assert host.layout.report.read_bytes() == wanted


def test_a_version_that_crashes_only_after_the_cut_is_taken_back(forge: Forge) -> None:
    """The plug is pulled while the new version is on trial; after the boot it dies."""
    host = forge.edge(standin(NEW, Variant.DYING, lives="2s"), soak=30.0)
    try:
        host.machine.boot()
        host.upgrade()
        wait_until(lambda: host.running() == NEW, "the new version", 30, host.explain)
        host.machine.pull_the_plug()
        host.machine.boot()
        wait_until(lambda: at_rest(host), "the end", 60, host.explain)
        assert host.running() == OLD
        assert host.report()["event"] == "Rollback"
    finally:
        host.machine.remove()
