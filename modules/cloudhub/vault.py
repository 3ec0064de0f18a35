"""The hub's Secrets, by compare and swap through the informer: made once, however many replicas start."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from beehive.errors import NoAnswer, PeerFailed, Refused, Unavailable
from beehive.message import Request
from beehive.messages.objects import Away, Denied, GetSecret, Patched, PutSecret
from modules.cloudhub import pki, revocations
from modules.cloudhub.config import Secrets
from modules.cloudhub.pki import Authority, Pair
from modules.cloudhub.revocations import Revocations

Ask = Callable[[Request[Any]], Awaitable[Any]]
Change = Callable[[Mapping[str, bytes]], dict[str, bytes] | None]
"""The Secret's data -> what it should be; None where it is right as it is. Called again after a lost race."""

_MOST_RACES = 20


class Vault:
    """All of it raises Unavailable when the API server is away, Refused when it or a Secret's content says no."""

    def __init__(self, ask: Ask, names: Secrets) -> None:
        self._ask = ask
        self.names = names

    async def authority(self, now: float) -> Authority:
        """The CA; made when there is none."""

        def change(data: Mapping[str, bytes]) -> dict[str, bytes] | None:
            if "cadata" in data or "cakeydata" in data:
                return None
            made = pki.make_ca(now)
            return {**data, "cadata": made.certificate, "cakeydata": made.key}

        data = await self.update(self.names.ca, change)
        return self._authority(data)

    async def change_authority(self, change: Callable[[Authority], Authority]) -> Authority:
        """Put another in its place, such as `pki.rotate` makes. Raises Refused when there is none yet."""

        def changed(data: Mapping[str, bytes]) -> dict[str, bytes]:
            made = change(self._authority(data))
            rest = {"trusted": b"".join(made.trusted), "crosses": b"".join(made.crosses)}
            return {**data, "cadata": made.ca.certificate, "cakeydata": made.ca.key, **rest}

        return self._authority(await self.update(self.names.ca, changed))

    def _authority(self, data: Mapping[str, bytes]) -> Authority:
        ca = Pair(data.get("cadata", b""), data.get("cakeydata", b""))
        try:
            pki.check_ca(ca)
            rest = [pki.split(data.get(key, b"")) for key in ("trusted", "crosses")]
        except Refused as refusal:
            raise Refused(f"the Secret {self.names.ca} holds no usable CA: {refusal}") from None
        return Authority(ca, *rest)

    async def revocations(self) -> Revocations:
        """Which certificates count no more."""
        return revocations.read(await self.update(self.names.revoked, lambda _: None))

    async def server(self, ca: Pair, advertised: tuple[str, ...], now: float) -> Pair:
        """The hub's own certificate; made anew when it does not cover these names or its life ends."""

        def pair(data: Mapping[str, bytes]) -> Pair:
            return Pair(data.get("cloudcoredata", b""), data.get("cloudcorekeydata", b""))

        def change(data: Mapping[str, bytes]) -> dict[str, bytes] | None:
            if pki.is_good_server(ca, pair(data), advertised, now):
                return None
            made = pki.make_server(ca, advertised, now)
            return {**data, "cloudcoredata": made.certificate, "cloudcorekeydata": made.key}

        return pair(await self.update(self.names.server, change))

    async def update(self, name: str, change: Change) -> Mapping[str, bytes]:
        """Change a Secret, whoever else changes it at the same time; gives what stands there in the end."""
        for _ in range(_MOST_RACES):
            found = await self._asked(GetSecret(name=name))
            if isinstance(found, Away):
                raise Unavailable(found.reason)
            wanted = change(found.data)
            if wanted is None:
                data: Mapping[str, bytes] = found.data
                return data
            answer = await self._asked(PutSecret(name=name, data=wanted, resource_version=found.resource_version))
            if isinstance(answer, Patched):
                return wanted
            if isinstance(answer, Away):
                raise Unavailable(answer.reason)
            if isinstance(answer, Denied):
                raise Refused(f"the API server refuses to write the Secret {name}: {answer.reason}")
        raise Unavailable(f"the Secret {name} changes too often")

    async def _asked(self, request: Request[Any]) -> Any:
        try:
            return await self._ask(request)
        except (NoAnswer, PeerFailed) as error:
            raise Unavailable(str(error)) from None
