"""The tool's command line, on a host in a directory."""

import io
import json
import re
import sys
from collections.abc import Callable

import pytest

from modules.upgrader.host.lock import Holder, held
from modules.upgrader.host.service import Service
from modules.upgrader.tool import main
from tests.fakes.edge_host import NEW, OLD, EdgeHost, program

GOOD, CRASHING = program(NEW), program(NEW, suits="9")
Make = Callable[..., EdgeHost]


def settings(host: EdgeHost) -> str:
    """The agent's own configuration file, with sections of other modules."""
    path = host.root / "edge.yaml"
    start = json.dumps(list(host.config.target.start))
    path.write_text(
        f"edgehub: {{nodeName: edge-1}}\nupgrader:\n  root: {host.root}\n  serviceManager: process\n"
        f"  soak: 100ms\n  stopTimeout: 2s\n  target: {{format: any, start: {start}}}\n"
        f"  images: {{layout: {host.images.folder}, registry: false}}\n"
    )
    return str(path)


def keadm(host: EdgeHost, *arguments: str) -> int:
    return main([*arguments, "--settings", settings(host)])


def test_a_person_upgrades_and_goes_back(edge: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = edge(GOOD)
    assert keadm(host, "upgrade", "edge", "--toVersion", NEW, "--force") == 0
    assert "edgecore is upgraded: v1.22.0 → v1.23.0." in capsys.readouterr().out
    assert keadm(host, "upgrade", "edge", "--toVersion", NEW, "--force") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert host.starts() == [OLD, NEW]
    assert keadm(host, "rollback", "edge") == 0
    assert host.report() == {"event": "Rollback", "success": True, "fromVersion": NEW, "toVersion": OLD}
    assert host.starts() == [OLD, NEW, OLD]
    assert host.runs() == OLD


def test_a_crashing_version_ends_with_one_and_the_reason(edge: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = edge(CRASHING)
    assert keadm(host, "upgrade", "edge", "--toVersion", NEW, "--force") == 1
    said = capsys.readouterr().err
    assert "Rolled back; edgecore v1.22.0 runs again. v1.23.0 exited with code 1 after" in said
    assert '"cannot open database: schema 7"' in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("manner", "reason"),
    [
        (
            "sleep 0.1; echo 'token=hunter2 out of luck'; exit 4",
            r'exited with code 4 after 0\.[1-9] s: "token=\[removed\]',
        ),
        ("kill -SEGV $$", "was ended by SIGSEGV"),
    ],
)
def test_every_way_to_fail_has_its_words(edge: Make, manner: str, reason: str) -> None:
    host = edge(program(NEW, manner=manner))
    assert keadm(host, "upgrade", "edge", "--toVersion", NEW, "--force") == 1
    assert re.search(reason, str(host.report()["errorMessage"]))
    assert host.runs() == OLD


def test_a_new_version_that_will_not_stop_is_killed_and_rolled_back(edge: Make) -> None:
    host = edge(
        program(NEW, manner="trap '' TERM; (sleep 0.3; kill -9 $$) & while :; do sleep 60 & wait $!; done"), soak=0.1
    )
    soaked = host.root / "edge.yaml"
    settings(host)
    soaked.write_text(soaked.read_text().replace("soak: 100ms", "soak: 2s"))
    assert main(["upgrade", "edge", "--toVersion", NEW, "--force", "--settings", str(soaked)]) == 1
    assert "was ended by SIGKILL" in str(host.report()["errorMessage"])
    assert host.runs() == OLD


def test_an_image_whose_program_lies_about_its_version_touches_nothing(edge: Make) -> None:
    host = edge(program(NEW, says="v9.9.9"))
    assert keadm(host, "upgrade", "edge", "--toVersion", NEW, "--force") == 1
    assert "says that it is v9.9.9, not v1.23.0" in str(host.report()["errorMessage"])
    assert host.starts() == [OLD]
    assert not host.layout.backups.exists()


def test_a_busy_host_is_told_with_exit_code_3_and_the_report_is_left_alone(
    edge: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """KubeEdge's keadm overwrites the running command's report (spec/kubeedge.md K6); its report is a vector."""
    host = edge(GOOD)
    host.layout.etc.mkdir(exist_ok=True)
    host.layout.report.write_text("the running one's")
    for action in (("upgrade", "edge", "--toVersion", NEW, "--force"), ("rollback", "edge"), ("backup", "edge")):
        with held(host.layout.lock, Holder(job="north", attempt=1, pid=4021, step="Upgrade")):
            assert keadm(host, *action) == 3
    assert "Another upgrade holds this host: job north, attempt 1, pid 4021, step Upgrade" in capsys.readouterr().err
    assert host.layout.report.read_text() == "the running one's"
    assert host.starts() == [OLD]


@pytest.mark.parametrize(("answer", "code", "starts"), [("y\n", 0, [OLD, NEW]), ("\n", 0, [OLD]), ("no\n", 0, [OLD])])
def test_it_asks_before_it_begins(
    edge: Make, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, starts: list[str]
) -> None:
    host = edge(GOOD)
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert keadm(host, "upgrade", "edge", "--toVersion", NEW) == code
    assert host.starts() == starts
    assert host.layout.report.exists() == (starts != [OLD]), "an answer of no leaves lock and report untouched"


def test_backup_is_kubeedges_layout_and_report(edge: Make) -> None:
    host = edge()
    assert keadm(host, "backup", "edge") == 0
    assert host.report() == {"event": "Backup", "success": True, "fromVersion": "", "toVersion": OLD}
    assert (host.layout.backup(OLD) / "edgecore").read_bytes() == program(OLD)
    assert (host.layout.backup(OLD) / "edgecore.yaml").exists()
    assert (host.layout.backup(OLD) / "edgecore.db").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("upgrade", "edge"), 2, "Say to which version"),
        (("upgrade", "edge", "--toVersion", "latest", "--force"), 1, "'latest' is not a version"),
        (("upgrade", "edge", "--toVersion", "../../v1.2.3", "--force"), 1, "is not a version"),
        (("upgrade", "edge", "--toVersion", "v1.24.0", "--force"), 1, "v1.24.0"),
        (("upgrade", "cloud"), 2, "invalid choice"),
        (("upgrade", "edge", "--frobnicate"), 2, "unrecognized arguments"),
        (("rollback", "edge"), 1, "nothing to roll back to"),
        (("rollback", "edge", "--historical-version", "v1.0.0"), 1, "There is no backup of v1.0.0"),
        (("upgrade", "edge", "--toVersion", NEW, "--force", "--image", "evil/image"), 1, "does not allow images"),
        (("upgrade", "edge", "--toVersion", NEW, "--force", "--image-digest", "abc"), 1, "is not a digest"),
        (("upgrade", "edge", "--toVersion", NEW, "--force", "--pre-run", "/bin/false"), 1, "ended with code 1"),
        (("upgrade", "edge", "--request", "/nowhere"), 78, "cannot be read"),
        (("ctl", "confirm"), 1, "there are no valid upgrade tasks to execute"),
        (("--help",), 0, ""),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    edge: Make, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, said: str
) -> None:
    host = edge()
    given = arguments if arguments == ("--help",) else (*arguments, "--settings", settings(host))
    assert main(list(given)) == code
    output = capsys.readouterr()
    assert said in output.err
    assert "Traceback" not in output.err
    assert host.starts() == [OLD], "nothing was touched"


