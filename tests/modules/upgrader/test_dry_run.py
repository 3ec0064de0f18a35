"""`--dry-run`: everything is said, and not one byte, name, mode or time on the host changes."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from modules.upgrader.host.lock import Holder, held
from modules.upgrader.tool.phases import Phase
from modules.upgrader.tool.record import Order, Record, save_record
from tests.fakes.edge_host import NEW, OLD, EdgeHost, program
from tests.modules.upgrader.test_tool_commands import keadm, settings

Make = Callable[..., EdgeHost]
UPGRADE = ("upgrade", "edge", "--toVersion", NEW)


def everything(root: Path) -> dict[str, tuple[int, int, str]]:
    """Every path with its mode, the time of its last change, and its content."""
    found = {}
    for path in [root, *root.rglob("*")]:
        about = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = (about.st_mode, about.st_mtime_ns, content)
    return found


def rehearse(host: EdgeHost, *arguments: str) -> int:
    settings(host)
    before = everything(host.root)
    try:
        return main_without_settings(host, *arguments)
    finally:
        assert everything(host.root) == before
        assert host.starts()[-1:] == [host.runs()]


def main_without_settings(host: EdgeHost, *arguments: str) -> int:
    from modules.upgrader.tool import main  # noqa: PLC0415

    return main([*arguments, "--dry-run", "--settings", str(host.root / "edge.yaml")])


def test_an_upgrade_is_told_step_by_step(edge: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = edge()
    marker = host.root.with_name("ran")
    assert rehearse(host, *UPGRADE, "--pre-run", "/bin/false", "--post-run", str(marker)) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Nothing is changed (--dry-run). This would be done:"
    told = "\n".join(said[1:])
    for part in (
        f"fetch docker.io/kubeedge/installation-package:{NEW} from Layout ",
        f"save {OLD}: 0.0 MB to {host.layout.backup(OLD)}",
        "stop edgecore\n",
        f"replace {host.layout.executable} by {NEW}",
        "start edgecore, which must stay up for 0.1 s without a restart",
        f"if anything of that fails, put {OLD} back",
    ):
        assert part in told
    assert host.starts() == [OLD]


def test_backup_and_rollback_are_told(edge: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = edge()
    assert rehearse(host, "backup", "edge") == 0
    assert f"save {OLD}: 0.0 MB to {host.layout.backup(OLD)}" in capsys.readouterr().out
    assert keadm(host, *UPGRADE, "--force") == 0
    assert host.layout.config
    host.layout.config.write_text("edited\n")
    capsys.readouterr()
    assert rehearse(host, "rollback", "edge") == 0
    said = capsys.readouterr().out
    origins = "/usr/local/bin/edgecore, /etc/kubeedge/config/edgecore.yaml, /var/lib/kubeedge/edgecore.db"
    assert f"restore from {host.layout.backup(OLD)}: {origins}" in said
    assert host.runs() == NEW


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((*UPGRADE[:3], "v1.24.0"), 1, "v1.24.0"),
        ((*UPGRADE, "--image", "evil/image"), 1, "does not allow images"),
        ((*UPGRADE, "--image-digest", "abc"), 1, "is not a digest"),
        (("rollback", "edge"), 1, "nothing to roll back to"),
        (("rollback", "edge", "--historical-version", "v1.0.0"), 1, "There is no backup of v1.0.0"),
    ],
)
def test_what_would_be_refused_is_refused(
    edge: Make, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, said: str
) -> None:
    assert rehearse(edge(), *arguments) == code
    assert said in capsys.readouterr().err


def test_an_installed_version_needs_nothing(edge: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert rehearse(edge(), "upgrade", "edge", "--toVersion", OLD) == 0
    assert f"edgecore is at {OLD} already: nothing" in capsys.readouterr().out


def test_a_held_host_is_exit_code_3(edge: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = edge()
    host.layout.etc.mkdir(exist_ok=True)
    for action in (UPGRADE, ("rollback", "edge", "--historical-version", OLD), ("backup", "edge")):
        with held(host.layout.lock, Holder(job="north", attempt=1, pid=4021, step="Upgrade")):
            assert rehearse(host, *action) == 3
    assert "job north, attempt 1, pid 4021, step Upgrade" in capsys.readouterr().err


def test_what_was_interrupted_comes_first(edge: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = edge()
    order = Order(uid="a", from_version=OLD, to_version=NEW, old_digest="", new_digest="", backup=OLD)
    for key, one in (("a-0", order), ("b-1", msgspec.structs.replace(order, job="north", uid="b", attempt=1))):
        save_record(host.host.files, host.layout, key, Record(order=one, phase=Phase.SWAP))
    assert rehearse(host, *UPGRADE) == 0
    said = capsys.readouterr().out
    assert "first end what was interrupted in swap: job north, attempt 1" in said
    assert "first end what was interrupted in swap: asked for by hand" in said


@pytest.mark.parametrize("rehearsed", [True, False])
def test_a_full_disk_is_told_with_its_numbers(
    edge: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, rehearsed: bool
) -> None:
    """By hand as from a job: what has no room is not begun."""
    monkeypatch.setattr("modules.upgrader.host.measures.disk_free", lambda _: 10 * 1024 * 1024)
    host = edge(program(NEW))
    before = host.layout.etc.exists() and sorted(host.layout.etc.iterdir())
    assert (rehearse(host, *UPGRADE) if rehearsed else keadm(host, *UPGRADE, "--force")) == 1
    said = capsys.readouterr().err
    assert f"disk: 10.0 MiB free on {host.layout.etc}, 64.0 MiB needed: image 0.0, backup 0.0, program 0.0" in said
    assert "reserve 64.0" in said
    if rehearsed:
        assert before == (host.layout.etc.exists() and sorted(host.layout.etc.iterdir()))
    assert not host.layout.upgrade(NEW).exists()
