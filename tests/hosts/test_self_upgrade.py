"""Beehive upgrades itself on a booted systemd host, as `make dist` packs it: to another version, and back again."""

import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from beehive.journal import Journal
from beehive.messages.tasks import TaskReport, TaskSpec
from modules.taskmanager.edge import RECORD
from modules.taskmanager.record import Attempt
from modules.taskmanager.record import Record as Kept
from tests.hosts.running.edge import OLD as EDGECORE
from tests.hosts.running.edge import UID
from tests.hosts.running.forge import Forge
from tests.hosts.running.machine import wait_until
from tests.hosts.running.shipped import AGENT, TREE, Bare
from tests.real.running.images import OciLayout
from tests.real.running.shipped import tarball, tarball_of
from tests.real.running.standins import Variant, standin

pytestmark = pytest.mark.timeout(900)  # the first test of a new state of the source builds it twice
NEXT = "0.99.0"
LIB = "/usr/local/lib/beehive"
IMAGES = "/var/lib/beehive/images"
PACKED = "/opt/beehive"
_BY_THE_PROVEN_ONE = (
    "[Service]\nExecStart=\nExecStart={lib}/tool/beehive keadm upgrade edge --force "
    "--request /var/lib/beehive/upgrader/requests/%i.json\n"
)
TARGET = {
    "link": f"{LIB}/current", "toolLink": f"{LIB}/tool", "executable": f"{LIB}/current/beehive", "imagePath": PACKED,
    "service": "beehive-edge", "config": "/etc/beehive/edge.yaml", "database": "",
    "control": "/var/lib/beehive/control.sock",
}  # fmt: skip
Make = Callable[[], "Itself"]


class Itself(Bare):
    """A host whose target is our own agent, installed by the script of the tarball."""

    def set_up(self) -> None:
        """Install it, say what is to be upgraded, and run it; it has joined no cloud."""
        unpack = f"mkdir {TREE} && tar xf beehive-*.tar.gz -C {TREE} --strip-components=1"
        code, said = self.say_to_shell(f"{unpack} && {TREE}/install.sh && rm -rf {TREE} beehive-*.tar.gz")
        assert code == 0, said
        current = self.machine.run("readlink", f"{LIB}/current").strip()
        self.machine.run("ln", "-s", current, f"{LIB}/tool")
        drop_in = self.machine.path("/etc/systemd/system/beehive-tool@.service.d/proven.conf")
        drop_in.parent.mkdir()
        drop_in.write_text(_BY_THE_PROVEN_ONE.format(lib=LIB))
        self.owner_allows({"target": TARGET, "soak": "2s", "images": {"registry": False, "layout": IMAGES}})
        self.machine.run("systemctl", "daemon-reload")
        self.machine.run("systemctl", "enable", "--now", AGENT)
        wait_until(lambda: self.speaks() is not None, "the agent answers", 60, self.explain)

    def status(self) -> dict[str, object]:
        """`beehive edge status -o json`."""
        done = self.machine.say("/usr/local/bin/beehive", "edge", "status", "-o", "json")
        found: dict[str, object] = json.loads(done.stdout) if done.returncode == 0 else {}
        return found

    def speaks(self) -> str | None:
        """The version of the agent that answers now; None: none does."""
        return str(self.status().get("agent", "")) or None

    def order(self, version: str, layer: Mapping[str, Path], uid: str) -> None:
        """The agent was told, wrote that down, and has not begun; the image is on the host."""
        self.uid = uid
        self.machine.run("systemctl", "stop", AGENT)
        OciLayout(self.machine.path(IMAGES)).add(f"v{version}", [layer])
        asked = TaskSpec(version=f"v{version}", image="kubeedge/installation-package")
        journal = Journal(self.machine.path("/var/lib/beehive/journal/taskmanager"))
        kept = journal.load(RECORD, Kept) or Kept()
        journal.save(RECORD, replace(kept, attempt=Attempt(job="north", uid=uid, attempt=0, spec=asked)))
        self.machine.run("systemctl", "start", "--no-block", AGENT)

    def final_word(self) -> TaskReport:
        """The agent's, whichever version it is by then."""
        wait_until(self._has_ended, "the agent has its final word", 240, self.explain)
        return self.agent().finished[-1].report

    def _has_ended(self) -> bool:
        record = self.agent()
        return record.attempt is None and any(one.report.uid == self.uid for one in record.finished)


