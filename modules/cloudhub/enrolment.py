"""Who gets a certificate: by a join token, or by the one that the same node has (spec/kubeedge.md 5.8, 5.10)."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from beehive.errors import Refused, Unavailable
from beehive.world import World
from modules.cloudhub import identity, pki, tokens
from modules.cloudhub.keyring import Keyring
from modules.cloudhub.vault import Vault

log = logging.getLogger(__name__)


Say = Callable[[str, str], None]
"""Logs a sentence about somebody, at most once a minute about each."""


class Issued(Struct, frozen=True):
    """A certificate in DER, or a status and a sentence."""

    certificate: bytes = b""
    status: int = 200
    text: str = ""


class Enrolment:
    """Signs what the caller may be, and nothing else."""

    def __init__(
        self, vault: Vault, keyring: Keyring, world: World, lifetime: float, counters: Counter[str], say: Say
    ) -> None:
        self._keyring = keyring
        self._world = world
        self._vault = vault
        self._lifetime = lifetime
        self._counters = counters
        self._say = say
        self._one_at_a_time = asyncio.Lock()
        """Token uses are counted by compare and swap: we need not race against ourselves."""

    async def edge(self, authorization: str, node: str, csr: bytes, certificate: Mapping[str, Any] | None) -> Issued:
        """The answer to `GET /edge.crt`."""
        try:
            identity.common_name(node)
            use = tokens.Use(node, pki.fingerprint(csr))
        except Refused as refusal:
            return self._refuse(400, node, f"failed to sign certs for edgenode {node[:60]}, err: {refusal}")
        try:
            if certificate and not authorization:
                self._same_node(certificate, node)
            else:
                await self._redeem(tokens.bearer(authorization), use)
        except Refused as refusal:
            return self._refuse(401, node, refusal.reason)
        except Unavailable as trouble:
            return self._refuse(503, node, f"the API server is away: {trouble}")
        self._counters["certificates"] += 1
        log.info("node %s has a new certificate", node)
        authority = self._keyring.authority
        assert authority is not None
        begins = self._keyring.revocations.not_before(node)
        return Issued(pki.sign_node(authority.ca, csr, node, self._world.now(), self._lifetime, begins))

    def _same_node(self, certificate: Mapping[str, Any], node: str) -> None:
        try:
            identity.check_claim(identity.node_of(certificate), node)
            self._keyring.revocations.check(node, identity.lifetime_of(certificate)[0])
        except Refused as refusal:
            raise Refused(f"failed to verify the certificate for edgenode: {node}, err: {refusal}") from None

    async def _redeem(self, text: str, use: tokens.Use) -> None:
        def change(data: Mapping[str, bytes]) -> dict[str, bytes] | None:
            now = self._world.now()
            book = tokens.read(data)
            noted = tokens.redeem(book, text, use, now)
            return None if noted is book else tokens.write(noted, now)

        async with self._one_at_a_time:
            await self._vault.update(self._vault.names.tokens, change)

    def _refuse(self, status: int, node: str, text: str) -> Issued:
        self._counters[f"enrolment_{status}"] += 1
        self._say(f"certificate {node[:60]}", f"a certificate for node {node[:60]!r} was refused ({status}): {text}")
        return Issued(b"", status, text)
