"""What is shipped, built once for each state of the source, and bare Debian roots to run it in.

``tarball()`` and ``tool()`` lie in the user's cache under a digest of all that goes into them; ``bare_root(…)`` is
made by debootstrap. ``Root`` is such a root that can be written to: its layers are mounted for each command, in a
mount namespace of its own, so that nothing stays mounted whatever happens.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
PARTS = (
    *("beehive", "modules", "cmd", "shipping", "configs"),
    *("requirements.lock", "pyproject.toml", "LICENSE", "README.md"),
)
SUITE = "bookworm"
BUILDER = ("python3", "python3-venv", "libpython3.11", "binutils", "ca-certificates")
"""What a root needs beside Debian's minimum to build what is shipped."""


class ShippingError(Exception):
    """It could not be built here; the text says why."""


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "beehive" / "shipped"


def source_key() -> str:
    """Names the state of everything that is built from."""
    digest = hashlib.sha256()
    for name in _sources():
        path = TOP / name
        digest.update(f"{name}\0{path.stat().st_mode & 0o111}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def copy_source(folder: Path) -> None:
    """Everything that is built from, as a checkout of its own."""
    for name in _sources():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOP / name, folder / name, follow_symlinks=False)


def _sources() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PARTS]
    listed = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True).stdout.split("\n")
    return sorted(name for name in filter(None, listed) if (TOP / name).is_file())


def tarball() -> Path:
    """What `make dist` makes of the source as it is now; or the one that $BEEHIVE_TARBALL names."""
    if given := os.environ.get("BEEHIVE_TARBALL"):
        return Path(given)
    folder = _made(f"dist-{source_key()}", _build)
    (found,) = folder.glob("beehive-*-linux-*.tar.gz")
    return found


def tarball_of(version: str) -> Path:
    """What `make dist` would make of the same source under another version, with the same packages; or the one that
    $BEEHIVE_TARBALL_NEXT names."""
    if given := os.environ.get("BEEHIVE_TARBALL_NEXT"):
        return Path(given)

    def make(out: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="beehive-source-") as folder:
            source = Path(folder)
            copy_source(source)
            project = source / "pyproject.toml"
            before = project.read_text()
            project.write_text(re.sub(r'(?m)^version = ".*"$', f'version = "{version}"', before, count=1))
            build = [sys.executable, str(source / "shipping/build.py"), "--out", str(out)]
            _do([*build, "--work", str(source / "build"), "--tools", str(TOP / "build")])

    (found,) = _made(f"next-{version}-{source_key()}", make).glob("beehive-*-linux-*.tar.gz")
    return found


def tool() -> Path:
    """The host's tool as one file; or the one that $BEEHIVE_TOOL names."""
    if given := os.environ.get("BEEHIVE_TOOL"):
        return Path(given)
    return _made(f"tool-{source_key()}", lambda out: _build(out, "--one-file")) / "keadm"


def unpacked() -> Path:
    """A layer of a root with the tarball's program where the image has it, and on the path."""

    def make(out: Path) -> None:
        with tarfile.open(tarball()) as tar:
            tar.extractall(out / "made", filter="tar")
        (tree,) = (out / "made").iterdir()
        for place in ("usr/local/lib", "usr/local/bin", "var/lib/beehive"):
            (out / place).mkdir(parents=True)
        (tree / "beehive").rename(out / "usr/local/lib/beehive")
        (out / "usr/local/bin/beehive").symlink_to("/usr/local/lib/beehive/beehive")
        shutil.rmtree(out / "made")

    key = hashlib.sha256(tarball().read_bytes()).hexdigest()[:16]
    return _made(f"unpacked-{key}", make)


def bare_root(packages: Sequence[str] = ()) -> Path:
    """A Debian of the oldest kind that we support, with these packages and no others."""
    key = hashlib.sha256(repr((SUITE, tuple(packages))).encode()).hexdigest()[:8]
    return _made(f"root-{SUITE}-{key}", lambda out: _debootstrap(out / "root", packages)) / "root"


def _build(out: Path, *options: str) -> None:
    _do([sys.executable, "shipping/build.py", "--out", str(out), *options])


def _debootstrap(root: Path, packages: Sequence[str]) -> None:
    include = [f"--include={','.join(packages)}"] if packages else []
    _do(["debootstrap", "--variant=minbase", *include, SUITE, str(root)])
    for waste in ("var/cache/apt/archives", "usr/share/doc", "usr/share/locale", "usr/share/man", "var/lib/apt/lists"):
        shutil.rmtree(root / waste, ignore_errors=True)


def _do(command: Sequence[str]) -> None:
    done = subprocess.run(
        command, cwd=TOP, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise ShippingError(f"{' '.join(command)} failed: {(done.stderr.strip() or done.stdout.strip())[-2000:]}")


def _made(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name, made now unless it is there; older ones of its kind are removed."""
    folder = cache_folder() / name
    with _locked(cache_folder() / f".{name.partition('-')[0]}.lock"):
        if not folder.exists():
            beside = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
            try:
                beside.chmod(0o755)
                make(beside)
                if not name.startswith("root-"):
                    for old in folder.parent.glob(f"{name.partition('-')[0]}-*"):
                        shutil.rmtree(old, ignore_errors=True)
                beside.rename(folder)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


_INSIDE = """
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$UPPER/upper,workdir=$UPPER/work" "$UPPER/root"
mount -t proc proc "$UPPER/root/proc"
mount --bind /dev "$UPPER/root/dev"
[ -z "$READ_ONLY" ] || mount -o remount,ro "$UPPER/root"
[ -z "$WRITABLE" ] || mount -t tmpfs -o mode=1777 tmpfs "$UPPER/root$WRITABLE"
exec chroot $AS "$UPPER/root" "$@"
"""


class Root:
    """A root of its own over a bare one; what is written stays in `folder` from one command to the next."""

    def __init__(self, folder: Path, *layers: Path) -> None:
        """`layers` lie over each other, the first on top."""
        self.layers, self.folder = layers, folder
        for name in ("upper", "work", "root"):
            (folder / name).mkdir(parents=True)

    @property
    def written(self) -> Path:
        """What differs from the layers."""
        return self.folder / "upper"

    def command(
        self, *argv: str, read_only: bool = False, writable: str = "", user: str = ""
    ) -> tuple[list[str], dict[str, str]]:
        """How to start `argv` inside, and with which environment; the network is this machine's."""
        environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
            "LOWER": ":".join(map(str, self.layers)), "UPPER": str(self.folder),
            "READ_ONLY": "yes" if read_only else "", "WRITABLE": writable, "AS": f"--userspec={user}" if user else "",
        }  # fmt: skip
        if mark := os.environ.get("BEEHIVE_TEST_SESSION"):
            environment["BEEHIVE_TEST_SESSION"] = mark
        return ["unshare", "--mount", "--propagation=private", "sh", "-euc", _INSIDE, "sh", *argv], environment

    def run(
        self, *argv: str, environment: Mapping[str, str] | None = None, timeout: float = 90, **how: object
    ) -> subprocess.CompletedProcess[str]:
        """One command to its end."""
        command, clean = self.command(*argv, **how)  # type: ignore[arg-type]
        return subprocess.run(
            command, env={**clean, **(environment or {})}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip

    def sh(self, script: str, **how: object) -> subprocess.CompletedProcess[str]:
        """A script of the shell inside."""
        return self.run("/bin/sh", "-euc", script, **how)  # type: ignore[arg-type]
