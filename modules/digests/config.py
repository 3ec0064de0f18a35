"""Section `digests`: which registries the cloud may ask for digests."""

import re
from collections.abc import Iterator

from msgspec import Struct

from beehive.api.limits import REGISTRY_HOST
from beehive.config import Duration
from beehive.config import checked as judged
from modules.digests.question import address

_HOST = re.compile(REGISTRY_HOST)


class Config(Struct, frozen=True, kw_only=True, rename="camel"):
    """Whoever may create jobs must not thereby send requests of this process anywhere: no registry is asked that is not
    listed."""

    hosts: tuple[str, ...] = ()
    """Registries that may be asked over HTTPS: `registry.example.org`, `10.0.0.5:5000`. Exact names; default none."""
    ca_file: str = ""
    """PEM of the CAs of their certificates, instead of the system's. Read at each look-up."""
    timeout: Duration = Duration(20)
    """How long one look-up may take in all; default 20s."""

    def allows(self, host: str) -> bool:
        """May this registry be asked?"""
        return address(host) in {address(one) for one in self.hosts}

    def problems(self) -> Iterator[tuple[str, str]]:
        """Field and what is wrong with it."""
        for host in self.hosts:
            if not _HOST.fullmatch(host):
                yield (
                    "hosts",
                    f"{host[:60]!r} is no host; write registry.example.org or 10.0.0.5:5000, without a scheme",
                )
        if self.timeout <= 0:
            yield "timeout", "must be more than 0s"


def checked(config: Config) -> Config:
    """The configuration. Raises ConfigError with every problem."""
    return judged(config, "digests")
