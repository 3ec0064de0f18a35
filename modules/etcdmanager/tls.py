"""Why does an address not talk to us? A handshake of the standard library tells apart what gRPC calls one thing.

gRPC names a missing client certificate, one of another CA and an expired one alike (spec/k3s-etcd.md 12b.7). This also
finds the member whose port is open and silent: it receives a snapshot, waits for a quorum, or hangs.
"""

import asyncio
import contextlib
import ssl
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from beehive.errors import Refused
from modules.etcdmanager.config import Config

OPEN_AND_SILENT = "it accepts connections but stays silent: it is starting, receives a snapshot, or hangs"

_ALERTS = (
    ("CERTIFICATE_REQUIRED", "it wants a client certificate; set etcdmanager.certFile and keyFile"),
    ("ALERT_UNKNOWN_CA", "it does not know the CA of our client certificate"),
    ("ALERT_CERTIFICATE_EXPIRED", "our client certificate has expired"),
    ("ALERT_BAD_CERTIFICATE", "it does not accept our client certificate"),
    ("certificate has expired", "its certificate has expired"),
    ("unable to get local issuer", "its certificate is of a CA that is not in etcdmanager.caFile"),
    ("self-signed certificate", "its certificate is of a CA that is not in etcdmanager.caFile"),
    ("self signed certificate", "its certificate is of a CA that is not in etcdmanager.caFile"),
    ("mismatch", "its certificate is not for this address"),
    ("not valid for", "its certificate is not for this address"),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS; write http:// if that is meant"),
    ("RECORD_LAYER_FAILURE", "it does not speak TLS; write http:// if that is meant"),
    ("HTTP_REQUEST", "it does not speak TLS; write http:// if that is meant"),
)


def address(url: str) -> SplitResult:
    """The parts of a client URL. Raises Refused with a sentence for what is none."""
    refused = Refused(f"{url} is not a client URL of etcd; write one like https://10.0.0.1:2379")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port
    except ValueError:
        raise refused from None
    if not good or parts.path.strip("/") or parts.query or parts.username:
        raise refused
    return parts


def context(config: Config) -> ssl.SSLContext:
    """A client's, with the configured files. Raises OSError and ssl.SSLError for files that are none."""
    made = ssl.create_default_context(cafile=config.ca_file or None)
    if config.cert_file:
        made.load_cert_chain(config.cert_file, config.key_file)
    return made


async def explain(url: str, config: Config, seconds: float) -> str:
    """Why it does not talk to us, in words; empty when nothing is wrong with the connection itself."""
    parts = address(url)
    try:
        async with asyncio.timeout(seconds):
            return await _handshake(parts, config)
    except TimeoutError:
        return await _open_or_dead(parts, seconds)
    except ssl.SSLError as error:
        return next((words for text, words in _ALERTS if text in str(error)), f"TLS: {error.reason or error}")
    except ConnectionRefusedError:
        return "connection refused"
    except OSError as error:
        return error.strerror or type(error).__name__


async def _handshake(parts: SplitResult, config: Config) -> str:
    own = context(config) if parts.scheme == "https" else None
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=own)
    try:
        if own:
            # With TLS 1.3 the server's refusal of our certificate comes with the first read.
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            await reader.read(1)
        return ""
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(0.1):
                await writer.wait_closed()


async def _open_or_dead(parts: SplitResult, seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except (OSError, TimeoutError):
        return "no route, or no answer to the connection"
    writer.close()
    return OPEN_AND_SILENT


def stamp(config: Config) -> tuple[tuple[int, int, int] | None, ...]:
    """Changes when one of the certificate files does."""
    return tuple(_stamp(Path(name)) if name else None for name in (config.ca_file, config.cert_file, config.key_file))


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        seen = file.stat()
    except OSError:
        return None
    return (seen.st_mtime_ns, seen.st_size, seen.st_ino)
