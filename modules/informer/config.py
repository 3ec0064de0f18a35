"""Settings of the informer."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from msgspec import Struct

from beehive.config import Duration
from beehive.config import checked as judged


class Lease(Struct, frozen=True, kw_only=True, rename="camel"):
    """The Lease by which one process is chosen to plan, dispatch and write."""

    name: str = "beehive"
    """Name of the Lease in our namespace."""
    identity: str = ""
    """How this process calls itself in the Lease; default: the host's name and a random id of this process."""
    duration: Duration = Duration(15)
    """Others take over when a holder was silent for this long; at least 1s, rounded up to whole seconds."""
    renew_deadline: Duration = Duration(10)
    """The holder stops writing when it could not renew for this long; less than `duration`. Default 10s."""
    retry_period: Duration = Duration(2)
    """Time between two looks at the Lease, and between two renewals. Default 2s."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Settings that do not fit each other."""
        if not 0 < self.retry_period < self.renew_deadline < self.duration:
            yield "duration", "retryPeriod must be less than renewDeadline, and that less than duration"
        if self.duration < 1:
            yield "duration", "must be at least 1s"


class Config(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where kube-apiserver is, who we are there, and how patient we are with it.

    Without `server` and `kubeconfig`: the Pod's own ServiceAccount, else `$KUBECONFIG`, else `~/.kube/config`.
    """

    server: str = ""
    """URL of kube-apiserver, such as `https://10.0.0.1:6443`; then `tokenFile` and `caFile` say how to reach it."""
    token_file: str = ""
    """File with a bearer token, read again when it changes; only with `server`."""
    ca_file: str = ""
    """File with the CA certificates that kube-apiserver's certificate must come from; default: the system's."""
    kubeconfig: str = ""
    """A kubeconfig file, instead of `server`."""
    context: str = ""
    """A context in the kubeconfig; default: its current one."""
    namespace: str = "kubeedge"
    """Where our Secrets and our Lease are."""
    pod: str = ""
    """Name of the Pod of this process; then its label `beehive/role` says whether it leads, and the hub's Service
    selects by it. Empty outside a cluster."""
    leader_election: bool = True
    """False: this process leads without asking; only where no second one can exist."""
    lease: Lease = Lease()
    request_timeout: Duration = Duration(8)
    """A request that was not answered after this counts as unanswered. Default 8s."""
    list_timeout: Duration = Duration(60)
    """The same for one page of a list. Default 60s."""
    watch_timeout: Duration = Duration(30)
    """A watch is renewed after this; half of it more without a byte and the connection counts as dead. Default 30s."""
    writes: int = 64
    """Writes to Nodes in flight at once."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Settings that do not fit each other."""
        if self.server and self.kubeconfig:
            yield "server", "give server or kubeconfig, not both"
        if self.server and not _is_url(self.server):
            yield "server", f'"{self.server}" is not the URL of an API server; write one like https://10.0.0.1:6443'
        if (self.token_file or self.ca_file) and not self.server:
            yield "server", "tokenFile and caFile need it; give the URL"
        if self.writes < 1:
            yield "writes", "must be at least 1"
        for name in ("request_timeout", "list_timeout", "watch_timeout"):
            if getattr(self, name) < 0.1:
                first, _, second = name.partition("_")
                yield f"{first}{second.title()}", "must be at least 100ms"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def checked(config: Config) -> Config:
    """The same, if its settings fit each other. Raises ConfigError with all problems."""
    return judged(config, "informer")
