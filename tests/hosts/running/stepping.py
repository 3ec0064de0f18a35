"""This side of `tests.hosts.inside.stepping`: say at which moments a tool or an agent waits, and let it go on."""

from pathlib import Path

from tests.hosts.running.cuts import reached
from tests.hosts.running.edge import Edge
from tests.hosts.running.machine import wait_until


class Stepping:
    """One host's; `moment` is a part of the names of those at which it waits."""

    def __init__(self, moment: str) -> None:
        self.moment = moment
        self._cut = Path()

    def share(self, host: Edge) -> None:
        """Before the host's first boot."""
        self._cut = host.machine.folder / "cut"
        self._cut.mkdir()
        host.machine.shared["/cut"] = self._cut
        (self._cut / "stepping").write_text(self.moment)

    def wait(self, host: Edge, seconds: float = 60.0) -> None:
        """Until the moment is there."""
        wait_until(lambda: reached(self._cut), f"the moment {self.moment}", seconds, host.explain)

    def no_more(self) -> None:
        """Who starts from now on waits nowhere."""
        (self._cut / "stepping").unlink()

    def go(self) -> None:
        """Who waits goes on to its end."""
        (self._cut / "go.new").write_text("1000000")
        (self._cut / "go.new").rename(self._cut / "go")

    def clock(self, wrong: float) -> None:
        """By how many seconds the wall clock of all that we start in the host goes wrong."""
        beside = self._cut / "clock.new"
        beside.write_text(f"{wrong}\n")
        beside.rename(self._cut / "clock")
