"""The tool's log in /var/log/kubeedge: what was done and how it ended, for whoever comes to this host later."""

from collections.abc import Callable

import pytest

from tests.fakes.edge_host import NEW, EdgeHost, program
from tests.modules.upgrader.test_tool_commands import keadm

Make = Callable[..., EdgeHost]
UPGRADE = ("upgrade", "edge", "--toVersion", NEW, "--force")


def test_it_tells_each_phase_and_the_end_and_no_secret(edge: Make) -> None:
    host = edge(program(NEW, manner="echo password=hunter2 wrong; exit 7"))
    assert keadm(host, *UPGRADE) == 1
    place = host.layout.logs / "keadm.log"
    text = place.read_text()
    for part in (
        "begins: Upgrade v1.22.0 -> v1.23.0, by hand", "swap begins", "verify failed: v1.23.0 exited with code 7",
        "undo-restore begins", "ends: rolled back: v1.23.0 exited with code 7",
    ):  # fmt: skip
        assert part in text
    assert "hunter2" not in text
    assert place.stat().st_mode & 0o777 == 0o600


def test_it_goes_on_with_the_next_attempt_and_stays_small(edge: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.upgrader.tool.diary.LARGEST", 2000)
    host = edge()
    for _ in range(3):
        assert keadm(host, *UPGRADE) == 0
        assert keadm(host, "rollback", "edge") == 0
    files = sorted(path.name for path in host.layout.logs.glob("keadm.log*"))
    assert files == ["keadm.log", "keadm.log.1"]
    assert all((host.layout.logs / name).stat().st_size <= 2000 for name in files)
    assert "ends: rolled back" in (host.layout.logs / "keadm.log").read_text()


def test_a_disk_that_takes_no_log_stops_nothing(edge: Make) -> None:
    host = edge()
    (host.layout.logs / "keadm.log").mkdir(parents=True)
    assert keadm(host, *UPGRADE) == 0
    assert host.runs() == NEW
