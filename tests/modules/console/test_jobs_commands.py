"""`beehive job …` as it is typed, against the embedded API server in a thread: output, streams, exit codes."""

import asyncio
import contextlib
import io
import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from rich.console import Console

from beehive.api.crd import crd
from beehive_cli.root import run
from modules.console.jobs import Found, Jobs
from modules.console.jobs_watch import Redrawn, screen
from modules.demo.apiserver.server import Config, Server
from tests.fakes.jobs import START, an_entry
from tests.modules.console.test_jobs_words import done, flying, seen

JOBS = "/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs"
Run = Callable[..., tuple[int, str, str]]


class Embedded:
    """A server on a loop of its own, and an admin's hands on it."""

    def __init__(self, address: str, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.address, self._server, self._loop = address, server, loop
        self.http = httpx.Client(base_url=address, timeout=10, trust_env=False)

    def node(self, name: str, version: str = "v1.22.0", **labels: str) -> None:
        body = {"metadata": {"name": name, "labels": {"node-role.kubernetes.io/edge": "", **labels}}}
        self._made(self.http.post("/api/v1/nodes", json={"apiVersion": "v1", "kind": "Node", **body}))
        status = {"conditions": [{"type": "Ready", "status": "True"}],
                  "nodeInfo": {"kubeletVersion": f"v1.30.7-kubeedge-{version}"}}  # fmt: skip
        kind = {"Content-Type": "application/merge-patch+json"}
        self._made(
            self.http.patch(f"/api/v1/nodes/{name}/status", content=json.dumps({"status": status}), headers=kind)
        )

    def job(self, name: str) -> Any:
        return self._made(self.http.get(f"{JOBS}/{name}")).json()

    def status(self, name: str, **status: Any) -> None:
        kind = {"Content-Type": "application/merge-patch+json"}
        self._made(self.http.patch(f"{JOBS}/{name}/status", content=json.dumps({"status": status}), headers=kind))

    def delete(self, name: str) -> None:
        self._made(self.http.delete(f"{JOBS}/{name}"))

    def _made(self, answer: httpx.Response) -> httpx.Response:
        assert answer.is_success, answer.text
        return answer


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Embedded]:
    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    made: list[Embedded] = []

    async def serve() -> None:
        async with Server(Config(crds=[crd()], namespaces=["kubeedge"])) as server:
            made.append(Embedded(server.address, server, loop))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(10)
    cluster = {"name": "c", "cluster": {"server": made[0].address}}
    context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "contexts": [context],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps({**config, "users": [{"name": "c", "user": {}}]}))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    yield made[0]
    made[0].http.close()
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    loop.close()


