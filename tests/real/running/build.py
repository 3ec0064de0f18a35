"""Builds the servers that the tests start, from Go modules, once per machine.

``python -m tests.real.running.build`` builds what is missing and prints what it did and how long it took; ``--list``
prints where each program lies. A program lies in the user's cache folder under a name made of its version and a digest
of everything that decides its content, so another version never takes its place. It is built beside that place and
renamed: half a build is never seen. To add a server, add its import to a Go module in ``tests/real/servers`` and a
line to ``PROGRAMS``.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.real.running.go import BuildError, find_go, go_environment, install_go

SERVERS = Path(__file__).resolve().parent.parent / "servers"


@dataclass(frozen=True)
class Program:
    """One executable of a Go module: ``module`` is a folder in ``tests/real/servers``, ``package`` what to build."""

    name: str
    version: str
    module: str
    package: str
    values: Mapping[str, str] = field(default_factory=dict)
    """Variables that the linker sets."""

    def key(self) -> str:
        """Names this exact build."""
        digest = hashlib.sha256()
        folder = SERVERS / self.module
        for path in sorted(p for p in folder.iterdir() if p.suffix in {".go", ".mod", ".sum"}):
            digest.update(path.read_bytes())
        digest.update(repr((self.package, sorted(self.values.items()))).encode())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"

    def path(self) -> Path:
        """Where the executable lies once it is built."""
        return cache_folder() / self.key() / self.name


_KUBERNETES = {
    "k8s.io/component-base/version.gitVersion": "v1.34.4",
    "k8s.io/component-base/version.gitMajor": "1",
    "k8s.io/component-base/version.gitMinor": "34",
}
KUBE_APISERVER = Program("kube-apiserver", "v1.34.4", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", _KUBERNETES)
KUBECTL = Program("kubectl", "v1.34.4", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", _KUBERNETES)
ETCD = Program("etcd", "v3.6.16", "etcd", "go.etcd.io/etcd/server/v3")
ETCDCTL = Program("etcdctl", "v3.6.16", "etcd", "go.etcd.io/etcd/etcdctl/v3")
HELM = Program("helm", "v3.19.0", "helm", "helm.sh/helm/v3/cmd/helm", {
    "helm.sh/helm/v3/internal/version.version": "v3.19.0",
})  # fmt: skip
TOXIPROXY = Program("toxiproxy", "v2.12.0", "toxiproxy", "github.com/Shopify/toxiproxy/v2/cmd/server")
PROGRAMS = (ETCD, ETCDCTL, KUBECTL, KUBE_APISERVER, HELM, TOXIPROXY)


def cache_folder() -> Path:
    """The folder under the user's cache that holds every built program."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "beehive" / "servers"


def build(program: Program) -> Path:
    """The executable of ``program``, built now unless it is there. Several builders at once wait for each other."""
    target = program.path()
    if target.exists():
        return target
    with _locked(cache_folder() / f".{program.name}.lock"):
        if not target.exists():
            _compile(program, target.parent)
    return target


def _compile(program: Program, folder: Path) -> None:
    go = find_go()
    flags = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in sorted(program.values.items()))])
    for broken_off in folder.parent.glob(f".{program.name}-*/"):
        shutil.rmtree(broken_off, ignore_errors=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        options = ["-trimpath", "-mod=readonly", "-buildvcs=false", f"-ldflags={flags}", f"-o={beside / program.name}"]
        command: list[str | Path] = [go, "build", *options, program.package]
        where = SERVERS / program.module
        done = subprocess.run(command, cwd=where, env=go_environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"{program.name} {program.version} does not build:\n{done.stderr.strip()[-2000:]}")
        beside.chmod(0o755)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> int:
    """Builds all of ``PROGRAMS``; 0 if they are there in the end."""
    if arguments == ["--list"]:
        sys.stdout.writelines(f"{program.path()}\n" for program in PROGRAMS)
        return 0
    try:
        for program in PROGRAMS:
            if not program.path().exists():
                _build_aloud(program)
    except BuildError as problem:
        sys.stderr.write(f"failed\n{problem}\n")
        return 1
    return 0


def _build_aloud(program: Program) -> None:
    began = time.monotonic()
    sys.stderr.write(f"building {program.name} {program.version} … ")
    sys.stderr.flush()
    install_go()
    build(program)
    sys.stderr.write(f"{time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
