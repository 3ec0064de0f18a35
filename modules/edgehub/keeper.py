"""Keeps the identity of this host good: renews it, or joins again with a token after it has expired."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from beehive.backoff import doubling
from beehive.errors import BeehiveError, Refused, Unavailable
from beehive.world import World, rfc3339
from modules.edgehub import identity, renewal
from modules.edgehub.config import Config
from modules.edgehub.identity import About
from modules.edgehub.renewal import OtherCa, What

log = logging.getLogger(__name__)

_LOOK = 60.0
"""Seconds: the wall clock may jump, so nobody sleeps for months."""
_FIRST_DELAY, _LONGEST_DELAY = 30.0, 3600.0


class Keeper:
    """`renewed` is called when a new certificate lies on the disk."""

    def __init__(self, config: Config, world: World, counters: Counter[str], renewed: Callable[[], None]) -> None:
        self.trouble = ""
        """What is wrong with the identity, as a phrase; empty when nothing is."""
        self._config, self._world, self._counters, self._renewed = config, world, counters, renewed
        self._directory = Path(config.identity)
        self._draw = world.random()
        self._other: OtherCa | None = None
        self._news = asyncio.Event()

    def cloud_has(self, ca: str) -> None:
        """The cloud said which CA it has; empty when it did not say."""
        if ca and (self._other is None or self._other.digest != ca):
            self._other = OtherCa(ca, self._world.now())
            self._news.set()

    async def run(self) -> None:
        """For ever."""
        delays = doubling(_FIRST_DELAY, _LONGEST_DELAY)
        while True:
            try:
                about = identity.read(self._directory)
                what = renewal.decide(about, self._world.now(), self._draw, self._other)
                if what is not What.WAIT:
                    await self._do(what, about)
                self.trouble = ""
                pause = self._until_due()
                delays = doubling(_FIRST_DELAY, _LONGEST_DELAY)
            except BeehiveError as trouble:
                self._complain(str(trouble))
                pause = next(delays) * (0.5 + self._world.random() / 2)
            await self._sleep(pause)

    def _until_due(self) -> float:
        about = identity.read(self._directory)
        left = renewal.due(about, self._draw, self._other) - self._world.now()
        return min(_LOOK, max(0.05, left)) if about.ends else _LOOK

    async def _sleep(self, seconds: float) -> None:
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def _complain(self, trouble: str) -> None:
        if not trouble.startswith("there is no"):  # who has not joined yet is told so where it is dialled
            if trouble != self.trouble:
                log.warning("%s", trouble)
            self.trouble = trouble
            self._counters["renewal_failures"] += 1

    async def _do(self, what: What, about: About) -> None:
        from modules.edgehub import join  # noqa: PLC0415 - certificates only when they are made

        config = self._config
        try:
            if what is What.RENEW:
                _, context = identity.load(self._directory, self._world.now(), config.ca_file)
                await join.renew(self._directory, config.cloud, join.Through(context, proxy=config.proxy))
            else:
                url, token = config.cloud or about.cloud, self._token(about)
                await join.join(url, token, about.node, self._directory, proxy=config.proxy)
        except (Refused, Unavailable) as trouble:
            until = f"its certificate ends at {rfc3339(about.ends)}"
            raise Unavailable(f"{until} and cannot be renewed: {trouble}") from None
        self._counters["renewals"] += 1
        log.info("%s has a new certificate", about.node)
        self._renewed()

    def _token(self, about: About) -> str:
        if not self._config.token_file:
            raise Refused("it has expired; run `beehive edge join` on this host, or set edgehub.tokenFile")
        try:
            return Path(self._config.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"the token for {about.node} cannot be read: {error}") from None
