"""Who may join and who may stay, as an operator decides it: in the hub's Secrets, by compare and swap."""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from beehive.errors import Refused
from beehive.message import Request
from beehive.messages.objects import GetSecret, PutSecret
from beehive.world import World
from modules.cloudhub import identity, pki, revocations, tokens
from modules.cloudhub.config import Config as HubConfig
from modules.cloudhub.pki import Authority
from modules.cloudhub.revocations import Revocation
from modules.cloudhub.tokens import Token
from modules.cloudhub.vault import Vault
from modules.informer.client import Client
from modules.informer.config import Config as ApiConfig
from modules.informer.connection import Connection
from modules.informer.others import Others


class Desk:
    """Tokens are handed out here, certificates called back, the CA replaced.

    All of it raises Unavailable or Refused with a sentence.
    """

    def __init__(self, vault: Vault, world: World) -> None:
        self._vault, self._world = vault, world

    async def create(self, node: str, uses: int, lifetime: float) -> str:
        """A new token for `uses` nodes (0: any number), or for one `node` only, good for `lifetime` seconds."""
        ca = (await self._vault.authority(self._world.now())).ca
        token = Token(id=self._world.new_id(), expires=self._world.now() + lifetime, node=node, uses=uses)
        made: list[str] = []

        def change(data: Mapping[str, bytes]) -> dict[str, bytes]:
            book, text = tokens.create(self._book(data), token, ca.certificate)
            made.append(text)
            return tokens.write(book, self._world.now())

        await self._vault.update(self._vault.names.tokens, change)
        return made[-1]

    async def all(self) -> tuple[Token, ...]:
        """What is known of every token; never the token itself."""
        found: list[Token] = []

        def look(data: Mapping[str, bytes]) -> None:
            book = tokens.read(data)
            found[:] = book.tokens if book else ()

        await self._vault.update(self._vault.names.tokens, look)
        return tuple(found)

    async def revoke(self, token_id: str) -> None:
        """From now on nobody joins with it. Raises Refused when there is none of this id."""

        def change(data: Mapping[str, bytes]) -> dict[str, bytes]:
            book = tokens.read(data)
            if book is None:
                raise Refused("no join token was ever made: beehive token create")
            return tokens.write(tokens.revoke(book, token_id), self._world.now())

        await self._vault.update(self._vault.names.tokens, change)

    # ---- certificates ------------------------------------------------------------------------------------------

    async def revoke_node(self, node: str, reason: str) -> None:
        """What this node has counts no more; with a new token it may join again."""
        identity.common_name(node)

        def change(data: Mapping[str, bytes]) -> dict[str, bytes]:
            return revocations.write(revocations.read(data).revoke(node, self._world.now(), reason))

        await self._vault.update(self._vault.names.revoked, change)

    async def revoked(self) -> tuple[Revocation, ...]:
        """Whose certificates count no more."""
        return (await self._vault.revocations()).all()

    async def authority(self) -> Authority:
        """The CA, and the earlier ones that are still believed."""
        return await self._vault.authority(self._world.now())

    async def rotate(self) -> Authority:
        """Make a new CA; the present one is believed until `retire`."""
        await self.authority()
        return await self._vault.change_authority(lambda one: pki.rotate(one, self._world.now()))

    async def retire(self) -> Authority:
        """Believe the earlier CAs no more. Raises Refused when there is none."""

        def change(one: Authority) -> Authority:
            if not one.trusted:
                raise Refused("there is no earlier CA to retire: beehive ca rotate makes a new one")
            return pki.retire(one)

        return await self._vault.change_authority(change)

    @staticmethod
    def _book(data: Mapping[str, bytes]) -> tokens.Book:
        return tokens.read(data) or tokens.Book(secrets.token_bytes(tokens.KEY_BYTES))


@asynccontextmanager
async def open_desk(api: ApiConfig, hub: HubConfig, world: World) -> AsyncIterator[Desk]:
    """The desk of the cluster that the configuration names."""
    async with Connection(api) as connection:
        others = Others(Client(connection, float(api.request_timeout)), api.namespace)

        async def ask(request: Request[Any]) -> Any:
            if isinstance(request, GetSecret):
                return await others.get_secret(request)
            if isinstance(request, PutSecret):
                return await others.put_secret(request)
            raise TypeError(f"the desk does not ask {type(request).__name__}")

        yield Desk(Vault(ask, hub.secrets), world)
