"""Section `etcdmanager`: which etcd, with which certificates, how often, and who may act."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from msgspec import Struct

from beehive.config import Duration
from beehive.config import checked as judged


class Config(Struct, frozen=True, kw_only=True, rename="camel"):
    """Without endpoints the module looks at nothing.

    In the cluster one process, the holder of the Lease, acts. One process per server (K3s: the etcd of each server
    listens on its own address) acts where `localEndpoint` names the member that leads; then `informer.leaderElection`
    is false.
    """

    endpoints: tuple[str, ...] = ()
    """Client URLs such as `https://10.0.0.1:2379` or `https://[fd00::1]:2379`; all are asked for the member list."""
    local_endpoint: str = ""
    """Client URL of the member on this server; then this process acts only while that member leads."""
    ca_file: str = ""
    """PEM of the CA of the members' certificates; K3s: `/var/lib/rancher/k3s/server/tls/etcd/server-ca.crt`."""
    cert_file: str = ""
    """PEM of our client certificate; K3s: `…/tls/etcd/client.crt`. Read again when it changes."""
    key_file: str = ""
    """PEM of its key; K3s: `…/tls/etcd/client.key`."""
    http_url: str = ""
    """Where the leader's `/debug/vars` is when it is not at its client URL; `{host}` stands for the leader's host.
    K3s serves it on loopback only: `https://127.0.0.1:2382` with `localEndpoint`."""
    annotations: str = "etcd.k3s.cattle.io"
    """Prefix of the annotations on Nodes (`…/node-name` names the member, `…/remove` asks for its removal); RKE2:
    `etcd.rke2.cattle.io`."""
    name_annotation: str = ""
    """Annotation that names the member, where it is not `node-name` of that prefix. `metadata.name` takes the Node's
    own name, as kubeadm's members are called."""
    progress_key: str = "k3s/etcd/learnerProgress"
    """Key of the progress record that K3s reads and writes; RKE2: `rke2/etcd/learnerProgress`."""
    observe_only: bool = False
    """True: say what is, and never promote, remove or write a condition."""
    report: str = "kubeedge/beehive-etcd"
    """Namespace and name of the ConfigMap that holds the verdict (`beehive etcd status` reads it); empty: none."""
    period: Duration = Duration(15)
    """From the start of one pass to the start of the next; default 15s."""
    probe_timeout: Duration = Duration(2)
    """How long one member may take to answer; default 2s."""
    heartbeat: Duration = Duration(300)
    """An unchanged condition is written again when it is this old; default 5m."""
    stall: Duration = Duration(300)
    """A learner that made no progress for longer than this is removed; default 5m."""
    promotion_lag: int = 1000
    """Log entries that a learner may lag behind and still be promoted."""

    @property
    def member_annotation(self) -> str:
        """Which annotation names the member."""
        return self.name_annotation or f"{self.annotations}/node-name"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Settings that do not fit each other."""
        for url in (*self.endpoints, *((self.local_endpoint,) if self.local_endpoint else ())):
            if not url.startswith(("https://", "http://")):
                yield "endpoints", f'"{url}" is not a client URL of etcd; write one like https://10.0.0.1:2379'
        if self.http_url and not _is_http(self.http_url.replace("{host}", "127.0.0.1")):
            yield "httpUrl", f'"{self.http_url}" is no address; write one like https://127.0.0.1:2382'
        if bool(self.cert_file) != bool(self.key_file):
            yield "certFile", "certFile and keyFile belong together; give both or neither"
        if self.cert_file and not self.ca_file:
            yield "caFile", "a client certificate needs it; give the CA of the members' certificates"
        if self.local_endpoint and not self.endpoints:
            yield "localEndpoint", "needs endpoints; give it there too"
        if not 0.05 <= self.probe_timeout <= 5:
            yield "probeTimeout", "must be from 50ms to 5s, below etcd's own limit of 7s"
        if self.period < 0.1:
            yield "period", "must be at least 100ms"
        if self.heartbeat < self.period:
            yield "heartbeat", "must not be less than period"
        if self.stall < self.period:
            yield "stall", "must not be less than period"
        if self.promotion_lag < 1:
            yield "promotionLag", "must be at least 1"
        if self.report and self.report.count("/") != 1:
            yield "report", f'"{self.report}" is not NAMESPACE/NAME; write one like kubeedge/beehive-etcd'


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(_HOST.fullmatch(parts.hostname or "")) and bool(parts.port)
    except ValueError:
        return False


_HOST = re.compile(r"[A-Za-z0-9._:-]+")
OWN_NAME = "metadata.name"


def checked(config: Config) -> Config:
    """The same, if its settings fit each other. Raises ConfigError with all problems."""
    return judged(config, "etcdmanager")
