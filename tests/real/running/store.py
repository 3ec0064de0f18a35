"""Real etcd, one member without TLS: the store under a kube-apiserver; and etcdctl."""

import shutil
import ssl
import subprocess
import urllib.request
from pathlib import Path

from tests.real.running.build import ETCD, ETCDCTL
from tests.real.running.processes import Daemon, with_free_ports


class EtcdctlError(AssertionError):
    """etcdctl ended with an error; the text is its own."""


def etcdctl(arguments: tuple[str, ...]) -> str:
    """What etcdctl prints."""
    done = subprocess.run([ETCDCTL.path(), *arguments], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise EtcdctlError(f"etcdctl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def healthy(url: str, context: ssl.SSLContext | None = None) -> bool:
    """Whether the member at ``url`` knows a leader; an OSError if it does not answer."""
    with urllib.request.urlopen(f"{url}/health", timeout=2, context=context) as answer:
        return b'"true"' in answer.read()


class Etcd:
    """One member, no TLS, no fsync: the store under a kube-apiserver. ``url`` is where it answers."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in ports)
        self.url = client
        self._data = folder / "etcd"
        argv: list[str | Path] = [
            ETCD.path(),
            "--name=store",
            f"--data-dir={self._data}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        argv += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        argv += [
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=store={peer}",
        ]
        self.process = Daemon("etcd", argv, folder)

    @classmethod
    def started(cls, folder: Path) -> "Etcd":
        """A new empty store in ``folder``, ready."""

        def start(ports: list[int]) -> Etcd:
            etcd = cls(folder, ports)
            etcd.start()
            return etcd

        return with_free_ports(start, 2)

    def start(self) -> None:
        """Starts it, also again after ``stop``, on the same ports with the same data."""
        self.process.start(lambda: healthy(self.url))

    def ctl(self, *arguments: str) -> str:
        """What etcdctl prints."""
        return etcdctl((f"--endpoints={self.url}", *arguments))

    def remove(self) -> None:
        """Ends it and deletes its data."""
        self.process.stop()
        shutil.rmtree(self._data, ignore_errors=True)
