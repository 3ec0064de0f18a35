"""What `beehive edge status` prints. Pure: what the agent said, or what its records say, in; lines out."""

from collections.abc import Iterator

from msgspec import Struct

from beehive.messages.attempts import Attempts, InHand
from beehive.messages.host import Ended, HostState
from beehive.messages.uplink import Link
from beehive.world import rfc3339
from modules.console.times import spoken

_NAME, _STATE = 12, 16
_DAY = 86400


class Seen(Struct, frozen=True, kw_only=True):
    """Of one host; also what `-o json` prints."""

    agent: str
    """Version of the agent that answered; empty: none did."""
    trouble: str
    """Why there is no agent, or what it could not say."""
    node: HostState | None
    attempts: Attempts | None
    link: Link | None


def lines(seen: Seen, now: float) -> Iterator[str]:
    """The table, a fact a line."""
    if not seen.agent:
        yield _row("agent", "does not run", f"{seen.trouble}; what follows is from its records on disk")
    elif seen.trouble:
        yield _row("agent", seen.agent, seen.trouble)
    if seen.link:
        yield _row("node", seen.link.node or "has not joined", _certificate(seen.link, now))
        yield _row("cloud", *_cloud(seen.link, now))
    if seen.node:
        yield _row("version", seen.node.version or "no answer", _service(seen.node))
    yield from _upgrade(seen, now)
    if seen.node and seen.node.last:
        yield _row("last", _last(seen.node.last))
    if seen.link:
        yield _row("reports", f"{seen.link.waiting} waiting")
    if seen.attempts and seen.attempts.fault:
        yield _row("journal", seen.attempts.fault)


def _row(name: str, state: str, more: str = "") -> str:
    return f"{name:<{_NAME}}{state:<{_STATE if more else 0}}{more}".rstrip()


def _certificate(link: Link, now: float) -> str:
    if not link.node:
        return "beehive edge join --cloud https://… --token-file FILE"
    if not link.certificate_ends:
        return ""
    left = link.certificate_ends - now
    if left <= 0:
        return f"certificate expired {spoken(-left)} ago; join again with a token: beehive edge join"
    return f"certificate good for {int(left // _DAY)} days" if left >= _DAY else f"certificate ends in {spoken(left)}"


def _cloud(link: Link, now: float) -> tuple[str, str]:
    if link.connected:
        return "connected", f"{link.url}, for {spoken(now - link.since)}"
    since = f" (for {spoken(now - link.since)})" if link.since else ""
    return "not connected", f"{link.trouble}{since}"


def _service(node: HostState) -> str:
    runs = f"active, pid {node.pid}" if node.active else "not active"
    digest = node.digest.removeprefix("sha256:")
    known = f", digest sha256:{digest[:4]}…{digest[-4:]}" if digest else ""
    return f"{node.service}.service {runs}{known}"


def _upgrade(seen: Seen, now: float) -> Iterator[str]:
    in_hand, waiting = seen.attempts and seen.attempts.in_hand, seen.node and seen.node.waiting
    if waiting:
        expires = f", expires in {spoken(in_hand.owner_left)}" if in_hand and in_hand.owner_left else ""
        asked = f"asked {spoken(now - waiting.since)} ago{expires}"
        yield _row("upgrade", f"waiting for you: job {waiting.job} wants {waiting.version} ({asked})")
        yield _row(
            "", f'beehive edge confirm {waiting.job}      or      beehive edge reject {waiting.job} --reason "…"'
        )
    elif in_hand:
        yield _row("upgrade", _in_hand(in_hand))
    elif seen.node and seen.node.holder:
        yield _row("upgrade", f"under way: {seen.node.holder}")
    else:
        yield _row("upgrade", "none")


def _in_hand(one: InHand) -> str:
    step = f"{'in' if one.begun else 'before'} {one.step}"
    before = f"{one.from_version} → " if one.from_version else ""
    reason = f"; {one.reason}" if one.reason else ""
    return f"job {one.job}, attempt {one.attempt}: {before}{one.version}, {step}{reason}"


def _last(last: Ended) -> str:
    when = rfc3339(last.at)
    reason = f": {last.reason}" if last.reason else ""
    return (
        f"{last.from_version} → {last.to_version}, {last.result}, {when[:10]} {when[11:16]} UTC, "
        f"{spoken(last.seconds)}{reason}"
    )
