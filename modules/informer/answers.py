"""What an HTTP answer of the API server means for who asked (libraries.md traps 2 and 23). Pure."""

from datetime import datetime
from email.utils import parsedate_to_datetime

import msgspec
from msgspec import Struct

from beehive.api.meta import Status
from beehive.messages.objects import Away, Denied, Missing, Stale

_MOST_PATIENCE = 60.0
_UNTOLD = Status()
_status = msgspec.json.Decoder(Status)


class Reply(Struct, frozen=True, gc=False):
    """An answer as it came."""

    status: int
    body: bytes = b""
    retry_after: float | None = None
    """Seconds that the server asks us to wait."""
    took: float = 0.0
    """Seconds from the request to the end of the answer."""


def succeeded(reply: Reply) -> bool:
    """It is a 2xx."""
    return 200 <= reply.status <= 299


def refusal(reply: Reply) -> Stale | Missing | Denied | Away | None:
    """What to tell who asked for a write; None when it was done."""
    if succeeded(reply):
        return None
    if reply.status == 409:
        return Stale()
    if reply.status == 404:
        return Missing()
    if reply.status == 422:
        return Denied(sentence(reply)) if _causes(reply) else Stale()
    if reply.status in {401, 429} or reply.status >= 500 or reply.status < 400:
        return Away(sentence(reply))
    return Denied(sentence(reply), may_pass=reply.status == 403)


def sentence(reply: Reply) -> str:
    """Why the server refused, in its own words where it has any; one line."""
    told = status_of(reply.body)
    plain = "" if told is not _UNTOLD else reply.body[:200].decode("utf-8", "replace")
    words = " ".join((told.message or plain).split())
    return words or f"HTTP status {reply.status}"


def status_of(body: bytes) -> Status:
    """The Status in a body; an empty one where there is none."""
    try:
        return _status.decode(body)
    except msgspec.MsgspecError:
        return _UNTOLD


def _causes(reply: Reply) -> bool:
    details = status_of(reply.body).details
    return bool(details and details.causes)


def retry_after(header: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for, at most a minute; None for none and for nonsense."""
    if not header:
        return None
    if header.isascii() and header.isdigit():
        return min(_MOST_PATIENCE, float(header[:6]))
    try:
        until = parsedate_to_datetime(header)
        return min(_MOST_PATIENCE, max(0.0, (until - now).total_seconds()))
    except (ValueError, TypeError):
        return None
