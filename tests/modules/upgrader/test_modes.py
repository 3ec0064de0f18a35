"""Whatever umask this host has: what we write is root's alone, and hostile names become no path."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beehive.errors import Refused
from beehive.messages.host import StepDone
from modules.upgrader.config import Config
from modules.upgrader.host.layout import Layout
from modules.upgrader.host.names import attempt_key, checked_name, checked_version, unit_key
from tests.fakes.alone import alone
from tests.modules.upgrader.driving import UID, Make, at_rest, done, order, upgrader

HOSTILE = [
    "", ".", "..", "../x", "a/b", "/etc/passwd", "a\0b", "a\nb", "a b", "-rf", "--help", "~", "$(reboot)", "`id`",
    "a;b", "a|b", "a..b", "*", "ä", "a" * 101, "%i", "a@b", "\x1b[31m", ".hidden", "a\\b", "con:", "\u202ea",
]  # fmt: skip


@pytest.fixture
def open_umask() -> Iterator[None]:
    """The most generous one that there is."""
    before = os.umask(0)
    yield
    os.umask(before)


def too_open(place: Path) -> list[str]:
    """What others than its owner may read, write or enter."""
    found = [place, *place.rglob("*")] if place.exists() else []
    return [f"{path} {path.lstat().st_mode:o}" for path in found if not path.is_symlink() and _is_open(path)]


def _is_open(path: Path) -> bool:
    return bool(stat.S_IMODE(path.lstat().st_mode) & 0o077)


async def test_after_an_upgrade_nothing_of_ours_is_open_to_others(edge: Make, open_umask: None) -> None:
    host = edge()
    config = host.layout.config
    assert config
    config.chmod(0o600)
    assert host.layout.database
    host.layout.database.chmod(0o600)
    async with alone(upgrader(host)) as peers:
        await peers.send(order("WaitingConfirmation", uid="1" + UID[1:], require_confirmation=True))
        assert (await done(peers, "Check", uid="2" + UID[1:])).code == "Busy"
    async with alone(upgrader(host)) as peers:
        for step in ("Check", "BackUp", "Upgrade"):
            ended = await done(peers, step)
            assert ended.ok, ended
        await at_rest(peers)
    programs = {host.layout.artefact("v1.23.0"), host.layout.backup("v1.22.0") / host.layout.executable.name}
    open_ones = [
        one
        for place in (
            host.layout.backups,
            host.layout.upgrades,
            host.layout.state,
            host.layout.logs,
            host.layout.report,
        )
        for one in too_open(place)
        if Path(one.rpartition(" ")[0]) not in programs
    ]
    assert open_ones == []
    for program in programs:
        assert not _is_open(program.parent), "a program keeps its mode, in a folder that is root's alone"


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_name_becomes_a_path(name: str) -> None:
    layout = Layout(Config(root="/nonexistent"))
    makers: list[Callable[[str], object]] = [checked_name, layout.record, layout.request, layout.saved_database]
    for make in [*makers, checked_version, layout.backup, layout.upgrade, layout.artefact]:
        with pytest.raises(Refused):
            make(name)
    for key in (attempt_key, unit_key):
        try:
            made = key(name, 0)
        except Refused:
            continue
        assert "/" not in made, made
        assert made.isascii(), made
        assert not made.startswith((".", "-")), made


async def test_a_step_with_a_hostile_version_or_uid_is_refused_and_leaves_nothing(edge: Make) -> None:
    host = edge()
    before = set(host.root.rglob("*"))
    async with alone(upgrader(host)) as peers:
        for name in HOSTILE:
            for task in (order("Check", version=name), order("BackUp", uid=name), order("Upgrade", uid=name)):
                await peers.send(task)
                ended = await peers.heard(StepDone, 30)
                assert (ended.ok, "Traceback" in ended.reason) == (False, False), (task, ended)
    assert set(host.root.rglob("*")) == before
