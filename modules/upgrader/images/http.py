"""HTTP to one registry: who may be spoken to without TLS, redirects, authentication, and what errors mean.

The only file that knows httpx, which is imported with the first use.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from beehive.errors import Refused, Unavailable
from modules.upgrader.images import challenge
from modules.upgrader.images.images import NotFound
from modules.upgrader.images.request import Limits
from modules.upgrader.images.sources import Access

if TYPE_CHECKING:
    import httpx

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_MOST_HOPS: Final = 5
_MAY_PASS: Final = (408, 425, 429, 500, 502, 503, 504)
_CERTIFICATE_DATES: Final = (9, 10)  # not yet, no longer valid: a wrong clock on this side looks the same


class RegistryHttp:
    """Requests to one registry, with the authorisation that it asked for."""

    def __init__(
        self, address: str, repository: str, access: Access, limits: Limits, client: "httpx.AsyncClient"
    ) -> None:
        self._address = address
        self._repository = repository
        self._access = access
        self._limits = limits
        self._client = client
        self._base = f"{'http' if address in access.plain_http else 'https'}://{address}"
        self._authorization = ""

    @asynccontextmanager
    async def get(self, path: str, headers: dict[str, str]) -> AsyncIterator["httpx.Response"]:
        """The answer (200 or 206) to `GET path`, its body not yet read."""
        with _translated(self._address):
            response = await self._answer(self._base + path, headers)
            try:
                yield response
            finally:
                with anyio.CancelScope(shield=True):
                    await response.aclose()

    async def _answer(self, address: str, headers: dict[str, str]) -> "httpx.Response":
        asked = False
        for _ in range(_MOST_HOPS + 2):
            response = await self._send(address, headers, self._authorization)
            if response.status_code in (200, 206):
                return response
            await response.aclose()
            if response.status_code in _REDIRECTS:
                address = str(response.url.join(response.headers.get("location", "")))
            elif response.status_code == 401 and not asked and self._is_ours(str(response.url)):
                asked = True
                self._authorization = await self._authorize(response)
            else:
                raise _meaning(response, self._address)
        raise Refused(f"Registry {self._address} sends us from one address to the next without end.")

    async def _send(self, address: str, headers: dict[str, str], authorization: str) -> "httpx.Response":
        url = self._checked(address)
        sent = {**headers, "Accept-Encoding": "identity", "User-Agent": "beehive"}
        if authorization and self._is_ours(address):
            sent["Authorization"] = authorization
        return await self._client.send(self._client.build_request("GET", url, headers=sent), stream=True)

    def _checked(self, address: str) -> "httpx.URL":
        import httpx  # noqa: PLC0415

        url = httpx.URL(address)
        host = url.netloc.decode("ascii")
        if url.scheme == "http" and not {host, f"{host}:80"} & set(self._access.plain_http):
            raise Refused(
                f"Registry {self._address} wants to speak to {host} without TLS; list it under plainHttp in the host's"
                " configuration if that is meant."
            )
        if url.scheme not in ("http", "https") or not url.host or url.userinfo or (url.port or 0) > 65535:
            raise Refused(f"Registry {self._address} sends us to an address that cannot be used.")
        return url

    def _is_ours(self, address: str) -> bool:
        return address.startswith(f"{self._base}/")

    async def _authorize(self, response: "httpx.Response") -> str:
        asked_for = challenge.parse(", ".join(response.headers.get_list("www-authenticate")))
        who = self._access.credentials.get(self._address)
        mine = challenge.basic(who.username, who.password) if who else ""
        for one in asked_for:
            if one.scheme == "bearer":
                return f"Bearer {await self._token(challenge.token_address(one, self._repository), mine)}"
        if mine and any(one.scheme == "basic" for one in asked_for):
            return mine
        raise Refused(f"Registry {self._address} wants to know who we are; give credentials for it.")

    async def _token(self, address: str, mine: str) -> str:
        request = self._client.build_request("GET", self._checked(address), headers={"User-Agent": "beehive"})
        if mine:
            request.headers["Authorization"] = mine
        response = await self._client.send(request, stream=True)
        try:
            if response.status_code != 200:
                raise _meaning(response, f"{self._address} (its token server)")
            return challenge.read_token(await read_bounded(response, self._limits.document))
        finally:
            await response.aclose()


async def read_bounded(response: "httpx.Response", limit: int) -> bytes:
    """A whole body that must be small."""
    pieces, size = [], 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > limit:
            raise Refused(f"{response.url.host} answers with more than the {limit:,} bytes that are allowed.")
        pieces.append(piece)
    return b"".join(pieces)


@asynccontextmanager
async def opened(address: str, repository: str, access: Access, limits: Limits) -> AsyncIterator[RegistryHttp]:
    """A registry to ask; its connections are closed at the end."""
    import httpx  # noqa: PLC0415

    context = await anyio.to_thread.run_sync(_tls, access)
    timeout = httpx.Timeout(access.read_timeout, connect=access.connect_timeout)
    async with httpx.AsyncClient(verify=context, timeout=timeout, follow_redirects=False) as client:
        yield RegistryHttp(address, repository, access, limits, client)


def _tls(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.ca_file is not None:
        try:
            context.load_verify_locations(access.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise Refused(f"{access.ca_file} cannot be read as certificates: {error}.") from error
    return context


def _meaning(response: "httpx.Response", address: str) -> Refused | Unavailable:
    status = response.status_code
    if status == 404:
        return NotFound(f"Registry {address} has no such image.")
    if status in (401, 403):
        return Refused(f"Registry {address} does not let us pull (HTTP {status}); check the credentials for it.")
    if status in _MAY_PASS:
        wait = response.headers.get("retry-after", "")
        after = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 6 else None
        return Unavailable(f"Registry {address} is not able to answer now (HTTP {status}).", after)
    return Refused(f"Registry {address} answers with HTTP {status}.")


class _translated:  # noqa: N801 - reads as a verb where it is used
    """Turns httpx's errors into ours."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        import httpx  # noqa: PLC0415

        if isinstance(error, httpx.InvalidURL):
            raise Refused(f"Registry {self._address} sends us to an address that cannot be used.") from error
        if isinstance(error, httpx.HTTPError | httpx.StreamError):
            asked = error.request.url.netloc.decode() if isinstance(error, httpx.TransportError) else self._address
            via = "" if asked == self._address else f" (it sent us to {asked})"
            raise _transport(error, self._address + via) from error


def _transport(error: Exception, address: str) -> Refused | Unavailable:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            text = f"The certificate of registry {address} is not trusted: {cause.verify_message}."
            return Unavailable(text) if cause.verify_code in _CERTIFICATE_DATES else Refused(text)
        cause = cause.__cause__ or cause.__context__
    what = str(error) or type(error).__name__
    return Unavailable(f"Registry {address} cannot be reached: {what}.")
