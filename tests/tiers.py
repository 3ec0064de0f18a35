"""Runs the tiers of tests that were asked for: sets up what each needs, says in the end which ran and which did not.

``python -m tests.tiers unit real`` is what ``make test`` calls; ``-k EXPRESSION`` selects tests as pytest's does, and
leaves out the other checks of a tier. A tier that can't run counts as failed and says what to install.
To add a tier, add a line to ``TIERS``.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.real.running import build
from tests.real.running.go import BuildError, install_go

BIN = Path(sys.executable).parent
WORKERS = ("-n", "2", "--dist", "worksteal")
"""Two test processes: most tests wait for something. Each has its own real servers."""
NO_TESTS = 5
"""pytest's exit code when nothing was selected."""


@dataclass(frozen=True)
class Tier:
    """One tier of tests."""

    folders: tuple[str, ...]
    checks: tuple[str, ...] = ()
    """Commands of the environment that must also succeed."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Program that it needs → Debian package that has it."""
    servers: bool = False
    """Whether it needs the servers built from Go."""
    go: bool = False
    """Whether it needs Go itself, for the programs that its tests build."""
    root: bool = False
    """Whether it needs to be root: it mounts disks and boots hosts."""


TIERS = {
    "unit": Tier(
        ("tests/rules", "tests/kernel", "tests/modules", "tests/stories", "tests/house"),
        ("ruff format --check -q .", "ruff check -q .", "lint-imports", "mypy"),
    ),
    "real": Tier(
        ("tests/real",),
        programs={
            "docker-registry": "docker-registry",
            "skopeo": "skopeo",
            "buildah": "buildah",
            "debootstrap": "debootstrap",
            "objdump": "binutils",
            "setpriv": "util-linux",
            "faketime": "faketime",
            "etcd": "etcd-server",
            "prometheus": "prometheus",
        },
        servers=True,
    ),
    "hosts": Tier(
        ("tests/hosts",),
        programs={
            "debootstrap": "debootstrap",
            "systemd-nspawn": "systemd-container",
            "mkfs.ext4": "e2fsprogs",
            "mount": "mount",
            "nsenter": "util-linux",
            "docker-registry": "docker-registry",
            "skopeo": "skopeo",
            "buildah": "buildah",
            "objdump": "binutils",
        },
        go=True,
        root=True,
    ),
}


class CannotRunError(Exception):
    """A tier lacks something; the text says what to install."""


def missing_packages(tier: Tier) -> list[str]:
    """Debian packages of the programs that this machine lacks."""
    return sorted({package for program, package in tier.programs.items() if shutil.which(program) is None})


def prepare(name: str, tier: Tier) -> None:
    """Installs and builds what the tier needs and this machine lacks; ``CannotRunError`` if it can't."""
    if tier.root and os.geteuid() != 0:
        raise CannotRunError(f"the {name} tier mounts disks and boots hosts: run it as root")
    packages = missing_packages(tier)
    if packages:
        _install(name, packages)
    if tier.servers and build.main([]):
        raise CannotRunError(f"the {name} tier needs servers that could not be built (see above)")
    if tier.go:
        try:
            install_go()
        except BuildError as problem:
            raise CannotRunError(f"the {name} tier builds programs with Go: {problem}") from problem


def _install(name: str, packages: list[str]) -> None:
    wanted = f"the {name} tier needs {' and '.join(packages)}: run `apt-get install {' '.join(packages)}` as root"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise CannotRunError(wanted)
    sys.stderr.write(f"installing {' '.join(packages)}\n")
    # At runlevel 1 the packages start no service.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CannotRunError(f"{wanted}; doing so failed: {done.stderr.strip()[-500:]}")


def run(name: str, tier: Tier, expression: str) -> str:
    """Prepares and runs one tier: ``passed``, ``failed``, ``nothing selected``, or why it can't run."""
    sys.stdout.write(f"== {name}\n")
    sys.stdout.flush()
    try:
        prepare(name, tier)
    except CannotRunError as problem:
        return f"failed: {problem}"
    selection = ["-k", expression] if expression else []
    checks = () if expression else tier.checks
    broken = [check.split()[0] for check in checks if _code([str(BIN / check.split()[0]), *check.split()[1:]])]
    code = _code([sys.executable, "-m", "pytest", "-q", *WORKERS, *tier.folders, *selection])
    if code == NO_TESTS and expression:
        return "nothing selected"
    if code:
        broken.append("pytest")
    return f"failed: {', '.join(broken)}" if broken else "passed"


def _code(command: list[str]) -> int:
    return subprocess.run(command, check=False).returncode


def summary(results: Mapping[str, str]) -> str:
    """The last line: how each tier ended, and which were left out."""
    ran = ", ".join(f"{name} {result}" for name, result in results.items())
    left_out = [name for name in TIERS if name not in results]
    return f"tiers: {ran}; not run: {', '.join(left_out) or 'none'}"


def succeeded(results: Mapping[str, str]) -> bool:
    """Whether something ran and nothing failed."""
    return "passed" in results.values() and set(results.values()) <= {"passed", "nothing selected"}


def main(arguments: Sequence[str]) -> int:
    """Runs the tiers named in ``arguments``; 0 if all passed."""
    parser = argparse.ArgumentParser(prog="make test")
    parser.add_argument("tiers", nargs="+", choices=list(TIERS), metavar="TIERS")
    parser.add_argument("-k", dest="expression", default="")
    asked = parser.parse_args(arguments)
    results = {name: run(name, TIERS[name], asked.expression) for name in dict.fromkeys(asked.tiers)}
    sys.stdout.write(f"{summary(results)}\n")
    return 0 if succeeded(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
