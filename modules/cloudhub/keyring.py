"""The hub's certificates of the hour, and which of the nodes' count no more."""

import hashlib
import logging
import ssl

from beehive.world import World
from modules.cloudhub import pki
from modules.cloudhub.config import Config
from modules.cloudhub.pki import Authority
from modules.cloudhub.revocations import Revocations
from modules.cloudhub.tls import Contexts
from modules.cloudhub.vault import Vault

log = logging.getLogger(__name__)


class Keyring:
    """What the Secrets say; `load` reads them again."""

    def __init__(self, vault: Vault, config: Config, world: World) -> None:
        self.authority: Authority | None = None
        self.revocations = Revocations()
        self.websocket = Contexts(ssl.CERT_REQUIRED)
        self.https = Contexts(ssl.CERT_OPTIONAL)
        self._vault, self._config, self._world = vault, config, world
        self._server: bytes = b""
        self.ends: dict[str, float] = {}
        """Until when the CA (`hub_ca`) and the hub's own certificate (`hub`) are good, in seconds since the epoch."""

    @property
    def names(self) -> tuple[str, ...]:
        """The Secrets that it is made of."""
        secrets = self._config.secrets
        return secrets.ca, secrets.server, secrets.revoked

    def generation(self) -> str:
        """Names the CA that signs now, so that nodes learn of another one."""
        return hashlib.sha256(self.authority.ca.certificate).hexdigest() if self.authority else ""

    async def load(self) -> bool:
        """Read all; renew the hub's certificate when it is due. True: a CA that was believed is believed no more.

        Raises Unavailable, or Refused for Secrets that cannot be used; then everything stays as it was.
        """
        now = self._world.now()
        revoked = await self._vault.revocations()
        authority = await self._vault.authority(now)
        server = await self._vault.server(authority.ca, self._config.advertise, now)
        before, self.revocations = self.authority, revoked
        if authority == before and server.certificate == self._server:
            return False
        for contexts in (self.websocket, self.https):
            contexts.use(authority, server)
        self.authority, self._server = authority, server.certificate
        self.ends = {"hub_ca": pki.end_of(authority.ca.certificate), "hub": pki.end_of(server.certificate)}
        if before is None:
            return False
        log.info("the hub has a new certificate, or trusts other CAs than before")
        return not _believed(before) <= _believed(authority)


def _believed(authority: Authority) -> set[bytes]:
    return {authority.ca.certificate, *authority.trusted}
