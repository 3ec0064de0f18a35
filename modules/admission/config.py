"""Settings of the section `admission`."""

from msgspec import Struct

from beehive.config import Duration, Port


class Files(Struct, frozen=True, kw_only=True, rename="camel"):
    """A certificate that somebody else makes and renews, as PEM files; all three or none."""

    certificate: str = ""
    """The server's certificate, with intermediates."""
    key: str = ""
    """Its private key."""
    ca: str = ""
    """The CA that the API server is to trust."""


class Register(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the API server reaches this webhook. With neither `service` nor `url` nothing is registered here."""

    name: str = "beehive"
    """Name of the ValidatingWebhookConfiguration and the MutatingWebhookConfiguration (`configs/webhooks.yaml`). Their
    webhooks are kept right, and so is the address of the conversion in the CRD."""
    service: str = ""
    """Name of the Service in front of this process, for a cloud inside the cluster."""
    namespace: str = "kubeedge"
    """Namespace of that Service."""
    service_port: Port = 443
    """Port of that Service."""
    url: str = ""
    """`https://host:port` instead, for a cloud outside the cluster."""


class Config(Struct, frozen=True, kw_only=True, rename="camel"):
    """The webhook's socket and certificate."""

    address: str = "0.0.0.0"  # noqa: S104 - the API server is elsewhere
    """Address of this host to listen on; `::` for IPv6."""
    port: Port = 9443
    """TCP port; 0 asks the kernel for a free one, and the log says which."""
    names: tuple[str, ...] = ("127.0.0.1", "localhost")
    """Addresses and DNS names for the certificate, beside the Service's."""
    secret: str = "beehive-admission"  # noqa: S105 - the Secret's name
    """Secret, in the namespace of this process, that holds `ca.crt`, `ca.key`, `tls.crt`, `tls.key`; made when there is
    none."""
    files: Files = Files()
    """Used instead of the Secret."""
    lifetime: Duration = Duration(365 * 86400)
    """How long a certificate is good; it is renewed after two thirds of that; default 365d."""
    look: Duration = Duration(60)
    """Pause between two looks at the certificate and the registration; default 1m."""
    retry_first: Duration = Duration(1)
    """Pause after the API server was away; doubles up to `retryCap`; default 1s."""
    retry_cap: Duration = Duration(30)
    """The longest such pause; default 30s."""
    register: Register = Register()
    """How the API server learns of this webhook."""
