"""Makes hosts, all from one disk, in one folder."""

import itertools
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from tests.hosts.running.edge import OLD, Edge, binds, code
from tests.hosts.running.machine import Machine
from tests.hosts.running.root import base_image
from tests.real.running.standins import standin


class Forge:
    """The workshop of one test session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []
        """Of all machines that were made."""
        self._image = base_image()
        self._binds = binds(code(folder / "code"))
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def machine(self, image: Path | None = None) -> Machine:
        """A host that is not booted yet; with a copy of the base disk, or with this disk."""
        with self._lock:
            number = next(self._numbers)
        made = Machine(self.folder / f"h{number}", image or self._image, self._binds, move=image is not None)
        self.names.append(made.name)
        return made

    def edge(
        self,
        new: Path,
        *,
        old: Path | None = None,
        kind: str = "simple",
        soak: float = 1.0,
        agent: bool = False,
        prepare: Callable[[Edge], None] | None = None,
    ) -> Edge:
        """An edge host that is not booted yet, with the old version installed and the new one asked for: by a request
        to the tool, or by a job that its agent knows of. `prepare` is what else is to be done to its disk."""
        host = Edge(self.machine(), kind=kind, soak=soak)
        host.install(old or standin(OLD))
        if agent:
            host.give_to_agent(new)
            host.enable("beehive-edge.service")
        else:
            host.offer(new)
            host.ask(new)
        if prepare:
            prepare(host)
        host.machine.sync()
        return host

    def remove(self) -> None:
        """Forget everything."""
        shutil.rmtree(self.folder)
