"""One test host: a disk image, mounted, booted by systemd-nspawn; its power can be cut."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.hosts.running import groups
from tests.hosts.running.root import HostsError

_BOOT = 60.0
_END = 20.0
_POLL = 0.02
_ENVIRONMENT = ("/usr/bin/env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root")


class Machine:
    """A host from its first boot to its last. `folder` is its own; `binds` are read-only: place in the host → here."""

    def __init__(
        self, folder: Path, image: Path, binds: Mapping[str, Path] | None = None, *, move: bool = False
    ) -> None:
        self.folder = folder
        self.disk = folder / "disk.img"
        self.root = folder / "root"
        self.binds = dict(binds or {})
        self.shared: dict[str, Path] = {}
        """Writable binds: place in the host → here. What lies there is not on the host's disk."""
        self.name = f"beehive-{uuid.uuid4().hex[:12]}"
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0
        folder.mkdir(parents=True, exist_ok=True)
        if move:
            image.replace(self.disk)
        else:
            copy_image(image, self.disk)

    # ---- the disk -------------------------------------------------------------------------------------------------

    def mount(self) -> Path:
        """The disk's files, here."""
        if not os.path.ismount(self.root):
            self.root.mkdir(exist_ok=True)
            # Nothing but an fsync brings anything to the disk within the minute that a test may take.
            _do(["mount", "-o", "loop,commit=300", str(self.disk), str(self.root)])
        return self.root

    def sync(self) -> None:
        """What was written from here is on the disk."""
        _do(["sync", "-f", str(self.root)])

    def unmount(self) -> None:
        """Write everything to the image and let it go."""
        if os.path.ismount(self.root):
            _until(lambda: _works(["umount", str(self.root)]), "its disk is let go", _END)

    # ---- power ----------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Power on; returns when systemd has done what its boot wants."""
        self.power_on()
        _until(self.has_booted, f"{self.folder.name} boots", _BOOT, self._console)

    def power_on(self) -> None:
        """Begin to boot."""
        self.mount()
        binds = [f"--bind-ro={here}:{there}" for there, here in self.binds.items()]
        binds += [f"--bind={here}:{there}" for there, here in self.shared.items()]
        command = ["systemd-nspawn", "-q", "-D", str(self.root), "--boot", "--register=no", "--keep-unit"]
        enter = ["/bin/sh", "-c", groups.ENTER, "sh"]
        places = " ".join(str(group) for group in groups.make(self.name))
        with (self.folder / "console.log").open("ab") as console:
            self._nspawn = subprocess.Popen(
                [*enter, *command, "--console=pipe", "-M", self.name, "--link-journal=no", *binds],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env=os.environ | {"GROUPS_OF_HOST": places},
                start_new_session=True,
            )
        self._leader = 0

    def has_booted(self) -> bool:
        """Has systemd done what its boot wants? False while it can't be asked."""
        assert self._nspawn is not None
        if self._nspawn.poll() is not None:
            raise HostsError(f"systemd-nspawn ended with code {self._nspawn.returncode}: {self._console()}")
        self._leader = self._leader or _child_of(self._nspawn.pid)
        if not self._leader:
            return False
        return self.say("systemctl", "is-system-running", "--wait").stdout.strip() in ("running", "degraded")

    def pull_the_plug(self) -> None:
        """A power cut: what had not reached the disk is gone."""
        self._kill()
        beside = self.folder / "cut.img"
        copy_image(self.disk, beside)  # before unmounting, which would write what the cut took
        self.unmount()
        beside.replace(self.disk)

    def snapshot(self, image: Path) -> None:
        """What a power cut in this moment would leave: everything in the host is stopped while its disk is copied."""
        stopped = self._stop_all()
        try:
            copy_image(self.disk, image)
        finally:
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _stop_all(self) -> list[int]:
        """Returns when no process of the host can write any more; one that waits for the disk gets that first."""
        stopped: list[int] = []
        while running := [pid for pid, state in _processes_of(self._leader) if state not in "TtZX"]:
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            stopped += running
        return stopped

    def shut_down(self) -> None:
        """End in good order."""
        if self._leader:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._leader, signal.SIGRTMIN + 4)  # systemd: power off
            assert self._nspawn is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._nspawn.wait(_END)
        self._kill()

    def remove(self) -> None:
        """Leave nothing."""
        self._kill()
        self.unmount()
        shutil.rmtree(self.folder)

    def _kill(self) -> None:
        if self._nspawn is None:
            return
        # Its processes first: without its nspawn a host goes on, and nobody would know it any more.
        _until(self._is_dead, "the host ends", _END)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._nspawn.wait(_END)  # by itself it tidies up
        self._nspawn.kill()
        self._nspawn.wait()
        self._nspawn, self._leader = None, 0
        groups.remove(groups.make(self.name))

    def _is_dead(self) -> bool:
        assert self._nspawn is not None
        inside = _descendants_of(self._nspawn.pid)
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not inside and not self._leader:  # killed between two of its own steps
            self._nspawn.kill()
        return not inside and (self._leader > 0 or self._nspawn.poll() is not None)

    # ---- inside ---------------------------------------------------------------------------------------------------

    def say(self, *command: str, timeout: float = 60.0) -> "subprocess.CompletedProcess[str]":
        """Run a command in the host, as root."""
        enter = ("nsenter", "-t", str(self._leader), "-m", "-u", "-i", "-p", "-r", "-w")
        return subprocess.run(
            [*enter, *_ENVIRONMENT, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )

    def alone(self, *command: str, timeout: float = 120.0) -> "subprocess.CompletedProcess[str]":
        """Run a command on the host's disk while the host is off, without systemd."""
        self.mount()
        binds = [f"--bind-ro={here}:{there}" for there, here in self.binds.items()]
        nspawn = ["systemd-nspawn", "-q", "-D", str(self.root), "--as-pid2", "--register=no", "--keep-unit"]
        return subprocess.run(
            [*nspawn, "--console=pipe", "-M", self.name, *binds, *command],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def begin(self, *command: str) -> "subprocess.Popen[bytes]":
        """Begin a command in the host; whoever calls this ends it."""
        enter = ("nsenter", "-t", str(self._leader), "-m", "-u", "-i", "-p", "-r", "-w")
        null = subprocess.DEVNULL
        return subprocess.Popen([*enter, *_ENVIRONMENT, *command], stdin=null, stdout=null, stderr=null)

    def run(self, *command: str, timeout: float = 60.0) -> str:
        """The same; its output. It must succeed."""
        done = self.say(*command, timeout=timeout)
        if done.returncode:
            raise HostsError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        """What systemd knows of a unit."""
        text = self.run("systemctl", "show", f"--property={','.join(properties)}", unit)
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def path(self, place: str) -> Path:
        """A file of the host, while it runs or its disk is mounted."""
        return self.root / place.lstrip("/")

    def kill_main(self, unit: str) -> None:
        """SIGKILL to a unit's main process."""
        self.run("systemctl", "kill", "--kill-whom=main", "--signal=SIGKILL", unit)

    def journal(self, *arguments: str) -> str:
        """For a failure's message."""
        return self.say("journalctl", "--no-pager", "-q", "-o", "short-precise", *arguments).stdout[-6000:]

    def _console(self) -> str:
        return (self.folder / "console.log").read_text(errors="replace")[-2000:]


def copy_image(source: Path, target: Path) -> None:
    """Copy a disk, holes as holes."""
    _do(["cp", "--sparse=auto", "--reflink=auto", str(source), str(target)])


def wait_until(
    condition: Callable[[], object], what: str, seconds: float = 30.0, seen: Callable[[], str] = str
) -> None:
    """Wait for a condition; say what was seen instead."""
    _until(condition, what, seconds, seen)


def _until(condition: Callable[[], object], what: str, seconds: float, seen: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise HostsError(f"not within {seconds:g} s: {what}. {seen()}")
        time.sleep(_POLL)


def _child_of(pid: int) -> int:
    """systemd in the host: the child of nspawn that has become it."""
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return int(child)
    return 0


def _descendants_of(pid: int) -> list[int]:
    """Children first."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *_descendants_of(int(child))]
    return found


def _processes_of(leader: int) -> list[tuple[int, str]]:
    """Every process of a host with its state, as /proc says it."""
    space = os.readlink(f"/proc/{leader}/ns/pid")
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(place / "ns/pid") == space:
                found.append((int(place.name), (place / "stat").read_text().rpartition(")")[2].split()[0]))
    return found


def _do(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HostsError(f"{' '.join(command)} failed: {done.stderr.strip()}")


def _works(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