def test_wrong_settings_are_all_told_with_their_places(edge: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = edge()
    path = host.root / "bad.yaml"
    path.write_text("upgrader:\n  soak: 1\n  rooot: /x\n")
    assert main(["backup", "edge", "--settings", str(path)]) == 78
    said = capsys.readouterr().err
    assert "2 problems" in said
    assert "upgrader.soak" in said
    assert "did you mean root" in said


def test_scripts_are_run_directly_in_their_order(edge: Make) -> None:
    host = edge(GOOD)
    diary = host.root / "diary"
    for name in ("pre", "post"):
        script = host.root / name
        script.write_text(f"#!/bin/sh\necho {name} $({host.layout.executable} --version) >> {diary}\n")
        script.chmod(0o755)
    arguments = ("--pre-run", str(host.root / "pre"), "--post-run", str(host.root / "post"))
    assert keadm(host, "upgrade", "edge", "--toVersion", NEW, "--force", *arguments) == 0
    assert diary.read_text().splitlines() == [f"pre KubeEdge {OLD}", f"post KubeEdge {NEW}"]


def test_a_service_that_does_not_come_back_leaves_a_report_that_explains(edge: Make) -> None:
    """The old version breaks too: the rollback fails, and the host says what is there and what to type."""
    broken = program(OLD, manner='if [ -e "$state/broken" ]; then echo no luck; exit 5; fi')
    host = edge(program(NEW, manner='touch "$state/broken"; exit 1'))
    host.host.services.stop(Service("edgecore"))
    host.install(broken)
    host.start()
    assert keadm(host, "upgrade", "edge", "--toVersion", NEW, "--force") == 1
    report = host.report()
    assert (report["event"], report["success"]) == ("Rollback", False)
    said = str(report["errorMessage"])
    assert "rollback failed: v1.22.0 exited with code 5" in said
    assert "on disk: v1.22.0; mend it: keadm rollback edge --historical-version v1.22.0" in said
    assert host.layout.executable.read_bytes() == broken, "the old program is back, whole"
