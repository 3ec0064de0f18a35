"""Where things lie on a host (spec/kubeedge.md 8, 11.3). Pure: paths only."""

from pathlib import Path

from modules.upgrader.config import Config
from modules.upgrader.host.names import checked_name, checked_version

KEADM = "keadm"
EXECUTABLE = "/usr/local/bin/edgecore"
"""Where KubeEdge puts it."""
MANIFEST = "manifest.json"


class Layout:
    """All places of one host."""

    def __init__(self, config: Config) -> None:
        self.root = Path(config.root)
        self.etc = self.below("/etc/kubeedge")
        self.report = self.etc / "upgrade_report.json"
        self.lock = self.etc / "idempotency_record"
        self.backups = self.etc / "backup"
        self.upgrades = self.etc / "upgrade"
        self.executable = self.below(config.target.executable or EXECUTABLE)
        self.runs_from = tuple(str(self.below(pattern)) for pattern in config.target.runs_from)
        self.keadm = self.below("/usr/local/bin/keadm")
        self.link = self.below(config.target.link) if config.target.link else None
        self.tool_link = self.below(config.target.tool_link) if config.target.tool_link else None
        # The name of file or folder in backups and upgrades.
        self.program = self.link.parent.name if self.link else self.executable.name
        self.config = self.below(config.target.config) if config.target.config else None
        self.database = self.below(config.target.database) if config.target.database else None
        self.control = self.below(config.target.control) if config.target.control else None
        self.state = self.below(config.state)
        self.records = self.state / "records"
        self.requests = self.state / "requests"
        self.owner = self.state / "owner"
        self.downloads = self.state / "downloads"
        self.identity = self.below(config.cloud.identity)
        self.running = self.state / "running"
        self.logs = self.below(config.logs)

    def below(self, path: str) -> Path:
        """A path of the host as a path of this machine."""
        return self.root / path.lstrip("/")

    def backup(self, version: str) -> Path:
        """The backup of a version."""
        return self.backups / checked_version(version)

    def upgrade(self, version: str) -> Path:
        """What was extracted for an upgrade to a version."""
        return self.upgrades / checked_version(version)

    def artefact(self, version: str) -> Path:
        """The new program, extracted: a file, or a folder."""
        return self.upgrade(version) / self.program

    def started(self, version: str) -> Path:
        """What the service would start of it."""
        artefact = self.artefact(version)
        return artefact / self.executable.relative_to(self.link) if self.link else artefact

    def record(self, key: str) -> Path:
        """The tool's record of an attempt."""
        return self.records / f"{checked_name(key)}.json"

    def saved_database(self, key: str) -> Path:
        """The database as it was when the old version had stopped."""
        return self.records / f"{checked_name(key)}.database"

    def request(self, unit: str) -> Path:
        """What the agent asks of the tool."""
        return self.requests / f"{checked_name(unit)}.json"
