"""The HTTPS call: one GET, nobody followed, a bounded body, a bounded time. The only file that knows httpx here."""

import asyncio
import ssl

from beehive.errors import Refused, Unavailable
from modules.digests.answer import ACCEPT, MOST_BYTES, Answer


async def ask(host: str, path: str, token: str, ca_file: str, timeout: float) -> Answer:
    """What the registry answers. Raises Unavailable (may pass) or Refused (will not), both with a sentence."""
    import httpx  # noqa: PLC0415 - most jobs bring their digests

    headers = {"Accept": ACCEPT, "Accept-Encoding": "identity", "User-Agent": "beehive"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        context = await asyncio.to_thread(_tls, ca_file)
        async with (
            asyncio.timeout(timeout),
            httpx.AsyncClient(verify=context, follow_redirects=False, timeout=timeout) as client,
            client.stream("GET", f"https://{host}{path}", headers=headers) as response,
        ):
            body = await _bounded(response, host) if response.status_code == 200 else b""
            said = response.headers
            return Answer(
                response.status_code, said.get("content-type", ""), said.get("docker-content-digest", ""), body
            )
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, UnicodeError, TimeoutError, OSError) as error:
        raise _explained(error, host, timeout) from None


async def _bounded(response: "httpx.Response", host: str) -> bytes:  # type: ignore[name-defined]  # noqa: F821
    pieces, size = [], 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > MOST_BYTES:
            raise Refused(f"registry {host} answers with more than the {MOST_BYTES:,} bytes that a manifest may have")
        pieces.append(piece)
    return b"".join(pieces)


def _tls(ca_file: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise Refused(f"digests.caFile {ca_file} cannot be read as certificates: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _explained(error: BaseException, host: str, timeout: float) -> Refused | Unavailable:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Refused(f"the certificate of registry {host} is not trusted: {cause.verify_message}")
        if isinstance(cause, UnicodeError):
            return Refused("spec.imageDigestGatter.registryAPI: the token holds what no header can")
        if isinstance(cause, TimeoutError):
            return Unavailable(f"registry {host} did not answer within {timeout:g} s")
        cause = cause.__cause__ or cause.__context__
    return Unavailable(
        f"registry {host} cannot be reached: {' '.join(str(error).split())[:150] or type(error).__name__}"
    )
