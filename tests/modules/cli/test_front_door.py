"""The front door: names, words, exit codes; what is wrong is one sentence, never a traceback."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from beehive.config import Source, load
from beehive.errors import EXIT_CONFIG, EXIT_FAILED, EXIT_OK, EXIT_RUNTIME, EXIT_USAGE
from beehive.messages.host import Waiting
from beehive_cli.keadm import run as keadm
from beehive_cli.root import run
from modules.upgrader.config import Config
from modules.upgrader.confirmation import said, wait_for
from modules.upgrader.host.host import Host

TOP = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mode", "clod"], '"clod" is not a mode. Did you mean cloud?'),
        (["--mode", "both"], '"both" is not a mode. There is cloud, edge.'),
        (["--mode", "cloud", "--modules", "informer,cloudhubb"], '"cloudhubb" is not a module. Did you mean cloudhub?'),
        (
            ["--mode", "edge", "--modules", "etcdmanager"],
            "etcdmanager is no module of mode edge; there are upgrader, taskmanager, edgehub, control.",
        ),
        (["--mode", "cloud", "--modules", ""], '"" is not a module.'),
        (["--mdoe", "cloud"], "--mode"),
        (["dmo"], '"dmo" is not a command. Did you mean demo?'),
        (["--mode", "cloud", "--set", "nonsense"], '"nonsense" is not PATH=VALUE'),
        (["--mode", "cloud", "--log-format", "xml"], '"xml" is not a log format.'),
        (["token", "create", "--ttl", "24"], '"24" has no unit; write 24s'),
        (["demo", "--scene", "rolout"], "rollout"),
        (["edge", "join"], "--cloud"),
    ],
)
def test_a_wrong_word_is_a_usage_error_that_names_the_right_one(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == EXIT_USAGE
    shown = capsys.readouterr().err
    assert said in shown
    assert "Traceback" not in shown


def test_modules_that_cannot_work_without_others_are_refused_with_the_sentences_of_the_router(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = f"runtime.data={tmp_path / 'data'}"
    assert run(["--mode", "edge", "--modules", "taskmanager", "--set", data]) == EXIT_RUNTIME
    shown = capsys.readouterr().err
    assert "taskmanager sends RunStep, but no module in this mode accepts it." in shown
    assert "Traceback" not in shown


def test_a_fault_of_ours_ends_in_a_sentence_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trip(*_: object, **__: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("beehive_cli.root.beehive.main", trip)
    assert run(["crd"]) == EXIT_RUNTIME
    shown = capsys.readouterr().err
    assert shown.startswith("A fault of Beehive itself, at ")
    assert "KeyError('a bug')" in shown
    assert len(shown.splitlines()) == 1


def test_help_names_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == EXIT_OK
    shown = capsys.readouterr().out
    for word in ("demo", "token", "edge", "routes", "crd", "config", "keadm", "78"):
        assert word in shown
    assert max(len(line) for line in shown.splitlines()) <= 100


@pytest.mark.parametrize("command", ["demo", "token", "edge", "routes", "crd", "config"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == EXIT_OK
    assert "Usage: beehive " + command in capsys.readouterr().out


def test_a_wrong_configuration_prints_all_problems_and_exits_with_78(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text("cloudhub:\n  websocket: {port: 100000}\ntaskmanager:\n  cloud: {flush: 1}\ncloudub: {}\n")
    assert run(["--mode", "cloud", "--config", str(file)]) == EXIT_CONFIG
    assert capsys.readouterr().err.splitlines() == [
        f"{file} has 3 problems:",
        "  line 2   cloudhub.websocket.port: 100000 is not a port; give 1 to 65535",
        '  line 4   taskmanager.cloud.flush: "1" has no unit; write 1s',
        "  line 5   cloudub: no such section; did you mean cloudhub?",
    ]


@pytest.mark.parametrize("value", ["{", "[x", "2026-13-45"])
def test_a_value_that_cannot_be_read_is_a_problem_of_the_configuration(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--mode", "cloud", "--set", f"cloudhub.websocket.port={value}", "--set", "hb.x=1"]) == EXIT_CONFIG
    shown = capsys.readouterr().err
    assert "cloudhub.websocket.port: " in shown
    assert "hb.x: no such setting" in shown
    assert "Traceback" not in shown


def test_config_check_says_what_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text(
        "runtime: {logLevel: loud}\ninformer:\n  lease: {duration: 1s, renewDeadline: 5s, retryPeriod: 9s}\n"
        "etcdmanager: {endpoints: [zzz]}\ntaskmanager: {cloud: {burst: 0}}\n"
    )
    assert run(["config", "check", str(file)]) == EXIT_CONFIG
    assert [line.split(":")[0].split()[-1] for line in capsys.readouterr().err.splitlines()[1:]] == [
        "runtime.logLevel", "informer.lease.duration", "etcdmanager.endpoints", "taskmanager.cloud.burst",
    ]  # fmt: skip


def test_a_token_file_that_is_no_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"\xff\xfe\x00")
    assert run(["edge", "join", "--cloud", "https://127.0.0.1:1", "--token-file", str(file)]) == EXIT_FAILED
    assert "it is not text" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["--mode", "edge", "--config"], ["config", "check"], ["config", "show"]])
def test_a_file_that_cannot_be_read_is_named(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "/nowhere/edge.yaml"]) == EXIT_CONFIG
    assert "/nowhere/edge.yaml has 1 problem:" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cloud.yaml", "edge.yaml"])
def test_the_shipped_configurations_are_good(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", str(TOP / "configs" / name)]) == EXIT_OK
    assert "is good" in capsys.readouterr().out


def test_what_config_show_prints_is_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show", str(TOP / "configs" / "edge.yaml")]) == EXIT_OK
    shown = capsys.readouterr().out
    again = tmp_path / "again.yaml"
    again.write_text(shown)
    assert run(["config", "check", str(again)]) == EXIT_OK
    assert yaml.safe_load(shown)["upgrader"]["soak"] == "30s"


def test_a_join_token_is_never_asked_for_on_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BEEHIVE_JOIN_TOKEN", raising=False)
    assert run(["edge", "join", "--cloud", "https://127.0.0.1:1"]) == EXIT_FAILED
    assert "--token-file FILE, or $BEEHIVE_JOIN_TOKEN" in capsys.readouterr().err


OWNER = "runtime: {{data: {0}}}\nupgrader: {{root: {0}, serviceManager: process}}\n"


@pytest.mark.parametrize("word", ["confirm", "reject"])
def test_an_owner_with_nothing_to_decide_is_told_so(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "edge.yaml"
    file.write_text(OWNER.format(tmp_path))
    assert run(["edge", word, "--config", str(file)]) == EXIT_FAILED
    assert "there are no valid upgrade tasks to execute" in capsys.readouterr().err


def waiting(tmp_path: Path) -> tuple[Path, Host]:
    """A host on which job north waits for its owner, and its configuration; no agent runs."""
    file = tmp_path / "edge.yaml"
    file.write_text(OWNER.format(tmp_path))
    host = Host(load({"upgrader": Config}, Source(text=file.read_text()), others=True)["upgrader"])
    wait_for(host.files, host.layout, Waiting(job="north", uid=UID, attempt=1, version="v1.23.0", since=0))
    return file, host


UID = "0a1b2c3d-0000-4000-8000-000000000001"


@pytest.mark.parametrize(("word", "confirmed"), [("confirm", True), ("reject", False)])
@pytest.mark.parametrize("how", ["beehive", "beehive by name", "keadm"])
def test_the_owners_word_is_kept_for_the_upgrade_that_waits(
    word: str, confirmed: bool, how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, host = waiting(tmp_path)
    arguments = {
        "beehive": ["edge", word, "--config", str(file)],
        "beehive by name": ["edge", word, "north", "--config", str(file)],
        "keadm": ["ctl", word, "--settings", str(file)],
    }[how]
    assert (keadm if how == "keadm" else run)(arguments) == EXIT_OK
    shown = capsys.readouterr().out
    assert "job north, to v1.23.0" in shown
    assert "The agent does not run now" in shown
    word_said = said(host.layout, UID, 1)
    assert word_said is not None
    assert word_said.confirmed is confirmed


def test_a_word_for_another_job_or_against_the_first_word_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, host = waiting(tmp_path)
    assert run(["edge", "confirm", "south", "--config", str(file)]) == EXIT_FAILED
    assert capsys.readouterr().err == "job south does not wait here; job north does\n"
    assert run(["edge", "reject", "--reason", "shift", "--config", str(file)]) == EXIT_OK
    assert run(["edge", "confirm", "--config", str(file)]) == EXIT_FAILED
    assert "job north was rejected before, and the first word stands" in capsys.readouterr().err
    found = said(host.layout, UID, 1)
    assert found is not None
    assert (found.confirmed, found.reason) == (False, "shift")


def test_status_without_an_agent_says_so_and_what_the_records_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, _ = waiting(tmp_path)
    assert run(["edge", "status", "--config", str(file)]) == EXIT_OK
    shown = capsys.readouterr().out
    first, *rest = shown.splitlines()
    assert first.startswith(f"agent       does not run    nobody answers at {tmp_path}/control.sock")
    assert "what follows is from its records on disk" in first
    assert any(line.startswith("upgrade     waiting for you: job north wants v1.23.0 (asked ") for line in rest)
    assert "beehive edge confirm north" in shown
    assert run(["edge", "status", "--config", str(file), "-o", "json"]) == EXIT_OK
    seen = json.loads(capsys.readouterr().out)
    assert (seen["agent"], seen["node"]["waiting"]["job"]) == ("", "north")


def test_who_knows_the_socket_only_is_told_that_no_agent_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("status", "confirm", "reject", "logs"):
        assert run(["edge", command, "--socket", str(tmp_path / "nobody")]) == EXIT_FAILED
        assert capsys.readouterr().err.startswith(f"nobody answers at {tmp_path}/nobody: ")


def test_crd_prints_what_is_committed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crd"]) == EXIT_OK
    committed = (TOP / "configs" / "crd" / "nodeupgradejobs.yaml").read_text()
    assert yaml.safe_load(capsys.readouterr().out) == yaml.safe_load(committed)


def call(name: str, *arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the installed executable under one of its names."""
    program = directory / name
    program.symlink_to(Path(sys.executable).with_name("beehive"))
    return subprocess.run((program, *arguments), capture_output=True, text=True, timeout=60, check=False)


