"""Settings of the uplink."""

from msgspec import Struct

from beehive.config import Duration


class Config(Struct, frozen=True, kw_only=True, rename="camel"):
    """The link to the cloud."""

    servers: tuple[str, ...] = ("127.0.0.1:10000",)
    """`host:port` of the hub, tried in order; a standby turns away at once, so the next is tried."""
    identity: str = "/etc/beehive/pki"
    """Directory with `ca.crt`, `node.pem` and `identity.json`, as `beehive edge join` writes them."""
    cloud: str = ""
    """URL of the hub's HTTPS port, where the certificate is renewed; empty for where this host joined."""
    token_file: str = ""
    """File with a join token, by which a host whose certificate has expired joins again; empty: by hand only."""
    ca_file: str = ""
    """File with more CAs that may have signed the hub's certificate, PEM; empty for the CA of the identity alone."""
    proxy: str = ""
    """HTTP proxy to the hub, `http://host:port`; empty for what $HTTPS_PROXY and $NO_PROXY say."""
    project: str = "e632aba927ea4ac2b575ec1603d56f10"
    """KubeEdge's project id: part of the path, looked at by nobody."""
    heartbeat: Duration = Duration(15)
    """A sign of life is sent so often. The cloud takes a node as gone after 30s of silence. Default 15s."""
    dead_after: Duration = Duration(40)
    """A cloud that answers nothing for so long, not even a ping, is taken as gone. Default 40s."""
    connect_timeout: Duration = Duration(15)
    """For one try: TCP, TLS and upgrade together. Default 15s."""
    first_delay: Duration = Duration(0.5)
    """Before the second try; each further delay is up to twice as long, and random. Default 500ms."""
    longest_delay: Duration = Duration(30)
    """No delay is longer. Default 30s."""
    quiet_after: Duration = Duration(60)
    """A link that held for so long was good: after it the delays begin anew. Default 60s."""
    repeat: Duration = Duration(20)
    """An unacknowledged report is said again so often while the link stands. Default 20s."""
