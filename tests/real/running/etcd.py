"""Real etcd: one member without TLS for kube-apiserver, or several with mutual TLS as K3s runs them."""

import json
import shutil
import ssl
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.real.running.build import ETCD, ETCDCTL
from tests.real.running.processes import Daemon, free_ports, wait_until, with_free_ports


class EtcdctlError(AssertionError):
    """etcdctl ended with an error; the text is its own."""


def _etcdctl(arguments: tuple[str, ...]) -> str:
    done = subprocess.run([ETCDCTL.path(), *arguments], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise EtcdctlError(f"etcdctl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _healthy(url: str, context: ssl.SSLContext | None = None) -> bool:
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
        self.process.start(lambda: _healthy(self.url))

    def ctl(self, *arguments: str) -> str:
        """What etcdctl prints."""
        return _etcdctl((f"--endpoints={self.url}", *arguments))

    def remove(self) -> None:
        """Ends it and deletes its data."""
        self.process.stop()
        shutil.rmtree(self._data, ignore_errors=True)


@dataclass(frozen=True)
class Identity:
    """Files of a certificate, its key and the CA that both sides trust."""

    ca: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """A client's TLS context."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass(frozen=True)
class Member:
    """One member's process and addresses; ``name`` is etcd's member name. Pause or kill it through ``process``."""

    name: str
    client_url: str
    peer_url: str
    process: Daemon
    data: Path


class EtcdCluster:
    """Members ``server-1``, ``server-2`` … with mutual TLS on both ports.

    ``client`` is an identity that they accept, ``stranger`` one that they refuse.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.client = self.issue("client")
        self.stranger = self._write("stranger", trustme.CA())
        self.members: list[Member] = []

    @classmethod
    def started(cls, folder: Path, size: int = 3) -> "EtcdCluster":
        """A new cluster of ``size`` voters with a leader."""

        def start(ports: list[int]) -> EtcdCluster:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            cluster = cls(folder)
            names = [f"server-{number + 1}" for number in range(size)]
            peers = ",".join(f"{name}=https://127.0.0.1:{port}" for name, port in zip(names, ports[size:], strict=True))
            try:
                for name, client, peer in zip(names, ports[:size], ports[size:], strict=True):
                    cluster._launch(name, client, peer, f"--initial-cluster={peers}", "--initial-cluster-state=new")
                for member in cluster.members:
                    cluster.wait_healthy(member)
            except BaseException:
                cluster.remove()
                raise
            return cluster

        return with_free_ports(start, 2 * size)

    def issue(self, name: str) -> Identity:
        """A certificate of the cluster's CA for 127.0.0.1 and localhost, good for a member and for a client."""
        return self._write(name, self._authority)

    def _write(self, name: str, authority: trustme.CA) -> Identity:
        identity = Identity(*(self._folder / f"{name}{ending}" for ending in ("-ca.pem", ".pem", "-key.pem")))
        leaf = authority.issue_cert("127.0.0.1", "localhost", common_name=name)
        # What all must trust is the cluster's CA, also the stranger.
        self._authority.cert_pem.write_to_path(str(identity.ca))
        leaf.cert_chain_pems[0].write_to_path(str(identity.certificate))
        leaf.private_key_pem.write_to_path(str(identity.key))
        return identity

    def _launch(self, name: str, client_port: int, peer_port: int, *joining: str) -> Member:
        own = self.issue(name)
        client, peer, data = (
            f"https://127.0.0.1:{client_port}",
            f"https://127.0.0.1:{peer_port}",
            self._folder / f"{name}.etcd",
        )
        argv: list[str | Path] = [ETCD.path(), f"--name={name}", f"--data-dir={data}", "--log-level=warn", *joining]
        argv += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        argv += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
        argv += [
            f"--trusted-ca-file={own.ca}",
            f"--cert-file={own.certificate}",
            f"--key-file={own.key}",
            "--client-cert-auth",
        ]
        argv += [
            f"--peer-trusted-ca-file={own.ca}",
            f"--peer-cert-file={own.certificate}",
            f"--peer-key-file={own.key}",
        ]
        member = Member(name, client, peer, Daemon(name, [*argv, "--peer-client-cert-auth"], self._folder), data)
        self.members.append(member)
        member.process.start()
        return member

    def wait_healthy(self, member: Member, seconds: float = 30) -> None:
        """Waits until the member says that it has a leader."""
        context = self.client.context()
        member.process.wait_ready(lambda: _healthy(member.client_url, context), seconds)

    def start(self, member: Member) -> None:
        """Starts a stopped or killed member again, with its data, and waits until it is healthy."""
        member.process.start()
        self.wait_healthy(member)

    def add_learner(self, name: str) -> Member:
        """Adds a learner and starts it, not waiting for it. Lasts up to 5 s: a young cluster refuses to add any."""
        client, port = free_ports(2)
        peer = f"https://127.0.0.1:{port}"
        wait_until(lambda: self._added(name, peer), 30, f"{name} is added as a learner")
        peers = ",".join(f"{member.name}={member.peer_url}" for member in self.members)
        return self._launch(
            name, client, port, f"--initial-cluster={peers},{name}={peer}", "--initial-cluster-state=existing"
        )

    def _added(self, name: str, peer: str) -> bool:
        try:
            self.ctl("member", "add", name, "--learner", f"--peer-urls={peer}")
        except EtcdctlError as refusal:
            if "unhealthy cluster" in str(refusal):
                return False
            raise
        return True

    def leader(self) -> Member | None:
        """The member that says of itself that it leads, if there is one."""
        for member in (member for member in self.members if member.process.running):
            try:
                status = json.loads(self.ctl("endpoint", "status", "-w", "json", through=member))[0]["Status"]
            except EtcdctlError:
                continue
            if status["leader"] == status["header"]["member_id"]:
                return member
        return None

    def ctl(self, *arguments: str, through: Member | None = None) -> str:
        """What etcdctl prints, asked with the client's identity at the first member or at ``through``."""
        url = (through or self.members[0]).client_url
        who = self.client
        return _etcdctl(
            (f"--endpoints={url}", f"--cacert={who.ca}", f"--cert={who.certificate}", f"--key={who.key}", *arguments)
        )

    def remove(self) -> None:
        """Ends every member and deletes its data."""
        for member in self.members:
            member.process.kill()
            shutil.rmtree(member.data, ignore_errors=True)
