"""Where the webhook's certificate comes from: a Secret that all replicas share, or files that somebody else renews."""

import ssl
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from beehive.errors import NoAnswer, PeerFailed, Refused, Unavailable
from beehive.message import Request
from beehive.messages.objects import Away, Denied, GetSecret, Missing, Patched, PutSecret
from modules.admission.certificates import Pair, is_ca, is_good, make_ca, make_server
from modules.admission.config import Config, Files
from modules.admission.registration import service_names

Ask = Callable[[Request[Any]], Awaitable[Any]]
_MOST_RACES = 20


class Keys(Struct, frozen=True):
    """What the server shows, and the CA (PEM) that the API server is to trust."""

    server: Pair
    ca: bytes


async def keys(config: Config, ask: Ask, now: float) -> Keys:
    """The keys to use now. Raises Unavailable when the API server is away, Refused when something says no."""
    if config.files.certificate:
        return _from_files(config.files)
    return await _from_secret(config, ask, now)


def _from_files(files: Files) -> Keys:
    try:
        pair = Pair(Path(files.certificate).read_bytes(), Path(files.key).read_bytes())
        return Keys(pair, Path(files.ca).read_bytes())
    except OSError as error:
        raise Refused(f"the webhook's certificate cannot be read: {error.filename}: {error.strerror}") from None


async def _from_secret(config: Config, ask: Ask, now: float) -> Keys:
    """Compare and swap: however many replicas start at once, one CA is made."""
    names = (*config.names, *service_names(config.register))
    for _ in range(_MOST_RACES):
        found = await asked(ask, GetSecret(name=config.secret))
        if isinstance(found, Away):
            raise Unavailable(found.reason)
        ca = Pair(found.data.get("ca.crt", b""), found.data.get("ca.key", b""))
        server = Pair(found.data.get("tls.crt", b""), found.data.get("tls.key", b""))
        if is_good(ca, server, names, now):
            return Keys(server, ca.certificate)
        ca = ca if is_ca(ca) else make_ca(now)
        server = make_server(ca, names, now, config.lifetime)
        data = {"ca.crt": ca.certificate, "ca.key": ca.key, "tls.crt": server.certificate, "tls.key": server.key}
        put = PutSecret(name=config.secret, data={**found.data, **data}, resource_version=found.resource_version)
        answer = await asked(ask, put)
        if isinstance(answer, Patched):
            return Keys(server, ca.certificate)
        if isinstance(answer, Away):
            raise Unavailable(answer.reason)
        if isinstance(answer, Denied | Missing):
            reason = answer.reason if isinstance(answer, Denied) else "its namespace is missing"
            raise Refused(f"the Secret {config.secret} cannot be written: {reason}")
    raise Unavailable(f"the Secret {config.secret} changes too often")


async def asked(ask: Ask, request: Request[Any]) -> Any:
    """The answer; an informer that fails or is silent counts as an API server that is away."""
    try:
        return await ask(request)
    except (NoAnswer, PeerFailed) as error:
        raise Unavailable(str(error)) from None


def context(pair: Pair) -> ssl.SSLContext:
    """TLS 1.2 or later with this certificate. Raises Refused when it is none."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    with tempfile.TemporaryDirectory(prefix="beehive-admission-") as directory:  # OpenSSL takes a chain from files only
        path = Path(directory, "server.pem")
        path.touch(0o600)
        path.write_bytes(pair.certificate + b"\n" + pair.key)
        try:
            made.load_cert_chain(path)
        except ssl.SSLError as error:
            raise Refused(f"the webhook's certificate or its key cannot be used: {error.reason}") from None
    return made
