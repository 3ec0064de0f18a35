"""A host in a temporary directory, with small shell programs in place of EdgeCore: the process manager starts them."""

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from beehive.config import Duration
from modules.upgrader.config import Config, Images, Target
from modules.upgrader.host.host import Host
from tests.real.running.images import OciLayout, installation_package

OLD, NEW = "v1.22.0", "v1.23.0"
IMAGE = "kubeedge/installation-package"
SCRIPT = Target(format="any", start=("{executable}", "--config", "{config}", "{database}"))
_PROGRAM = """#!/bin/sh
# A stand-in for EdgeCore: {note}
if [ "$1" = --version ]; then echo "KubeEdge {says}"; exit 0; fi
database=$3
state=${{database%/*}}
echo "{version} $$" >> "$state/starts.log"
found=$(cat "$database" 2>/dev/null)
suits={suits}
if [ -n "$suits" ] && [ -n "$found" ] && [ "$found" != "$suits" ]; then
    echo "reading $database" >&2
    echo "cannot open database: schema $found" >&2
    exit 1
fi
{manner}
trap 'exit 0' TERM
while :; do sleep 60 & wait $!; done
"""


def program(version: str, *, suits: str = "", manner: str = ":", says: str = "", note: str = "good") -> bytes:
    """`suits` is the schema that its data must have; `manner` is a line of shell that it runs before it stays up."""
    return _PROGRAM.format(
        version=version, says=says or version, suits=shlex.quote(suits), manner=manner, note=note
    ).encode()


class EdgeHost:
    """The directory, and what a test asks of it."""

    def __init__(self, root: Path, *, soak: float = 0.2, target: Target = SCRIPT, **settings: object) -> None:
        self.root = root
        layout = OciLayout(root.with_name(f"{root.name}-images"))
        self.images = layout
        self.config = Config(
            root=str(root),
            target=target,
            service_manager="process",
            soak=Duration(soak),
            start_timeout=Duration(5),
            stop_timeout=Duration(2),
            version_timeout=Duration(5),
            images=Images(layout=str(layout.folder), registry=False),
            **settings,  # type: ignore[arg-type]
        )
        self.host = Host(self.config)
        self.layout = self.host.layout
        assert self.layout.config
        assert self.layout.database
        if self.layout.link:
            self.layout.link.parent.mkdir(parents=True)
            self.layout.link.with_name("0-installed").mkdir()
            self.layout.link.symlink_to("0-installed")
        for folder in (self.layout.executable.parent, self.layout.config.parent, self.layout.database.parent):
            folder.mkdir(parents=True, exist_ok=True)
        self.layout.config.write_text("kind: EdgeCore\n")
        self.layout.database.write_text("7")
        self.install(program(OLD))

    def install(self, content: bytes) -> None:
        """Put a program at the target's place."""
        self.layout.executable.write_bytes(content)
        self.layout.executable.chmod(0o755)

    def offer(self, content: bytes, version: str = NEW) -> str:
        """Put an image into the local source; its digest."""
        return self.images.add(version, installation_package(content))

    def starts(self) -> list[str]:
        """The version of each start, from the programs' own log."""
        assert self.layout.database
        log = self.layout.database.with_name("starts.log")
        return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []

    def runs(self) -> str:
        """What runs, by the service's own process; empty: nothing."""
        status = self.host.services.status(self.host.service)
        return self.host.running(status) if status.active else ""

    def report(self) -> dict[str, object]:
        """KubeEdge's report file."""
        found: dict[str, object] = json.loads(self.layout.report.read_bytes())
        return found

    def start(self) -> None:
        """Start the target, as the host's boot would, and wait until it has said so."""
        before = len(self.starts())
        self.host.services.start(self.host.service)
        until(lambda: len(self.starts()) > before, "the target's start in its log")

    def end(self) -> None:
        """Stop everything that was started here."""
        for spec in self.layout.running.glob("*.spec"):
            name = spec.stem.replace("_", "@", 1) if spec.stem.startswith("beehive-tool") else spec.stem
            self.host.services.stop(type(self.host.service)(name))


def until(condition: Callable[[], object], what: str, seconds: float = 10.0) -> None:
    """Wait for a condition; say what did not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds:g} s")
        time.sleep(0.01)
