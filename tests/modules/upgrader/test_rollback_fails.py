"""A rollback that fails leaves the host explained: what runs, what is on disk, and what a person types, which works."""

import shlex
from collections.abc import Callable

import pytest

from modules.upgrader.tool import main
from tests.fakes.edge_host import NEW, OLD, EdgeHost, program
from tests.modules.upgrader.test_tool_commands import keadm, settings

Make = Callable[..., EdgeHost]
DAMAGES = 'echo damage >> "$state/../../../etc/kubeedge/backup/v1.22.0/edgecore"; exit 1'


def failed(host: EdgeHost) -> str:
    """The reason of an upgrade whose rollback failed too."""
    assert keadm(host, "upgrade", "edge", "--toVersion", NEW, "--force") == 1
    report = host.report()
    assert (report["event"], report["success"]) == ("Rollback", False)
    said = str(report["errorMessage"])
    assert len(said) <= 256
    assert "rollback failed: Backup" in said
    assert f"runs: nothing; on disk: {NEW}; mend it: " in said
    return said


def typed(host: EdgeHost, said: str) -> int:
    """Type what it says."""
    name, *words = shlex.split(said.partition("mend it: ")[2])
    assert name == "keadm"
    return main([*words, *(("--force",) if words[0] == "upgrade" else ()), "--settings", settings(host)])


def test_with_its_backup_damaged_it_names_another_that_is_whole(edge: Make) -> None:
    host = edge(program(NEW, manner=DAMAGES))
    older = "v1.21.0"
    host.install(program(older))
    assert keadm(host, "backup", "edge") == 0
    host.install(program(OLD))
    said = failed(host)
    assert said.endswith(f"keadm rollback edge --historical-version {older}")
    assert typed(host, said) == 0
    assert host.runs() == older


def test_with_no_whole_backup_it_names_an_image(edge: Make) -> None:
    host = edge(program(NEW, manner=DAMAGES))
    said = failed(host)
    assert said.endswith(f"keadm upgrade edge --toVersion {OLD}")
    host.offer(program(OLD), OLD)
    assert typed(host, said) == 0
    assert host.runs() == OLD


def test_with_its_backup_whole_it_names_that(edge: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    host = edge(program(NEW, suits="9"))
    swap = type(host.host.program).swap

    def full(self: object, source: object, version: str, *, like_installed: bool) -> None:
        if version == OLD:
            raise OSError(28, "No space left on device")
        swap(self, source, version, like_installed=like_installed)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(type(host.host.program), "swap", full)
        assert keadm(host, "upgrade", "edge", "--toVersion", NEW, "--force") == 1
    said = str(host.report()["errorMessage"])
    assert "rollback failed: No space left on device" in said
    assert said.endswith(f"runs: nothing; on disk: {NEW}; mend it: keadm rollback edge --historical-version {OLD}")
    assert typed(host, said) == 0
    assert host.runs() == OLD
