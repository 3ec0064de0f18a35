"""`beehive demo` as a newcomer runs it: what it prints is true, and nothing is left behind."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.running.build import KUBECTL

PROGRAM = Path(sys.executable).with_name("beehive")


def demo(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run it with its own temporary folder."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(directory), "TMPDIR": str(directory), "LANG": "C.UTF-8"}
    return subprocess.run(
        (PROGRAM, "demo", *arguments), capture_output=True, text=True, timeout=110, check=False, env=environment
    )


def left_behind(directory: Path) -> list[str]:
    """Processes whose command line names the demo's folder."""
    marked = str(directory).encode()
    return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and marked in _command_line(entry)]


def _command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def test_rollout_has_three_kinds_of_outcome_and_the_versions_agree(tmp_path: Path) -> None:
    done = demo("--json", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(done.stdout.splitlines()) == 1
    assert (told["job"], told["phase"]) == ("demo", "Completed")
    assert told["seconds"] < 60
    outcomes = {name: (node["phase"], node["reasonCode"], node["running"]) for name, node in told["nodes"].items()}
    assert outcomes == {
        "edge-1": ("Successful", "", "v1.23.0"),
        "edge-2": ("Failure", "RolledBack", "v1.22.0"),
        "edge-3": ("Successful", "", "v1.23.0"),
        "edge-4": ("Skipped", "NotConnected", "v1.22.0"),
        "edge-5": ("Successful", "", "v1.23.0"),
    }
    assert {(node["from"], node["to"]) for node in told["nodes"].values()} == {("v1.22.0", "v1.23.0")}
    assert list(tmp_path.glob("beehive-demo-*")) == []
    assert left_behind(tmp_path) == []
    assert "its power was cut during the upgrade" in done.stderr


TOLD = {
    "upgrade": ("Completed", {f"edge-{number}": "Successful" for number in range(1, 5)}),
    "rollback": ("Completed", {"edge-1": "Successful", "edge-2": "Failure/RolledBack", "edge-3": "Successful"}),
    "powercut": ("Completed", {f"edge-{number}": "Successful" for number in range(1, 4)}),
    "offline": ("Completed", {f"edge-{number}": "Successful" for number in range(1, 4)}),
}
NOTES = {"powercut": "its power was cut", "offline": "it was away, and came back when the others were done"}


@pytest.mark.parametrize("scene", list(TOLD))
def test_a_scene_ends_as_told(tmp_path: Path, scene: str) -> None:
    done = demo("--json", "--scene", scene, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["scene"], told["asTold"]) == (scene, True)
    assert told["seconds"] < 60
    outcomes = {name: "/".join(filter(None, (one["phase"], one["reasonCode"]))) for name, one in told["nodes"].items()}
    assert (told["phase"], outcomes) == TOLD[scene]
    running = {name: "v1.23.0" if phase == "Successful" else "v1.22.0" for name, phase in outcomes.items()}
    assert {name: one["running"] for name, one in told["nodes"].items()} == running
    assert NOTES.get(scene, "") in done.stderr
    assert left_behind(tmp_path) == []


def test_a_bad_rollout_stops_itself(tmp_path: Path) -> None:
    done = demo("--scene", "budget", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Job demo is Failure (BudgetExceeded)." in done.stdout
    assert "2 rolled back, 3 skipped" in done.stdout
    assert "It ended as told, and every host runs a complete version. Try next:" in done.stdout
    assert "beehive demo --scene abort" in done.stdout
    assert left_behind(tmp_path) == []


def test_an_aborted_job_leaves_the_hosts_alone_that_had_not_begun(tmp_path: Path) -> None:
    done = demo("--scene", "abort", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Job demo is Failure (Aborted)." in done.stdout
    table = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if line.startswith(" edge-")}
    assert (table["edge-1"], table["edge-4"], table["edge-5"]) == ("Successful", "Skipped", "Skipped")
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_person_who_stops_it_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8"}
    with subprocess.Popen(
        (PROGRAM, "demo"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if "InProgress" in line:
                break
        running.send_signal(number)
        said = running.stdout.read()
        running.wait(60)
    assert "Traceback" not in said
    assert list(tmp_path.glob("beehive-demo-*")) == []
    assert left_behind(tmp_path) == []


def test_kept_running_it_answers_kubectl(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8"}
    with subprocess.Popen(
        (PROGRAM, "demo", "--keep"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as running:
        assert running.stdout is not None
        told: list[str] = []
        while not told or "--kubeconfig" not in told[-1]:
            told.append(next(running.stdout))
        command = told[-1].partition("with: ")[2].split()
        asked = subprocess.run(
            (KUBECTL.path(), *command[1:]), capture_output=True, text=True, env=environment, timeout=60, check=False
        )
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0, told
    assert asked.returncode == 0, asked.stderr
    header, line = asked.stdout.splitlines()
    assert header.split() == ["NAME", "VERSION", "PHASE", "DONE", "FAILED", "AGE", "WAITING", "REASON"]
    assert line.split()[:5] == ["demo", "v1.23.0", "Completed", "5/5", "1"]
    assert left_behind(tmp_path) == []
