"""What an ended attempt leaves on the disk: two programs, two backups, and whatever somebody still needs."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from modules.upgrader.host.backup import load_backup, make_backup
from modules.upgrader.tool.attempts import conclude
from modules.upgrader.tool.outdated import KEPT_VERSIONS, outdated
from modules.upgrader.tool.phases import Phase
from modules.upgrader.tool.record import Record, save_record
from modules.upgrader.tool.work import Tool
from tests.fakes.memory_host import NEW, OLD, MemoryHost

versions = st.lists(st.sampled_from([f"v1.{n}.0" for n in range(8)]), unique=True)


@given(there=versions, needed=st.sets(st.sampled_from([f"v1.{n}.0" for n in range(8)])))
def test_the_needed_and_the_newest_stay(there: list[str], needed: set[str]) -> None:
    gone = outdated(there, needed)
    stays = [version for version in there if version not in gone]
    assert not needed & set(gone)
    assert set(stays) >= needed & set(there)
    assert len(stays) <= max(KEPT_VERSIONS, len(needed & set(there)))
    assert len(stays) >= min(KEPT_VERSIONS, len(there)), "there is always one to go back to"
    others = [version for version in there if version not in needed]
    assert others[len(others) - len(gone) :] == gone, "the oldest go"


def history(host: MemoryHost, older: int) -> None:
    """Backups and programs of earlier versions, the newest last."""
    for number in range(older):
        version = f"v1.{number}.0"
        make_backup(host.disk, host.layout, version)
        program = host.layout.artefact(version)
        program.parent.mkdir(parents=True)
        program.write_text(f"{version} good")
        for folder in (host.layout.backup(version), program.parent):
            (folder / "manifest.json").touch()
            os.utime(folder / "manifest.json", ns=(number, number))
    (host.layout.artefact(NEW).parent / "manifest.json").touch()


def folders(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_an_ended_attempt_keeps_two_and_can_still_be_undone(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path)
    history(host, 5)
    (host.layout.backups / "v1.9.9").mkdir()  # keadm's own, without a manifest
    verdict = conclude(host, Tool(host, "6b1f-0", host.record()))
    assert verdict.step == "Upgrade"
    assert folders(host.layout.backups) == [OLD, "v1.4.0", "v1.9.9"]
    assert folders(host.layout.upgrades) == [NEW, "v1.4.0"]
    assert load_backup(host.layout, OLD).version == OLD


def test_what_an_attempt_without_a_verdict_needs_stays(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path)
    history(host, 5)
    other = replace(host.order(), uid="other", from_version="v1.0.0", to_version="v1.1.0", backup="v1.0.0")
    save_record(host.disk, host.layout, "other-0", Record(order=other, phase=Phase.VERIFY))
    conclude(host, Tool(host, "6b1f-0", host.record()))
    assert {OLD, "v1.0.0", "v1.1.0"} == set(folders(host.layout.backups))
    assert {NEW, "v1.0.0", "v1.1.0"} == set(folders(host.layout.upgrades))


def test_a_disk_that_refuses_does_not_cost_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = MemoryHost(tmp_path)
    history(host, 5)

    def refuse(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    tool = Tool(host, "6b1f-0", host.record())
    tool.run()
    monkeypatch.setattr(host.disk, "remove_tree", refuse)
    assert conclude(host, tool).step == "Upgrade"
    assert len(folders(host.layout.backups)) == 6, "nothing half is left: they are all there"
