"""Section `etcdmanager`: which etcd, with which certificates, how often."""

from msgspec import Struct

from beehive.config import Duration


class Config(Struct, frozen=True, kw_only=True, rename="camel"):
    """Without endpoints the module looks at nothing."""

    endpoints: tuple[str, ...] = ()
    """Client URLs such as `https://10.0.0.1:2379`; asked in order for the member list."""
    ca_file: str = ""
    """PEM of the CA of the members' certificates; K3s: `/var/lib/rancher/k3s/server/tls/etcd/server-ca.crt`."""
    cert_file: str = ""
    """PEM of our client certificate."""
    key_file: str = ""
    """PEM of its key."""
    name_annotation: str = "etcd.k3s.cattle.io/node-name"
    """Annotation on a Node that names its member; RKE2: `etcd.rke2.cattle.io/node-name`."""
    period: Duration = Duration(15)
    """From the start of one pass to the start of the next; default 15s."""
    probe_timeout: Duration = Duration(2)
    """How long one member may take to answer; default 2s."""
    heartbeat: Duration = Duration(300)
    """An unchanged condition is written again when it is this old; default 5m."""
