"""The tool as a real process, killed with SIGKILL at each boundary of its phases, and taken up again."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from modules.upgrader.host.files import digest_of
from modules.upgrader.tool import main
from modules.upgrader.tool.record import load_record, open_records
from modules.upgrader.tool.request import Request, settings_of, write_request
from tests.fakes.edge_host import NEW, OLD, EdgeHost, program, until
from tests.fakes.killed_tool import run

GOOD, CRASHING = program(NEW), program(NEW, suits="9")
UID = "6b1f2c34-0000-4000-8000-000000000000"
Make = Callable[..., EdgeHost]


def request_of(host: EdgeHost, new: bytes) -> Path:
    """As the agent writes it after its check."""
    artefact = host.layout.artefact(NEW)
    artefact.parent.mkdir(parents=True)
    artefact.write_bytes(new)
    artefact.chmod(0o755)
    request = Request(
        job="north",
        uid=UID,
        attempt=0,
        from_version=OLD,
        to_version=NEW,
        digest=digest_of(artefact),
        settings=settings_of(host.config),
    )
    write_request(host.host.files, host.layout, request)
    return host.layout.request("6b1f2c34-0")


def killed_at_each(edge: Make, new: bytes, boundaries: int) -> Sequence[tuple[EdgeHost, dict[str, int]]]:
    """A host for each boundary, and how its two processes ended; the last boundary is one that is never reached."""
    hosts = [edge(new, soak=0.1) for _ in range(boundaries + 1)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fakes.killed_tool", *(str(request_of(host, new)) for host in hosts)],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path.cwd())},
    )
    return list(zip(hosts, [json.loads(line) for line in done.stdout.splitlines()], strict=True))


def test_a_good_version_killed_at_every_boundary_is_installed_once(edge: Make) -> None:
    *killed, (_, not_killed) = killed_at_each(edge, GOOD, 14)
    assert not_killed == {"first": 0, "second": 0}, "there are no more boundaries than these"
    for boundary, (host, ran) in enumerate(killed):
        assert ran == {"first": -9, "second": 0}
        assert host.layout.executable.read_bytes() == GOOD
        assert host.runs() == NEW
        assert host.starts() == [OLD, NEW], "swapped and started once, whenever the tool was killed"
        assert host.report() == {"event": "Upgrade", "success": True, "fromVersion": OLD, "toVersion": NEW}
        assert not host.layout.lock.exists()
        record = load_record(host.layout, f"{UID}-0")
        assert record
        assert record.starts == (2 if 0 < boundary < 13 else 1)


def test_a_crashing_version_killed_at_every_boundary_is_rolled_back(edge: Make) -> None:
    *killed, (_, not_killed) = killed_at_each(edge, CRASHING, 22)
    assert not_killed == {"first": 1, "second": 1}, "there are no more boundaries than these"
    for host, ran in killed:
        assert ran == {"first": -9, "second": 1}
        assert host.layout.executable.read_bytes() == program(OLD)
        assert host.runs() == OLD
        starts = host.starts()
        assert (starts[0], starts[-1], starts.count(OLD)) == (OLD, OLD, 2)
        assert starts.count(NEW) == 1, "one that has crashed on the data is not let at them again"
        assert host.report()["event"] == "Rollback"
        assert str(host.report()["errorMessage"]).startswith("v1.23.0 exited with code 1 after")


def test_its_keeper_takes_up_what_was_killed(edge: Make) -> None:
    """Without agent and without anybody: the unit's own manager starts the killed tool again."""
    host = edge(GOOD, soak=0.5)
    request = request_of(host, GOOD)
    unit = host.host.tool_unit(UID, 0)
    host.host.services.start(unit)
    until(lambda: host.starts() == [OLD, NEW], "the start of the new version")
    os.kill(host.host.services.status(unit).pid, 9)
    until(host.layout.report.exists, "the report", 30)
    until(lambda: not host.host.services.status(unit).active, "the end of the tool")
    assert request.exists()
    assert host.starts() == [OLD, NEW]
    assert host.host.services.status(unit).restarts == 1


def test_what_a_killed_tool_left_is_settled_before_anything_else(edge: Make) -> None:
    host = edge(GOOD, soak=0.1)
    request = request_of(host, GOOD)
    assert run(str(request), 9) == -9
    assert list(open_records(host.layout)) == [f"{UID}-0"]
    settings = host.root / "edge.yaml"
    target = {"format": "any", "start": host.config.target.start}
    section = {"root": str(host.root), "serviceManager": "process", "soak": "100ms", "target": target}
    settings.write_text(json.dumps({"upgrader": section}))
    assert main(["backup", "edge", "--settings", str(settings)]) == 0
    assert not open_records(host.layout)
    assert host.runs() == NEW
    assert (host.layout.backup(NEW) / "edgecore").read_bytes() == GOOD
