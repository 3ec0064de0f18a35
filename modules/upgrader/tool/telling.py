"""Tells the cloud the verdict on a job's attempt: `POST /nodeupgrade`, beside what the agent reports (product.md 6.2).

Best effort, within a bounded time, after everything else is done: the agent's own report says the same and more, and
the cloud counts the attempt once. This one arrives where the agent does not come up again.
"""

import email.message
import http.client
import io
import logging
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from beehive.errors import Unavailable
from beehive.messages.host import Verdict
from modules.upgrader.config import Cloud
from modules.upgrader.host.host import Host
from modules.upgrader.sentences import one_line
from modules.upgrader.tool.record import Order

_log = logging.getLogger("beehive.tool")
_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME."""
_ONE_TRY = 15.0
"""Seconds; the cloud answers within 10."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_SAID = 4096


class _About(Struct, frozen=True):
    """`identity.json`, as `beehive edge join` writes it."""

    node: str
    cloud: str = ""
    begins: float = 0.0


class Identity(Struct, frozen=True):
    """Who tells, and whom."""

    node: str
    url: str
    context: ssl.SSLContext


class Word(Struct, frozen=True, rename="pascal"):
    """The body (spec/kubeedge.md 5.8)."""

    upgrade_id: str = msgspec.field(name="UpgradeID")
    history_id: str = msgspec.field(name="HistoryID")
    node_name: str
    from_version: str
    to_version: str
    status: str
    reason: str


class Answer(Struct, frozen=True):
    """What the cloud answered."""

    status: int
    text: str = ""
    wait: float = 0.0
    """Seconds that it asks for."""


def word_of(node: str, order: Order, verdict: Verdict) -> Word:
    """The verdict in KubeEdge's words; `HistoryID` ties it to this attempt (product.md 4). Pure."""
    if verdict.step == "Upgrade":
        status = "upgrade_success"
    else:
        status = f"upgrade_failed_rollback_{'success' if verdict.ok else 'failed'}"
    failed = order.to_version if order.event == "Upgrade" else order.from_version
    return Word(
        upgrade_id=order.job,
        history_id=f"{order.uid}.{order.attempt}",
        node_name=node,
        from_version=order.backup,
        to_version=failed,
        status=status,
        reason=verdict.reason,
    )


def is_final(status: int) -> bool:
    """Is it no use to say it again? Only what may pass is: no answer, too much at once, a fault of the server."""
    return not (status == 0 or status in (408, 425, 429) or status >= 500)


def tell(host: Host, order: Order, verdict: Verdict, *, now: Callable[[], float] = time.time) -> bool:
    """Say it until it is heard, refused, or no time is left; False: nobody heard it. Raises nothing that may happen."""
    try:
        identity = load_identity(host.layout.identity, host.config.cloud, now())
    except Unavailable as error:
        _log.info("the cloud is not told: %s", error)
        return False
    body = msgspec.json.encode(word_of(identity.node, order, verdict))
    end, pause = time.monotonic() + host.config.cloud.patience, _FIRST_PAUSE
    while True:
        answer = post(identity, body, min(_ONE_TRY, max(0.1, end - time.monotonic())))
        if is_final(answer.status):
            _say(answer)
            return answer.status == http.client.OK
        pause = min(_LONGEST_PAUSE, max(pause, answer.wait))
        if time.monotonic() + pause > end:
            _log.warning("the cloud was not told: %s; the agent's own report will", answer.text)
            return False
        time.sleep(pause)
        pause *= 2


def load_identity(folder: Path, config: Cloud, now: float) -> Identity:
    """Raises Unavailable when this host has not joined, or its identity cannot be used.

    With a clock that stands before the certificate began, only the cloud's CA and name are looked at, as by the agent.
    """
    try:
        about = msgspec.json.decode((folder / "identity.json").read_bytes(), type=_About)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(folder / "ca.crt")
        if config.ca_file:
            context.load_verify_locations(config.ca_file)
        context.load_cert_chain(folder / "node.pem")
    except FileNotFoundError:
        raise Unavailable(f"this host has no identity in {folder}") from None
    except (OSError, ssl.SSLError, msgspec.MsgspecError) as error:
        raise Unavailable(f"the identity in {folder} cannot be used: {error}") from None
    if now < about.begins:
        context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    url = (config.url or about.cloud).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise Unavailable(f"{folder}/identity.json names no cloud like https://cloud.example.org:10002")
    return Identity(about.node, url, context)


def post(identity: Identity, body: bytes, timeout: float) -> Answer:
    """One try; status 0 when there was no answer. Proxies are the environment's; nobody is redirected elsewhere."""
    request = urllib.request.Request(  # noqa: S310 - https, checked above
        f"{identity.url}/nodeupgrade", data=body, headers={"Content-Type": "application/json"}, method="POST"
    )
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=identity.context), _Nowhere())
    try:
        with opener.open(request, timeout=timeout) as response:
            return Answer(response.status, _text(response))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, _text(error), _wait(error.headers))
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return Answer(0, f"{identity.url} does not answer: {one_line(str(reason) or type(error).__name__)}")


class _Nowhere(urllib.request.HTTPRedirectHandler):
    """Who is redirected would become a GET, and show the certificate to somebody else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: email.message.Message,
        newurl: str,
    ) -> None:
        """Never."""


def _text(response: io.IOBase | urllib.error.HTTPError) -> str:
    return one_line(response.read(_SAID).decode("utf-8", "replace"))


def _wait(headers: email.message.Message) -> float:
    text = headers.get("Retry-After", "")
    return float(text) if text.isdigit() else 0.0


def _say(answer: Answer) -> None:
    if answer.status == http.client.OK:
        _log.info("the cloud has the verdict")
    else:
        _log.warning("the cloud does not take the verdict: %s %s", answer.status, answer.text[:200])
