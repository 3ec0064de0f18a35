"""What a session with test hosts must not leave behind: mounts, loop devices, machines, its folder."""

import subprocess
from pathlib import Path


def found(folder: Path) -> list[str]:
    """A sentence for each thing of ours that is left; `folder` is the session's own."""
    return [*_mounts(folder), *_loops(folder), *_machines(folder), *_folder(folder)]


def _folder(folder: Path) -> list[str]:
    return [f"{folder} is still there"] if folder.exists() else []


def _mounts(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [f"{line.split()[1]} is still mounted" for line in lines if str(folder) in line]


def _loops(folder: Path) -> list[str]:
    listed = subprocess.run(["losetup", "-n", "-O", "NAME,BACK-FILE"], capture_output=True, text=True, check=True)
    return [f"{line.split()[0]} still holds a disk" for line in listed.stdout.splitlines() if str(folder) in line]


def _machines(folder: Path) -> list[str]:
    """Processes in a mount namespace of their own that holds a disk of ours."""
    left, here = [], Path("/proc/self/ns/mnt").readlink()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/mnt").readlink() == here or str(folder) not in (process / "mountinfo").read_text():
                continue
            left.append(f"process {process.name} ({(process / 'comm').read_text().strip()}) still runs in a host")
        except OSError:
            continue
    return left
