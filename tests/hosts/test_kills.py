"""Nobody's power is cut, but somebody is killed: the agent, the tool or both, in each step of an upgrade.

By default one of the three at each moment, in turn; `BEEHIVE_CUTS=all` kills each at each. One host bears it all.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from beehive.messages.tasks import TaskReport
from modules.upgrader.host.files import digest_of
from tests.hosts.running.cuts import reached
from tests.hosts.running.edge import NEW, OLD, Edge
from tests.hosts.running.forge import Forge
from tests.hosts.running.machine import wait_until
from tests.real.running.standins import Variant, standin

AGENT, TOOL = "agent", "tool"
BAD = "v1.24.0"
WHO = ((AGENT,), (TOOL,), (AGENT, TOOL))
FORWARD = ("prepare", "stop", "save", "swap", "start", "verify")
BACK = ("undo-stop", "undo-restore", "undo-start", "undo-verify")
STEPS = ("before step Check", "after step Check", "before step BackUp", "after step BackUp", "before step Upgrade")
_ALL = os.environ.get("BEEHIVE_CUTS") == "all"


@dataclass(frozen=True)
class Kill:
    """Whom, and when."""

    who: tuple[str, ...]
    moment: str
    good: bool = True
    """Would the new version come up?"""


def kills() -> Iterator[Kill]:
    """Those of this run."""
    moments = [f"{when} _perform {phase}" for phase in FORWARD for when in ("before", "after")]
    undo = [f"{when} _perform {phase}" for phase in BACK for when in ("before", "after")]
    turn = itertools.cycle(WHO)
    for moment in (*moments, *undo):
        for who in WHO if _ALL else (next(turn),):
            yield Kill(who, moment, good=moment in moments)
    for step in STEPS if _ALL else STEPS[1::2]:
        yield Kill((AGENT,), step)


@pytest.fixture
def host(forge: Forge) -> Iterator[Edge]:
    """Its agent starts anew at once after a crash (and may say where it is), and has nothing to do yet."""
    made = Edge(forge.machine(), soak=0.3)
    made.install(standin(OLD))
    quick = made.machine.path("/etc/systemd/system/beehive-edge.service.d/quick.conf")
    quick.parent.mkdir()
    quick.write_text("[Service]\nRestartSec=0.2\nReadWritePaths=/cut\n")
    cut = made.machine.folder / "cut"
    cut.mkdir()
    made.machine.shared["/cut"] = cut
    made.machine.boot()
    yield made
    made.machine.remove()


def tried(host: Edge, number: int, kill: Kill) -> TaskReport:
    """One upgrade with one kill; the agent's final word."""
    before, cut = host.running(), host.machine.folder / "cut"
    version = (NEW if before == OLD else OLD) if kill.good else BAD
    program = standin(version, Variant.GOOD if kill.good else Variant.CRASHING)
    for left in ("at", "go"):
        (cut / left).unlink(missing_ok=True)
    (cut / "stepping").write_text(kill.moment)
    host.give_to_agent(program, uid=f"{number:08x}-0000-4000-8000-000000000000", version=version, allow_downgrade=True)
    host.machine.run("systemctl", "start", "beehive-edge")
    wait_until(lambda: reached(cut), f"the moment {kill.moment}", 60, host.explain)
    (cut / "stepping").unlink()
    for one in kill.who:
        host.machine.kill_main({AGENT: "beehive-edge.service", TOOL: host.unit}[one])
    (cut / "go").write_text("1000")
    wait_until(lambda: host.agent().attempt is None, f"a final word after {kill}", 90, host.explain)
    return next(kept.report for kept in host.agent().finished if kept.report.uid == host.uid)


def wrong(host: Edge, kill: Kill, before: str, begun: Sequence[str], report: TaskReport) -> str:
    """What is not as it must be; empty: all is well."""
    version = (NEW if before == OLD else OLD) if kill.good else BAD
    steps = [(one.action, one.status) for one in report.results]
    good = [("Check", "True"), ("BackUp", "True"), ("Upgrade", "True")]
    wanted = good if kill.good else [*good[:2], ("Upgrade", "False"), ("RollBack", "True")]
    ends = version if kill.good else before
    record = host.record()
    problems = [
        "" if steps == wanted else f"reported {steps}: {[one.reason for one in report.results]}",
        "" if host.running() == ends else f"{host.running() or 'nothing'} runs, not {ends}",
        "" if digest_of(host.layout.executable) == digest_of(standin(ends)) else "another program lies on the disk",
        "" if begun.count(version) == 1 else f"started: {list(begun)}",
        "a lock is left" if host.layout.lock.exists() else "",
        "" if record and record.verdict else "no verdict",
        host.machine.run("systemctl", "--failed", "--plain", "--no-legend").strip(),
    ]
    return "; ".join(problem for problem in problems if problem)


@pytest.mark.timeout(1500)
def test_somebody_is_always_left_to_act(host: Edge) -> None:
    bystander = host.machine.show("bystander.service", "MainPID", "NRestarts")
    found = {}
    for number, kill in enumerate(kills()):
        before, starts = host.running(), len(host.starts())
        report = tried(host, number, kill)
        wait_until(lambda: host.state(host.unit) != "active", "the tool has ended", 30, host.explain)
        problem = wrong(host, kill, before, host.starts()[starts:], report)
        host.machine.run("systemctl", "stop", "beehive-edge")
        if problem:
            found[f"{' and '.join(kill.who)} {kill.moment}"] = problem
    assert found == {}, host.explain()
    assert host.machine.show("bystander.service", "MainPID", "NRestarts") == bystander
