"""The hub's Secrets: made once, whoever else writes; and what to say when they cannot be had."""

from typing import Any

import pytest

from beehive.errors import PeerFailed, Refused, Unavailable
from beehive.message import Request
from beehive.messages.objects import GetSecret, PutSecret
from modules.cloudhub.config import Secrets as Names
from modules.cloudhub.vault import Vault
from tests.modules.cloudhub.ends import Secrets

NOW = 1767225600.0


def vault(secrets: Secrets, between: Any = None) -> Vault:
    """`between` happens after each read: the moment in which others write."""

    async def ask(request: Request[Any]) -> Any:
        if isinstance(request, GetSecret):
            answer = secrets.get(request)
            if between:
                between()
            return answer
        assert isinstance(request, PutSecret)
        return secrets.put(request)

    return Vault(ask, Names())


async def test_the_ca_is_made_once() -> None:
    secrets = Secrets()
    made = await vault(secrets).authority(NOW)
    assert await vault(secrets).authority(NOW + 1) == made
    assert secrets.writes == 1
    assert set(secrets.stored["beehive-ca"][1]) == {"cadata", "cakeydata"}


async def test_who_loses_the_race_takes_the_winners_ca() -> None:
    secrets = Secrets()
    winners: list[Any] = []
    racing = False

    def win() -> None:
        nonlocal racing
        if not racing:
            racing = True
            secrets.stored["beehive-ca"] = (1, dict(winner.stored["beehive-ca"][1]))

    winner = Secrets()
    winners.append(await vault(winner).authority(NOW))
    assert await vault(secrets, win).authority(NOW) == winners[0]
    assert secrets.writes == 0


async def test_a_secret_that_never_stands_still() -> None:
    secrets = Secrets()

    def meddle() -> None:
        version, _ = secrets.stored.get("beehive-ca", (0, {}))
        secrets.stored["beehive-ca"] = (version + 1, {})

    with pytest.raises(Unavailable, match="changes too often"):
        await vault(secrets, meddle).authority(NOW)


async def test_the_server_certificate_follows_the_advertised_addresses() -> None:
    secrets = Secrets()
    box = vault(secrets)
    ca = (await box.authority(NOW)).ca
    first = await box.server(ca, ("10.0.0.1",), NOW)
    assert await box.server(ca, ("10.0.0.1",), NOW) == first
    assert await box.server(ca, ("10.0.0.1", "10.0.0.2"), NOW) != first
    assert secrets.writes == 3


async def test_a_damaged_ca_is_never_replaced_by_itself() -> None:
    """Every edge would have to join again."""
    secrets = Secrets()
    secrets.stored["beehive-ca"] = (1, {"cadata": b"x", "cakeydata": b"y"})
    with pytest.raises(Refused, match="the Secret beehive-ca holds no usable CA"):
        await vault(secrets).authority(NOW)
    assert secrets.writes == 0


async def test_away_and_denied() -> None:
    secrets = Secrets()
    secrets.denied = "forbidden"
    with pytest.raises(Refused, match="refuses to write the Secret beehive-ca: forbidden"):
        await vault(secrets).authority(NOW)
    secrets.away = "connection refused"
    with pytest.raises(Unavailable, match="connection refused"):
        await vault(secrets).authority(NOW)


async def test_an_informer_that_fails_may_come_back() -> None:
    async def ask(_request: Request[Any]) -> Any:
        raise PeerFailed("informer failed")

    with pytest.raises(Unavailable, match="informer failed"):
        await Vault(ask, Names()).authority(NOW)