@pytest.fixture
def beehive(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Exit code, stdout, stderr."""
    monkeypatch.setattr("sys.stdin", io.StringIO())

    def typed(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = run(["job", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return typed


@pytest.fixture
def once_seen(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """What is to happen when who follows a job has seen it for the first time."""
    follow = Jobs.follow

    def arrange(happens: Callable[[], None]) -> None:
        async def followed(jobs: Jobs, name: str, cut: Callable[[str], None]) -> AsyncGenerator[Found, None]:
            waits = True
            async with contextlib.aclosing(follow(jobs, name, cut)) as following:
                async for found in following:
                    yield found
                    if waits:
                        waits = False
                        await asyncio.to_thread(happens)

        monkeypatch.setattr(Jobs, "follow", followed)

    return arrange


def test_from_an_empty_cluster_to_a_job_that_is_retried(api: Embedded, beehive: Run) -> None:
    code, out, err = beehive("list")
    assert (code, out) == (0, "")
    assert "No jobs. Make one: beehive job create" in err
    api.node("edge-1", region="north")
    api.node("edge-2", "v1.23.0", region="north")
    words = ("--version", "v1.23.0", "-l", "region=north", "--tolerate", "0.5")

    code, out, _ = beehive("plan", *words)
    assert code == 0
    assert "Would upgrade 1 of 2 nodes selected to v1.23.0, 1 at a time." in out
    assert out.endswith("Nothing was changed.\n")

    code, out, err = beehive("create", "north", *words)
    assert (code, out) == (2, "")
    assert "will be upgraded   edge-1" in err
    assert "Say --yes" in err
    assert api.http.get(JOBS).json()["items"] == [], "nobody agreed"

    code, out, _ = beehive("create", "north", *words, "--dry-run", "-o", "json")
    assert (code, json.loads(out)["spec"]["failureTolerate"]) == (0, "0.5")
    assert api.http.get(JOBS).json()["items"] == [], "a dry run keeps nothing"

    assert beehive("create", "north", *words, "--yes")[0] == 0
    assert api.job("north")["spec"]["labelSelector"] == {"matchLabels": {"region": "north"}}
    code, _, err = beehive("create", "north", *words, "--yes")
    assert (code, err) == (1, "There is a job north already. Look at it: beehive job describe north\n")

    for verb, field in (("suspend", True), ("suspend", True), ("resume", False)):
        assert beehive(verb, "north")[0] == 0
        assert api.job("north")["spec"]["suspend"] is field
    code, _, err = beehive("retry", "north", "--yes")
    assert code == 1
    assert "no node to try again" in err

    entry = {"nodeName": "edge-1", "phase": "Failure", "reasonCode": "RolledBack", "reason": "exited with code 1"}
    api.status("north", phase="Failure", reason="BudgetExceeded", total=1, failed=1, done="1/1", nodeStatus=[entry])
    code, out, _ = beehive("describe", "north")
    assert code == 0
    assert "edge-1   Failure" in out
    assert "beehive job retry north" in out
    assert beehive("retry", "north", "--yes")[0] == 0
    assert api.job("north")["spec"]["retry"] == 1
    code, _, err = beehive("abort", "north", "--yes")
    assert (code, err) == (1, "Job north has ended (Failure); there is nothing to abort.\n")


def test_an_abort_says_what_it_touches_and_asks(api: Embedded, beehive: Run) -> None:
    assert beehive("create", "north", "--version", "v1.23.0", "--nodes", "a,b", "--yes")[0] == 0
    api.status("north", phase="InProgress", total=2, pending=1, inProgress=1, done="0/2")
    code, _, err = beehive("abort", "north")
    assert code == 2
    assert "1 node will not be started" in err
    assert api.job("north")["spec"].get("abort", False) is False
    code, out, _ = beehive("abort", "north", "--dry-run")
    assert (code, out) == (0, "The API server would take it. Nothing was changed.\n")
    assert api.job("north")["spec"].get("abort", False) is False
    assert beehive("abort", "north", "--yes")[0] == 0
    assert api.job("north")["spec"]["abort"] is True
    code, _, err = beehive("retry", "north", "--yes")
    assert (code, "aborted, which is final" in err) == (1, True)


def test_a_file_and_stdin_make_jobs_and_words_beside_them_are_refused(
    api: Embedded, beehive: Run, tmp_path: Path
) -> None:
    text = yaml.safe_dump({
        "apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "NodeUpgradeJob", "metadata": {"name": "filed"},
        "spec": {"version": "v1.23.0", "nodeNames": ["a"]},
    })  # fmt: skip
    (tmp_path / "job.yaml").write_text(text)
    assert beehive("create", "-f", str(tmp_path / "job.yaml"), "--yes")[0] == 0
    assert beehive("create", "-f", "-", "--yes", stdin=text.replace("filed", "piped"))[0] == 0
    assert {item["metadata"]["name"] for item in api.http.get(JOBS).json()["items"]} == {"filed", "piped"}
    assert beehive("create", "-f", "-", "--version", "v1.23.0", stdin=text)[0] == 2
    assert beehive("create", "--nodes", "a")[0] == 2
    assert beehive("create", "--version", "v1.23.0", "-l", "a b")[0] == 2
    code, _, err = beehive("create", "-f", str(tmp_path / "none.yaml"))
    assert (code, "No such file" in err) == (70, True)
    wrong = text.replace("filed", "typo").replace("nodeNames", "nodeName")
    code, _, err = beehive("create", "-f", "-", "--yes", stdin=wrong)
    assert (code, "both NodeNames and LabelSelector are NOT specified" in err) == (1, True)
    code, _, err = beehive("create", "-f", "-", "--yes", stdin=text.replace("filed", "typo") + "  concurency: 2\n")
    assert code == 1, "the API server refuses fields that it does not know"
    assert "concurency" in err


def test_output_for_programs_is_the_whole_object(api: Embedded, beehive: Run) -> None:
    assert beehive("create", "north", "--version", "v1.23.0", "--nodes", "a", "--yes", "-o", "yaml")[0] == 0
    assert json.loads(beehive("describe", "north", "-o", "json")[1]) == api.job("north")
    assert yaml.safe_load(beehive("describe", "north", "-o", "yaml")[1]) == api.job("north")
    assert json.loads(beehive("list", "-o", "json")[1])["items"] == [api.job("north")]
    assert beehive("list", "-o", "wide")[1].splitlines()[0].split()[-2:] == ["REASON", "WAITING"]
    assert beehive("describe", "north", "-o", "wide") == beehive("describe", "north", "--all")
    assert json.loads(beehive("get", "north", "-o", "json")[1]) == api.job("north")
    assert yaml.safe_load(beehive("suspend", "north", "-o", "yaml")[1]) == api.job("north")
    assert beehive("resume", "north", "-o", "wide")[1].splitlines()[0].split()[-2:] == ["REASON", "WAITING"]
    assert json.loads(beehive("plan", "--version", "v1.23.0", "--nodes", "a", "-o", "json")[1])["selected"] == 1


@pytest.mark.parametrize("verb", ["get", "describe", "logs", "watch", "suspend", "resume", "abort", "retry"])
def test_a_job_that_is_not_there_is_said(api: Embedded, beehive: Run, verb: str) -> None:
    code, out, err = beehive(verb, "nrth")
    assert (code, out, err) == (1, "", "There is no job nrth. See them all: beehive job list\n")
    code, _, err = beehive(verb, "../nodes/edge-1")
    assert (code, "cannot be the name of a job" in err) == (1, True)


def test_nobody_at_the_address_and_no_kubeconfig(beehive: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    code, _, err = beehive("list")
    assert (code, "give a kubeconfig" in err) == (78, True)
    code, _, err = beehive("list", "--kubeconfig", str(tmp_path / "nowhere"))
    assert (code, "no such file" in err) == (1, True)
    assert "Traceback" not in err


def test_watch_prints_a_line_for_each_change_and_ends_with_the_job(
    api: Embedded, beehive: Run, once_seen: Callable[[Callable[[], None]], None]
) -> None:
    assert beehive("create", "north", "--version", "v1.23.0", "--nodes", "a,b", "--yes")[0] == 0
    entries = [{"nodeName": "a", "phase": "InProgress"}, {"nodeName": "b", "phase": "Pending"}]
    api.status("north", phase="InProgress", total=2, inProgress=1, pending=1, done="0/2", nodeStatus=entries)

    def play() -> None:
        over = [{"nodeName": "a", "phase": "Successful", "historicVersion": "v1.22.0"},
                {"nodeName": "b", "phase": "Skipped", "reasonCode": "NotConnected"}]  # fmt: skip
        api.status("north", total=2, inProgress=0, pending=0, successful=1, skipped=1, done="2/2", nodeStatus=over)
        api.status("north", phase="Completed")

    once_seen(play)
    code, out, _ = beehive("watch", "north", "--timeout", "60s")
    assert code == 0
    lines = out.splitlines()
    assert lines[:2] == ["a  InProgress  checking", "north  InProgress  0/2"]
    assert "a  Successful  upgraded from v1.22.0" in lines
    assert "b  Skipped  not connected" in lines
    assert lines[-1] == "Job north is Completed: 1 upgraded, 1 skipped."


def test_watch_ends_when_the_job_is_deleted_or_fails_or_takes_too_long(
    api: Embedded, beehive: Run, once_seen: Callable[[Callable[[], None]], None]
) -> None:
    assert beehive("create", "north", "--version", "v1.23.0", "--nodes", "a", "--yes")[0] == 0
    code, _, err = beehive("watch", "north", "--timeout", "200ms")
    assert (code, "has not ended within 0.2 s; it goes on" in err) == (1, True)
    once_seen(lambda: api.delete("north"))
    code, _, err = beehive("watch", "north", "--timeout", "60s")
    assert (code, err) == (1, "Job north was deleted.\n")
    assert beehive("create", "north", "--version", "v1.23.0", "--nodes", "a", "--yes")[0] == 0
    once_seen(lambda: api.status("north", phase="Failure", reason="Aborted"))
    code, out, _ = beehive("watch", "north", "--timeout", "60s")
    assert (code, out.splitlines()[-1]) == (1, "Job north is Failure (Aborted): no node.")


def test_a_terminal_gets_a_table_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=100, height=12, color_system="standard")
    job = seen(*done(30), flying("busy", "Check"), an_entry("bad", "Failure", reason="x" * 300))
    shown = screen(console, lambda: START + 240)
    assert isinstance(shown, Redrawn)
    with shown:
        shown.look(job)
    text = written.getvalue()
    assert "\x1b[31m" in text, "what failed is red"
    assert "… and 25 more" in text
    assert "31/32   1 failed (tolerance 3)" in text
    monkeypatch.setenv("NO_COLOR", "1")
    assert not isinstance(screen(console), Redrawn)


def test_logs_tell_the_steps_once_and_follow_to_the_end(
    api: Embedded, beehive: Run, once_seen: Callable[[Callable[[], None]], None]
) -> None:
    assert beehive("create", "north", "--version", "v1.23.0", "--nodes", "a,b", "--yes")[0] == 0
    check = {"action": "Check", "status": "True", "time": "2026-11-30T10:00:00Z"}
    entries: list[Any] = [
        {"nodeName": "a", "phase": "InProgress", "actionFlow": [check]},
        {"nodeName": "b", "phase": "Pending"},
    ]
    api.status("north", phase="InProgress", total=2, nodeStatus=entries)
    assert beehive("logs", "north")[1].splitlines() == ["2026-11-30T10:00:00Z  INFO  a  Check done"]
    assert beehive("logs", "north", "--node", "b") == (0, "", "")
    over = [{**entries[0], "phase": "Failure", "reasonCode": "RolledBack", "since": "2026-11-30T10:01:00Z"}, entries[1]]
    once_seen(lambda: api.status("north", phase="Failure", nodeStatus=over))
    code, out, _ = beehive("logs", "north", "-f", "-o", "json")
    assert (code, [json.loads(line)["what"] for line in out.splitlines()]) == (
        0,
        ["Check done", "Failure: rolled back"],
    )
