"""Real etcd as K3s runs it: several members with mutual TLS."""

import json
import shutil
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import trustme

from tests.real.running.build import ETCD
from tests.real.running.processes import Daemon, free_ports, wait_until, with_free_ports
from tests.real.running.store import EtcdctlError, etcdctl, healthy


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
    argv: tuple[str, ...] = ()


class EtcdCluster:
    """Members ``server-1``, ``server-2`` … with mutual TLS on both ports.

    ``client`` is an identity that they accept, ``stranger`` one that they refuse; ``authority`` is their CA.
    """

    def __init__(self, folder: Path, program: str | Path | None = None, flags: tuple[str, ...] = ()) -> None:
        self._folder = folder
        self._program = program or ETCD.path()
        self._flags = flags
        self.authority = trustme.CA()
        self.client = self.issue("client")
        self.stranger = self._write("stranger", trustme.CA())
        self.members: list[Member] = []

    @classmethod
    def started(
        cls, folder: Path, size: int = 3, program: str | Path | None = None, flags: tuple[str, ...] = ()
    ) -> "EtcdCluster":
        """A new cluster of ``size`` voters with a leader; ``flags`` go to every member, also to later ones."""

        def start(ports: list[int]) -> EtcdCluster:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            cluster = cls(folder, program, flags)
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
        return self._write(name, self.authority)

    def _write(self, name: str, authority: trustme.CA) -> Identity:
        identity = Identity(*(self._folder / f"{name}{ending}" for ending in ("-ca.pem", ".pem", "-key.pem")))
        leaf = authority.issue_cert("127.0.0.1", "::1", "localhost", common_name=name)
        # What all must trust is the cluster's CA, also the stranger.
        self.authority.cert_pem.write_to_path(str(identity.ca))
        leaf.cert_chain_pems[0].write_to_path(str(identity.certificate))
        leaf.private_key_pem.write_to_path(str(identity.key))
        return identity

    def _launch(self, name: str, client_port: int, peer_port: int, *joining: str, known_as: str = "") -> Member:
        own = self.issue(name)
        client, peer, data = (
            f"https://127.0.0.1:{client_port}",
            f"https://127.0.0.1:{peer_port}",
            self._folder / f"{name}.etcd",
        )
        argv: list[str | Path] = [self._program, f"--name={name}", f"--data-dir={data}", "--log-level=warn", *joining]
        argv += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        argv += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={known_as or peer}", *self._flags]
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
        argv.append("--peer-client-cert-auth")
        words = tuple(str(word) for word in argv)
        member = Member(name, client, peer, Daemon(name, argv, self._folder), data, words)
        self.members.append(member)
        member.process.start()
        return member

    def wait_healthy(self, member: Member, seconds: float = 30) -> None:
        """Waits until the member says that it has a leader."""
        context = self.client.context()
        member.process.wait_ready(lambda: healthy(member.client_url, context), seconds)

    def start(self, member: Member) -> None:
        """Starts a stopped or killed member again, with its data, and waits until it is healthy."""
        member.process.start()
        self.wait_healthy(member)

    def rename(self, member: Member, name: str) -> Member:
        """Restarts it under another member name, with its data."""
        member.process.kill()
        words = tuple(f"--name={name}" if word.startswith("--name=") else word for word in member.argv)
        daemon = Daemon(f"{member.name}-renamed", words, self._folder)
        renamed = replace(member, name=name, process=daemon, argv=words)
        self.members[self.members.index(member)] = renamed
        daemon.start()
        return renamed

    def add_learner(self, name: str, through: Callable[[int], int] = lambda port: port) -> Member:
        """Adds a learner and starts it, not waiting for it. Lasts up to 5 s: a young cluster refuses to add any.

        ``through`` gives the port by which its peers reach it, from the port where it listens.
        """
        client, port = free_ports(2)
        peer = f"https://127.0.0.1:{through(port)}"
        wait_until(lambda: self._added(name, peer), 30, f"{name} is added as a learner")
        peers = ",".join(f"{member.name}={member.peer_url}" for member in self.members)
        joining = (f"--initial-cluster={peers},{name}={peer}", "--initial-cluster-state=existing")
        return self._launch(name, client, port, *joining, known_as=peer)

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
        return etcdctl(
            (f"--endpoints={url}", f"--cacert={who.ca}", f"--cert={who.certificate}", f"--key={who.key}", *arguments)
        )

    def remove(self) -> None:
        """Ends every member and deletes its data."""
        for member in self.members:
            member.process.kill()
            shutil.rmtree(member.data, ignore_errors=True)
