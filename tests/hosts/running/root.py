"""The disk that every test host starts from: Debian with systemd, made once per machine and kept in the user's cache.

``python -m tests.hosts.running.root`` makes it if it is missing and prints where it lies.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SUITE = "bookworm"
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "ca-certificates", "iproute2"),
    *("libsqlite3-0", "libffi8", "libssl3", "libbz2-1.0", "liblzma5", "zlib1g"),  # what our Python links to
)
SIZE = "768M"
_FIRST_BOOT = "b7d1f3a25c9e4860a1d2c3b4e5f60718"
"""The hosts' machine id: one that is there, or systemd takes every boot after a cut for its first."""
_UNWANTED = ("apt-daily.timer", "apt-daily-upgrade.timer", "fstrim.timer", "e2scrub_all.timer", "e2scrub_reap.service")


class HostsError(Exception):
    """A host could not be made or driven; the text says why."""


def cache_folder() -> Path:
    """Where the disk is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "beehive" / "hosts"


def base_image() -> Path:
    """The disk, made now unless it is there (about a minute). Several at once wait for each other."""
    key = hashlib.sha256(repr((SUITE, PACKAGES, SIZE, _UNWANTED)).encode()).hexdigest()[:12]
    image = cache_folder() / f"{SUITE}-{key}.img"
    with _locked(cache_folder() / ".lock"):
        if not image.exists():
            _make(image)
    return image


def _make(image: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".making-", dir=image.parent) as folder:
        root, disk = Path(folder, "root"), Path(folder, "disk")
        _do(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root)])
        shutil.rmtree(root / "var/cache/apt/archives")
        shutil.rmtree(root / "usr/share/doc")
        shutil.rmtree(root / "usr/share/locale")
        (root / "etc/machine-id").write_text(f"{_FIRST_BOOT}\n")
        (root / "etc/hostname").write_text("edge\n")
        for unit in _UNWANTED:
            (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
        _do(["mkfs.ext4", "-q", "-F", "-d", str(root), str(disk), SIZE])
        disk.rename(image)


def _do(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-1000:]
        raise HostsError(f"{' '.join(command)} failed with code {done.returncode}: {said}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.stdout.write(f"{base_image()}\n")
