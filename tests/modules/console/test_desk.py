"""The operator's desk: tokens, revoked certificates, the CA; on Secrets in memory, with compare and swap."""

from typing import Any

import pytest

from beehive.errors import Refused
from beehive.messages.objects import PutSecret
from beehive.world import World
from modules.cloudhub import pki, tokens
from modules.cloudhub.config import Secrets as Names
from modules.cloudhub.tokens import Use
from modules.cloudhub.vault import Vault
from modules.console.tokens import Desk
from tests.modules.cloudhub.ends import Secrets

NOW = 1_800_000_000.0


def desk(secrets: Secrets) -> Desk:
    async def ask(request: Any) -> Any:
        return secrets.put(request) if isinstance(request, PutSecret) else secrets.get(request)

    numbers = iter(range(1000))
    return Desk(Vault(ask, Names()), World(now=lambda: NOW, new_id=lambda: f"id-{next(numbers)}"))


def book(secrets: Secrets) -> tokens.Book:
    found = tokens.read(secrets.stored["beehive-tokens"][1])
    assert found is not None
    return found


async def test_a_token_is_good_until_it_is_revoked_and_is_itself_kept_nowhere() -> None:
    secrets = Secrets()
    ours = desk(secrets)
    text = await ours.create("edge-a", 1, 3600.0)
    jwt = text.partition(".")[2]
    assert tokens.redeem(book(secrets), jwt, Use("edge-a", "key"), NOW) is not None
    assert jwt not in str(secrets.stored)
    (known,) = await ours.all()
    assert (known.id, known.node, known.uses, known.expires) == ("id-0", "edge-a", 1, NOW + 3600)
    await ours.revoke(known.id)
    with pytest.raises(Refused, match="the token was revoked"):
        tokens.redeem(book(secrets), jwt, Use("edge-a", "key"), NOW)
    with pytest.raises(Refused, match="there is no join token 'id-0'"):
        await ours.revoke("id-0")


async def test_before_the_first_token_there_is_none_to_revoke() -> None:
    with pytest.raises(Refused, match="beehive token create"):
        await desk(Secrets()).revoke("x")
    assert await desk(Secrets()).all() == ()


async def test_a_node_is_revoked_with_its_reason_and_others_stay_in_the_list() -> None:
    secrets = Secrets()
    ours = desk(secrets)
    assert await ours.revoked() == ()
    await ours.revoke_node("edge-b", "stolen")
    await ours.revoke_node("edge-a", "")
    assert [(one.node, one.before, one.reason) for one in await ours.revoked()] == [
        ("edge-a", NOW + 1, ""),
        ("edge-b", NOW + 1, "stolen"),
    ]
    with pytest.raises(Refused, match="cannot be the name of a node"):
        await ours.revoke_node("Edge_A", "")


async def test_a_list_that_cannot_be_read_is_not_overwritten() -> None:
    secrets = Secrets()
    secrets.write("beehive-revoked", {"revoked": b"{"})
    with pytest.raises(Refused, match="cannot be read"):
        await desk(secrets).revoke_node("edge-a", "")
    assert secrets.stored["beehive-revoked"][1] == {"revoked": b"{"}


async def test_a_ca_is_rotated_more_than_once_and_retired_at_once() -> None:
    secrets = Secrets()
    ours = desk(secrets)
    first = (await ours.authority()).ca
    second = (await ours.rotate()).ca
    made = await ours.rotate()
    assert made.trusted == (second.certificate, first.certificate)
    assert len(made.crosses) == 2
    assert await ours.authority() == made
    for pair in (first, second, made.ca):
        pki.check_ca(pair)
    assert await ours.retire() == pki.Authority(made.ca)
    with pytest.raises(Refused, match="there is no earlier CA to retire"):
        await ours.retire()
    assert await ours.authority() == pki.Authority(made.ca)
