"""Builds what is shipped: `python shipping/build.py [--out DIR] [--one-file]`. Needs Python 3.11 and objdump.

The result is ``dist/beehive-<version>-linux-<arch>.tar.gz``: one directory that runs on any Linux with the C library
named in its file GLIBC or a newer one, with scripts to install and remove it, the systemd units, an inventory (SBOM)
and digests of everything. ``--one-file`` builds ``dist/keadm``, the host's tool alone, for installation images.
Twice in a row the same source gives the same bytes. The library floor is this machine's: build on the oldest Linux
that is to run it.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shipping.inventory import inventory

SOURCE = Path(__file__).resolve().parents[1]
BUILD = SOURCE / "build"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_QUIET = "--disable-pip-version-check"
EPOCH = 1_735_689_600
"""The time of everything in the tarball, for the same source must give the same bytes: 2025-01-01."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="shipping/build.py", description="Build what is shipped.")
    parser.add_argument("--out", type=Path, default=SOURCE / "dist", help="directory for the result")
    parser.add_argument("--one-file", action="store_true", help="build the tool alone, as one file named keadm")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    python = environment()
    if options.one_file:
        made = options.out / "keadm"
        shutil.copy2(freeze(python, "keadm"), made)
    else:
        made = pack(freeze(python, "beehive"), python, options.out)
    sys.stderr.write(f"{made}  {made.stat().st_size / 1e6:.1f} MB\n")
    return 0


def environment() -> Path:
    """A Python with exactly the locked packages, in build/; made anew when a lock changes."""
    locks = [SOURCE / "requirements.lock", SOURCE / "shipping" / "requirements.lock"]
    key = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks) + sys.version.encode()).hexdigest()[:12]
    folder = BUILD / f"python-{key}"
    python = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        install: list[str | Path] = [python, "-m", "pip", "install", "-q", "--no-compile", _QUIET]
        for lock in locks:
            run([*install, "--require-hashes", "-r", lock])
        (folder / ".complete").touch()
    run([python, "-m", "pip", "install", "-q", _QUIET, "--no-deps", "--no-build-isolation",
         "--force-reinstall", str(SOURCE)])  # fmt: skip
    return python


def freeze(python: Path, name: str) -> Path:
    """What PyInstaller makes of it: a directory, or for keadm a file."""
    out = BUILD / "frozen"
    settings = {
        **os.environ, "SOURCE": str(SOURCE), "ONE_FILE": "1" if name == "keadm" else "",
        "PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": str(EPOCH), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    command: list[str | Path] = [
        python, "-m", "PyInstaller", "--noconfirm", "--clean", "--log-level", "ERROR", "--distpath", out, "--workpath",
        BUILD / f"work-{name}", SOURCE / "shipping" / "beehive.spec"]  # fmt: skip
    run(command, settings)
    return out / name


def pack(bundle: Path, python: Path, out: Path) -> Path:
    """The tarball: the bundle, the scripts, the units, the inventory, the digests."""
    version = run([bundle / "beehive", "--version"]).strip()
    arch = ARCHITECTURES.get(platform.machine(), platform.machine())
    name = f"beehive-{version}-linux-{arch}"
    tree = BUILD / name
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(bundle, tree / "beehive", symlinks=True)
    for text in ("LICENSE", "configs/edge.yaml"):
        shutil.copy2(SOURCE / text, tree)
    shutil.copytree(SOURCE / "configs" / "systemd", tree / "units")
    for script in ("install.sh", "uninstall.sh"):
        shutil.copy2(SOURCE / "shipping" / script, tree)
        (tree / script).chmod(0o755)
    facts = {"VERSION": version, "ARCH": platform.machine(), "GLIBC": glibc_floor(tree / "beehive")}
    for fact, value in facts.items():
        (tree / fact).write_text(f"{value}\n")
    packages = run([python, "-c", _PACKAGES])
    (tree / "sbom.cdx.json").write_text(json.dumps(inventory(version, json.loads(packages)), indent=1) + "\n")
    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    digests = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files)
    (tree / "SHA256SUMS").write_text(digests)
    made = out / f"{name}.tar.gz"
    made.write_bytes(_tarball(tree, name))
    return made


_PACKAGES = """
import json, importlib.metadata as metadata
def told(one):
    head = one.metadata
    files = head.get_all("License-File") or []
    return {
        "name": head["Name"], "version": one.version, "classifiers": head.get_all("Classifier") or [],
        "license": head.get("License-Expression") or head.get("License") or "",
        "texts": [one.read_text(f"licenses/{name}") or one.read_text(name) or "" for name in files],
    }
print(json.dumps([told(one) for one in metadata.distributions()]))
"""


def glibc_floor(folder: Path) -> str:
    """The newest version of the C library that any file of the bundle asks for."""
    found = {(2, 17)}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if content.startswith(b"\x7fELF"):
                found |= {(int(one), int(two)) for one, two in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)}
    return ".".join(map(str, max(found)))


def _tarball(tree: Path, name: str) -> bytes:
    """The same bytes for the same files: sorted, owned by root, of one time."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in _walk(tree):
            info = tar.gettarinfo(str(path), str(Path(name, path.relative_to(tree))))
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            info.mtime = EPOCH
            info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
            with path.open("rb") if info.isfile() else io.BytesIO() as content:
                tar.addfile(info, content)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0, filename="") as zipped:
        zipped.write(plain.getbuffer())
    return packed.getvalue()


def _walk(tree: Path) -> Iterator[Path]:
    return iter(sorted([tree, *tree.rglob("*")]))


def run(command: Sequence[str | Path], environment: dict[str, str] | None = None) -> str:
    """Its output. Ends the build with its complaint when it fails."""
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed with code {done.returncode}:\n{done.stderr or done.stdout}")
    text: str = done.stdout
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
