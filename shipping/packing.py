"""The tarball for edge hosts: one directory, which runs where the C library is as new as its file GLIBC says.

Beside it: scripts to install and remove it, the systemd units, an inventory (SBOM) and digests of everything.
"""

import gzip
import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from shipping.inventory import inventory
from shipping.native import libraries

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = 1_735_689_600
"""The time of everything in the tarball, for the same source must give the same bytes: 2025-01-01."""

TOOL = ("/usr/local/bin/beehive keadm", "/usr/local/lib/beehive/tool/beehive keadm")
"""In units: a tool starts from the version that proved itself last, so that a new one need not take itself back."""


def pack(source: Path, bundle: Path, python: Path, out: Path) -> Path:
    """The tarball in `out`: the bundle, the scripts, the units, the inventory, the digests."""
    version = run([bundle / "beehive", "--version"]).strip()
    name = artefact(version, platform.machine())
    tree = bundle.parent / name
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(bundle, tree / "beehive", symlinks=True)
    for text in ("LICENSE", "configs/edge.yaml"):
        shutil.copy2(source / text, tree)
    shutil.copytree(source / "configs" / "systemd", tree / "units")
    for unit in (tree / "units").iterdir():
        unit.write_text(unit.read_text().replace(*TOOL))
    for script in ("install.sh", "uninstall.sh"):
        shutil.copy2(source / "shipping" / script, tree)
        (tree / script).chmod(0o755)
    facts = {"VERSION": version, "ARCH": platform.machine(), "GLIBC": glibc_floor(tree / "beehive")}
    for fact, value in facts.items():
        (tree / fact).write_text(f"{value}\n")
    packages = json.loads(run([python, "-c", _PACKAGES]))
    parts = inventory(version, [*packages, *libraries(tree / "beehive")])
    (tree / "sbom.cdx.json").write_text(json.dumps(parts, indent=1) + "\n")
    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    digests = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files)
    (tree / "SHA256SUMS").write_text(digests)
    made = out / f"{name}.tar.gz"
    made.write_bytes(tarball(tree, name))
    return made


def artefact(version: str, machine: str) -> str:
    """The name of what is made for a machine as `uname -m` names it."""
    return f"beehive-{version}-linux-{ARCHITECTURES.get(machine, machine)}"


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


def tarball(tree: Path, name: str) -> bytes:
    """The same bytes for the same files: sorted, owned by root, of one time."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted([tree, *tree.rglob("*")]):
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


def run(command: Sequence[str | Path], environment: dict[str, str] | None = None) -> str:
    """Its output. Ends the build with its complaint when it fails."""
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed with code {done.returncode}:\n{done.stderr or done.stdout}")
    text: str = done.stdout
    return text
