"""Builds what is shipped: `python shipping/build.py [--out DIR] [--one-file]`. Needs Python 3.11 and objdump.

The result is ``dist/beehive-<version>-linux-<arch>.tar.gz`` (what is in it: shipping/packing.py). ``--one-file`` builds
``dist/keadm``, the host's tool alone, for installation images. The same source gives the same bytes, wherever and
whenever it is built with the same Python and system libraries. The library floor is this machine's: build on the oldest
Linux that is to run it.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shipping.packing import EPOCH, pack, run

SOURCE = Path(__file__).resolve().parents[1]
_PIP = ("-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="shipping/build.py", description="Build what is shipped.")
    parser.add_argument("--out", type=Path, default=SOURCE / "dist", help="directory for the result")
    parser.add_argument("--one-file", action="store_true", help="build the tool alone, as one file named keadm")
    parser.add_argument("--work", type=Path, default=SOURCE / "build", help="directory for what is made on the way")
    parser.add_argument("--tools", type=Path, help="directory for the locked packages; default: that of --work")
    options = parser.parse_args(arguments)
    out, work = options.out.resolve(), options.work.resolve()
    for folder in (out, work):
        folder.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)
    with _alone(work):
        python = environment((options.tools or work).resolve())
        bundle = freeze(python, "keadm" if options.one_file else "beehive", work)
        made = out / "keadm" if options.one_file else pack(SOURCE, bundle, python, out)
        if options.one_file:
            shutil.copy2(bundle, made)
    sys.stderr.write(f"{made}  {made.stat().st_size / 1e6:.1f} MB\n")
    return 0


def environment(tools: Path) -> Path:
    """A Python with exactly the locked packages; made anew when a lock changes."""
    locks = [SOURCE / "requirements.lock", SOURCE / "shipping" / "requirements.lock"]
    key = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks) + sys.version.encode()).hexdigest()[:12]
    folder = tools / f"python-{key}"
    python = folder / "bin" / "python"
    tools.mkdir(parents=True, exist_ok=True)
    with _alone(tools, "python"):
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=True)
            for lock in locks:
                run([python, *_PIP, "--require-hashes", "-r", lock])
            (folder / ".complete").touch()
    return python


def freeze(python: Path, name: str, work: Path) -> Path:
    """What PyInstaller makes of it: a directory, or for keadm a file."""
    out, ours = work / "frozen", work / f"ours-{name}"
    shutil.rmtree(ours, ignore_errors=True)
    run([python, *_PIP, "--no-deps", "--no-build-isolation", "--target", ours, SOURCE])
    settings = {
        **os.environ, "SOURCE": str(SOURCE), "PYTHONPATH": str(ours), "ONE_FILE": "1" if name == "keadm" else "",
        "PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": str(EPOCH), "PYTHONDONTWRITEBYTECODE": "1",
        "PYINSTALLER_CONFIG_DIR": str(work / "cache"),  # --clean empties it, also while another build uses it
    }  # fmt: skip
    command: list[str | Path] = [
        python, "-m", "PyInstaller", "--noconfirm", "--clean", "--log-level", "ERROR", "--distpath", out, "--workpath",
        work / f"work-{name}", SOURCE / "shipping" / "beehive.spec"]  # fmt: skip
    run(command, settings)
    return out / name


@contextmanager
def _alone(folder: Path, what: str = "build") -> Iterator[None]:
    """One at a time in this folder."""
    with (folder / f".{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