def test_a_taken_port_is_named_and_ends_the_process_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = f"runtime.admin.port={port}"
        done = call("edgecore", "--set", settings, "--set", f"runtime.data={tmp_path}/data", directory=tmp_path)
    assert done.returncode == EXIT_RUNTIME
    assert done.stderr.startswith(f"Port {port} on 127.0.0.1 is taken")
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("which", ["cloudhub.websocket", "cloudhub.https", "admission"])
def test_a_taken_port_is_named_at_once_although_no_api_server_answers(which: str, tmp_path: Path) -> None:
    settings = {"informer.server": "http://127.0.0.1:1", "runtime.data": f"{tmp_path}/data", "runtime.admin.port": "0"}
    settings |= {f"{one}.port": "0" for one in ("cloudhub.websocket", "cloudhub.https", "admission")}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings |= {f"{which}.port": str(taken.getsockname()[1]), f"{which}.address": "127.0.0.1"}
        flags = [word for path, value in settings.items() for word in ("--set", f"{path}={value}")]
        done = call("cloudcore", *flags, directory=tmp_path)
        assert done.returncode == EXIT_RUNTIME
        said = done.stderr.splitlines()[-1].lower()
        assert f"port {taken.getsockname()[1]}" in said
        assert f"set {which}.port" in said
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("lies", ["a file", "no directory of ours"])
def test_a_data_directory_that_cannot_be_used_names_its_setting(
    lies: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "edge.yaml"
    data = tmp_path / "data"
    file.write_text(f"runtime:\n  data: {data}\n  admin: {{enable: false}}\n")
    if lies == "a file":
        data.write_text("something")
        why = "File exists"
    else:
        data.mkdir()
        monkeypatch.setattr(os, "access", lambda path, _: Path(path) != data)  # the tests may run as root
        why = "Permission denied"
    assert run(["--mode", "edge", "--config", str(file)]) == EXIT_CONFIG
    assert capsys.readouterr().err.splitlines() == [
        f"{file} has 1 problem:",
        f"  line 2   runtime.data: {data} cannot be used: {why}; set it to a directory that this user may write to",
    ]


def test_keadm_is_the_same_executable_under_another_name(tmp_path: Path) -> None:
    done = call("keadm", "upgrade", "--help", directory=tmp_path)
    assert done.returncode == EXIT_OK
    assert "edge" in done.stdout


def test_a_configuration_is_checked_by_the_word_that_all_other_commands_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text("runtime: {logLevel: info}\n")
    for words in (["--config", str(file)], [str(file)]):
        assert run(["config", "check", *words]) == EXIT_OK
        assert capsys.readouterr().out == f"{file} is good.\n"
    assert run(["config", "show", "--config", str(file), "-o", "json"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["runtime"]["logLevel"] == "info"
    assert run(["config", "check", str(file), "--config", str(file)]) == EXIT_USAGE
    file.write_text("runtime: {logLevl: info}\n")
    assert run(["config", "check", "--config", str(file)]) == EXIT_CONFIG


def test_version_is_one_line_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == EXIT_OK
    shown = capsys.readouterr().out
    assert shown.startswith("beehive 0.")
    assert run(["version", "-o", "json"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["version"] == shown.split()[1]


PROGRAM = Path(sys.executable).with_name("beehive")


def completed(words: str, shell: str = "bash") -> list[str]:
    environment = {"PATH": f"{PROGRAM.parent}:/usr/bin:/bin", "HOME": "/nonexistent", "COMP_WORDS": words,
                   "COMP_CWORD": str(len(words.split(" ")) - 1), "_BEEHIVE_COMPLETE": f"{shell}_complete"}  # fmt: skip
    done = subprocess.run((PROGRAM,), env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr == ""
    return [line.split(",")[-1] for line in done.stdout.splitlines() if line]


@pytest.mark.long
def test_a_shell_completes_commands_options_and_never_complains() -> None:
    assert completed("beehive job desc") == ["describe"]
    assert "--mode" in completed("beehive --mo")
    assert completed("beehive job list -o js") == ["json"]
    assert completed("beehive job describe nor") == [], "no cluster: silence"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_one_that_its_shell_takes(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == EXIT_OK
    script = capsys.readouterr().out
    assert "_BEEHIVE_COMPLETE" in script
    program = shutil.which(shell)
    if program is not None:
        done = subprocess.run((program, "-n"), input=script, capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert shell != "bash"


def test_who_stops_reading_gets_no_complaint() -> None:
    with subprocess.Popen((PROGRAM, "crd"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        assert one.stderr is not None
        one.stdout.close()
        assert one.stderr.read() == ""
        assert one.wait(30) == EXIT_FAILED
