"""A host whose services are in memory and whose programs are text, for sweeps over thousands of interruptions."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from beehive.config import Duration
from beehive.errors import Refused
from modules.upgrader.config import Config, Target
from modules.upgrader.host.files import Files
from modules.upgrader.host.host import Host
from modules.upgrader.host.service import Service, Status, Unit
from modules.upgrader.tool.record import Order, Record

OLD, NEW = "v1.22.0", "v1.23.0"
FILE = Target()
TREE = Target(
    link="/usr/local/lib/edgecore/current",
    tool_link="/usr/local/lib/edgecore/tool",
    executable="/usr/local/lib/edgecore/current/edgecore",
)


def lay_tree(folder: Path, text: str) -> None:
    """A program of several files; each names the version that it belongs to."""
    (folder / "lib" / "deep").mkdir(parents=True)
    (folder / "edgecore").write_text(text)
    (folder / "edgecore").chmod(0o750)
    (folder / "lib" / "part").write_text(text.split(maxsplit=1)[0])
    (folder / "lib" / "deep" / "part").write_text(text.split(maxsplit=1)[0])
    (folder / "lib" / "same").symlink_to("part")


class Killed(BaseException):
    """The tool's process ends here, without a word."""


class KillableFiles(Files):
    """Counts each step that changes the disk, and is killed before the one that a test names."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.kill_before = -1

    def _step(self, what: str) -> None:
        if len(self.steps) == self.kill_before:
            self.kill_before = -1
            raise Killed(what)
        self.steps.append(what)

    def write(self, path: Path, data: bytes, mode: int) -> None:
        self._step(f"begin write {path.name}")
        path.write_bytes(data[: len(data) // 2])
        self._step(f"write {path.name}")
        super().write(path, data, mode)

    def copy(self, source: Path, target: Path, like: Path | None = None) -> None:
        self._step(f"begin copy {target.name}")
        target.write_bytes(source.read_bytes()[:3])
        self._step(f"copy {target.name}")
        super().copy(source, target, like)

    def make(self, path: Path, build: Callable[[Path], None]) -> None:
        self._step(f"make {path.name}")
        super().make(path, build)

    def link(self, path: Path, target: str) -> None:
        self._step(f"link {path.name}")
        super().link(path, target)

    def rename(self, source: Path, target: Path) -> None:
        self._step(f"rename {target.name}")
        super().rename(source, target)

    def sync(self, directory: Path) -> None:
        self._step(f"sync {directory.name}")
        super().sync(directory)

    def remove(self, path: Path) -> None:
        self._step(f"remove {path.name}")
        super().remove(path)


class MemoryServices:
    """One service. It runs the text that its executable had at the start; it fails if that text says `crash`."""

    def __init__(self, files: KillableFiles) -> None:
        self._files = files
        self.root = Path()
        self.enablement = "enabled"
        self.executable = Path()
        self.database = Path()
        self.running = ""
        self.starts: list[str] = []
        self.launched: list[str] = []
        self._last = Status()

    def start(self, service: Service) -> None:
        self._files._step(f"start {service.name}")
        if not self.running:
            self.boot()

    def launch(self, service: Service) -> None:
        self.launched.append(service.name)

    def boot(self) -> None:
        """What the host does by itself."""
        version, _, manner = self.executable.read_text().partition(" ")
        self.starts.append(version)
        if manner == "crash":
            self._last = Status(exit_code=1, lasted=0.3)
        else:
            self.running = version
        if manner != "good":  # also one that crashes has had its hands on the data first
            self.database.write_text(f"data of {version}")

    def stop(self, service: Service) -> None:
        self._files._step(f"stop {service.name}")
        self.running = ""

    def status(self, service: Service) -> Status:
        del service
        status = Status(active=True, pid=1) if self.running else self._last
        return msgspec.structs.replace(status, run=str(len(self.starts)))

    def log_tail(self, service: Service, lines: int) -> list[str]:
        del service, lines
        return ["cannot open database: schema 9"]

    def forget(self, service: Service) -> None:
        del service

    def unit(self, service: Service) -> Unit:
        """The files that lie where systemd looks for them."""
        place = self.root / "etc/systemd/system" / f"{service.name}.service"
        found = [place, *sorted(place.with_name(f"{place.name}.d").glob("*.conf"))] if place.is_file() else []
        return Unit(tuple(f"/{file.relative_to(self.root)}" for file in found), self.enablement if found else "")

    def reload(self) -> None:
        self._files._step("reload")

    def enable(self, service: Service, *, at_boot: bool) -> None:
        self._files._step(f"{'enable' if at_boot else 'disable'} {service.name}")
        self.enablement = "enabled" if at_boot else "disabled"


class MemoryHost(Host):
    """Its program's version is the first word of the text."""

    def __init__(
        self,
        root: Path,
        new: str = f"{NEW} good",
        database: str | None = "data of the owner",
        target: Target = FILE,
    ) -> None:
        self.disk = KillableFiles()
        self.memory = MemoryServices(self.disk)
        config = Config(root=str(root), soak=Duration(0), start_timeout=Duration(1), target=target)
        super().__init__(config, files=self.disk, services=self.memory)
        assert self.layout.config
        assert self.layout.database
        artefact = self.layout.started(NEW)
        if self.layout.link:
            lay_tree(self.layout.link.with_name("0-installed"), f"{OLD} good")
            for link in (self.layout.link, self.layout.tool_link):
                assert link
                link.symlink_to("0-installed")
            lay_tree(self.layout.artefact(NEW), new)
        for path in (self.layout.executable, self.layout.config, self.layout.database, artefact):
            path.parent.mkdir(parents=True, exist_ok=True)
        self.layout.executable.write_text(f"{OLD} good")
        self.layout.executable.chmod(0o750)
        self.layout.config.write_text("kind: EdgeCore\n")
        if database is not None:
            self.layout.database.write_text(database)
        artefact.write_text(new)
        self.memory.root = root
        self.memory.executable, self.memory.database = self.layout.executable, self.layout.database
        self.memory.boot()

    def installed(self) -> str:
        return self.layout.executable.read_text().split()[0]

    def running(self, status: Status) -> str:
        if not self.runs_installed(status):
            raise Refused("another program runs")
        return self.memory.running

    def runs_installed(self, status: Status) -> bool:
        return status.active and self.memory.running == self.installed()

    def order(self) -> Order:
        """From the old to the new version."""
        return Order(
            job="north",
            uid="6b1f",
            attempt=0,
            from_version=OLD,
            to_version=NEW,
            old_digest=self.program.digest(),
            new_digest=self.program.digest_of(self.layout.artefact(NEW)),
            backup=OLD,
        )

    def record(self) -> Record:
        """As the first tool begins with."""
        return Record(order=self.order())