def files_of(packed: Path, folder: Path) -> dict[str, Path]:
    """The program of a tarball as a layer of an image."""
    with tarfile.open(packed) as tar:
        tar.extractall(folder, filter="tar")
    (tree,) = folder.iterdir()
    program = tree / "beehive"
    layer = {f"{PACKED}/{path.relative_to(program)}": path for path in program.rglob("*") if path.is_file()}
    return {**layer, "/usr/local/bin/keadm": program / "beehive"}


@pytest.fixture
def itself(forge: Forge) -> Iterator[Make]:
    made: list[Itself] = []

    def make() -> Itself:
        host = Itself(forge.machine(), standin(EDGECORE), tarball())
        made.append(host)
        host.machine.boot()
        host.set_up()
        return host

    yield make
    for host in made:
        host.machine.remove()


def assert_reads_its_journal(host: Itself, uid: str) -> None:
    """What the other version wrote is what this one goes on with."""
    assert not list(host.machine.path("/var/lib/beehive/journal").rglob("*.bad"))
    assert uid in [one.report.uid for one in host.agent().finished]
    attempts = host.status()["attempts"]
    assert isinstance(attempts, dict)
    assert "fault" not in attempts
    assert "in_hand" not in attempts


def test_it_brings_itself_to_another_version_and_a_person_brings_it_back(itself: Make, tmp_path: Path) -> None:
    host = itself()
    before = host.speaks()
    assert before
    bystander = host.machine.show("edgecore.service", "MainPID", "NRestarts", "InvocationID")
    host.order(NEXT, files_of(tarball_of(NEXT), tmp_path / "next"), UID)
    word = host.final_word()
    assert (word.code, word.from_version, word.to_version) == ("", f"v{before}", f"v{NEXT}"), host.explain()
    assert [(one.action, one.status) for one in word.results] == [
        ("Check", "True"), ("BackUp", "True"), ("Upgrade", "True"),
    ]  # fmt: skip
    assert host.speaks() == NEXT
    assert host.machine.show(AGENT, "NRestarts") == {"NRestarts": "0"}
    assert_reads_its_journal(host, UID)
    for link in ("current", "tool"):
        assert NEXT in host.machine.run("readlink", f"{LIB}/{link}")

    code, said = host.say_to_shell("beehive keadm rollback edge")
    assert code == 0, said
    assert host.speaks() == before
    assert_reads_its_journal(host, UID)
    assert host.machine.show("edgecore.service", "MainPID", "NRestarts", "InvocationID") == bystander

    host.machine.pull_the_plug()
    host.machine.boot()
    wait_until(lambda: host.speaks() == before, "the old version is back after a power cut", 60, host.explain)
    assert_reads_its_journal(host, UID)


def test_a_version_of_itself_that_cannot_start_is_taken_back_and_the_old_one_tells_it(
    itself: Make, tmp_path: Path
) -> None:
    host = itself()
    before = host.speaks()
    broken = files_of(tarball(), tmp_path / "broken")
    broken[f"{PACKED}/beehive"] = standin(f"v{NEXT}", Variant.CRASHING)
    host.order(NEXT, broken, UID)
    word = host.final_word()
    assert (word.code, word.to_version) == ("RolledBack", f"v{before}"), host.explain()
    assert [(one.action, one.status) for one in word.results][-2:] == [("Upgrade", "False"), ("RollBack", "True")]
    assert host.speaks() == before
    assert_reads_its_journal(host, UID)
    for link in ("current", "tool"):
        assert NEXT not in host.machine.run("readlink", f"{LIB}/{link}")
