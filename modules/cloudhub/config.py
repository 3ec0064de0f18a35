"""Settings of the hub."""

from msgspec import Struct

from beehive.config import Duration, Port


class Listen(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a port listens."""

    address: str = "0.0.0.0"  # noqa: S104 - a hub is there to be reached
    """Address of this host to listen on; `::` for IPv6."""
    port: Port = 0
    """TCP port; 0 asks the kernel for a free one, and the log says which."""


class Websocket(Listen, frozen=True, kw_only=True, rename="camel"):
    """The port on which edges are connected."""

    port: Port = 10000


class Https(Listen, frozen=True, kw_only=True, rename="camel"):
    """The port where edges join and renew their certificates."""

    port: Port = 10002


class Secrets(Struct, frozen=True, kw_only=True, rename="camel"):
    """Names of the Secrets, in the namespace of this process. KubeEdge's are `casecret` and `cloudcoresecret`."""

    ca: str = "beehive-ca"
    """Holds `cadata` and `cakeydata`, DER. With KubeEdge's own Secret here its edges need no new certificate."""
    server: str = "beehive-hub"
    """Holds `cloudcoredata` and `cloudcorekeydata`, DER."""
    tokens: str = "beehive-tokens"
    """Holds the key that signs join tokens, and what is known of each token."""
    revoked: str = "beehive-revoked"
    """Holds the list of nodes whose certificates count no more; there may be none."""


class Config(Struct, frozen=True, kw_only=True, rename="camel"):
    """The edge-facing sockets."""

    websocket: Websocket = Websocket()
    https: Https = Https()
    secrets: Secrets = Secrets()
    advertise: tuple[str, ...] = ("127.0.0.1", "localhost")
    """Addresses and DNS names under which edges reach this hub; they become the SANs of its certificate."""
    keepalive: Duration = Duration(30)
    """A node that says nothing for so long is taken as gone. Edges say something every 15 s. Default 30s."""
    certificate_lifetime: Duration = Duration(365 * 86400)
    """How long an edge's certificate is good. Default 365d."""
    unread: Duration = Duration(30)
    """A node that does not read what it is told for so long is cut off. Default 30s."""
    handshakes: int = 256
    """So many connections are received at once on the websocket's port; the others wait. Default 256."""
    handshakes_per_address: int = 64
    """So many of them may come from one address (a site behind NAT is one). Default 64."""
    messages_per_second: float = 100.0
    """A node that says more, for longer than `message_burst` allows, is read more slowly; nothing is dropped."""
    message_burst: int = 500
    """So many messages at once cost nothing. Default 500."""
    handshake_timeout: Duration = Duration(15)
    """Time for TLS, and again for the websocket's upgrade. Default 15s."""
