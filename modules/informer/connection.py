"""The way to kube-apiserver: address, credentials, TLS, and how its failures read.

Credentials are read again when the server no longer takes them (401) or its certificate is no longer trusted, because
the library reads files once and never runs a kubeconfig's plugin again (libraries.md 1).
"""

import asyncio
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

import aiohttp
import yaml
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config import ConfigException, load_kube_config

from beehive.errors import ConfigError, Problem, Unavailable
from modules.informer.config import Config

_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CONNECTIONS = 128
_RETIRED = 4


class Connection:
    """A session with the API server that `config` names; `async with` closes it."""

    def __init__(self, config: Config, environment: Mapping[str, str] = os.environ) -> None:
        self._config = _located(config, environment)
        self._settings: Configuration | None = None
        self._client: ApiClient | None = None
        self._environment = environment
        self._environment_proxy: str | None = None
        self._token = _TokenFile(self._config.token_file)
        self._retired: list[ApiClient] = []
        """Their calls may still be in flight, and a session that is closed under a call fails in strange ways."""
        self._made_of: tuple[object, ...] = ()
        self._outdated = True
        self.generation = 0
        """Counts how often the credentials were read."""

    async def __aenter__(self) -> "Connection":
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in (*self._retired, *([self._client] if self._client else ())):
            await client.close()
        await asyncio.sleep(0)  # the sockets of abandoned watches are closed in the loop's next turn

    @property
    def url(self) -> str:
        """The server, for people and as the start of every address."""
        known = self._settings.host if self._settings else None
        return known or self._config.server or self._config.kubeconfig

    async def session(self) -> aiohttp.ClientSession:
        """Raises Unavailable while a file that it needs is not there, ConfigError when a kubeconfig makes no sense."""
        if self._client is None or self._outdated:
            self._client = await self._renewed()
        session: aiohttp.ClientSession = self._client.rest_client.pool_manager
        return session

    async def _renewed(self) -> ApiClient:
        """A new client only where something that it is made of has changed."""
        settings = await self._read()
        made_of, old = _ingredients(settings), self._client
        client = old if old and made_of == self._made_of else _client(settings)
        if old and client is not old:
            self._retired.append(old)
            if len(self._retired) > _RETIRED:
                await self._retired.pop(0).close()
        if client is not old:
            self._environment_proxy = _proxy_of(settings.host or "", self._environment)
        self._settings, self._made_of, self._outdated = settings, made_of, False
        self.generation += 1
        return client

    async def headers(self) -> dict[str, str]:
        """Who we are."""
        if self._config.token_file:
            return {"Authorization": f"Bearer {self._token.read()}"}
        key = self._settings.api_key.get("BearerToken") if self._settings else None
        return {"Authorization": key} if key else {}

    @property
    def tls_name(self) -> str | None:
        """The name that the server's certificate must have, where the kubeconfig gives one."""
        return self._settings.tls_server_name if self._settings else None

    @property
    def proxy(self) -> str | None:
        """A proxy that the kubeconfig or else the environment names."""
        return (self._settings.proxy if self._settings else None) or self._environment_proxy

    def renew(self, generation: int) -> None:
        """The credentials of this generation were refused: the next call reads them again."""
        if generation == self.generation:
            self._token.forget()
            self._outdated = True

    async def _read(self) -> Configuration:
        settings = Configuration()
        settings.connection_pool_maxsize = _CONNECTIONS
        if not self._config.kubeconfig:
            settings.host = self._config.server.rstrip("/")
            settings.ssl_ca_cert = self._config.ca_file or None
            return settings
        path = _present(self._config.kubeconfig)
        try:
            await load_kube_config(path, self._config.context or None, settings, persist_config=False)
        except (ConfigException, yaml.YAMLError, TypeError, KeyError, AttributeError, AssertionError) as error:
            text = f"{path} cannot be used: {_words(error)}"
            raise ConfigError("configuration", [Problem("setting", "informer.kubeconfig", text)]) from None
        return settings


def _present(kubeconfig: str) -> str:
    path = Path(kubeconfig).expanduser()
    if not path.is_file():
        raise Unavailable(f"the kubeconfig {path}: no such file")
    return str(path)


class _TokenFile:
    """A token that is replaced from time to time, as kubelet does with a projected one."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._read_at: tuple[int, int] | None = None
        self._token = ""

    def read(self) -> str:
        try:
            state = self._path.stat()
            if self._read_at != (state.st_mtime_ns, state.st_ino):
                self._token = self._path.read_text(encoding="ascii").strip()
                self._read_at = (state.st_mtime_ns, state.st_ino)
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"the token file {self._path}: {_words(error)}") from None
        return self._token

    def forget(self) -> None:
        self._read_at = None


def _located(config: Config, environment: Mapping[str, str]) -> Config:
    """The same, with one of `server` and `kubeconfig` set."""
    if config.server or config.kubeconfig:
        return config
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if host:
        bracketed = f"[{host}]" if ":" in host else host
        return _with(config, f"https://{bracketed}:{port}", str(_POD / "token"), str(_POD / "ca.crt"), "")
    for path in (*environment.get("KUBECONFIG", "").split(os.pathsep), "~/.kube/config"):
        if path and Path(path).expanduser().is_file():
            return _with(config, "", "", "", path)
    text = "this is no Pod, and there is no ~/.kube/config; give a kubeconfig file, or informer.server with its URL"
    raise ConfigError("configuration", [Problem("setting", "informer.kubeconfig", text)])


def _with(config: Config, server: str, token_file: str, ca_file: str, kubeconfig: str) -> Config:
    return Config(
        server=server,
        token_file=token_file,
        ca_file=ca_file,
        kubeconfig=kubeconfig,
        context=config.context,
    )


def _ingredients(settings: Configuration) -> tuple[object, ...]:
    files = (settings.ssl_ca_cert, settings.cert_file, settings.key_file)
    return (settings.host, settings.verify_ssl, settings.tls_server_name, settings.proxy, *(map(_state, files)))


def _state(path: str | None) -> tuple[str, int, int] | None:
    """Which file this is, and in which state."""
    try:
        found = Path(path).stat() if path else None
    except OSError:
        found = None
    return (path, found.st_mtime_ns, found.st_ino) if path and found else None


def _client(settings: Configuration) -> ApiClient:
    try:
        return _without_environment(ApiClient(settings))
    except (OSError, ssl.SSLError) as error:
        raise Unavailable(f"the CA file or the client certificate: {_words(error)}") from None


def _without_environment(client: ApiClient) -> ApiClient:
    """The library's session looks for a netrc file and a proxy in two threads at each request, and breaks where a netrc
    file has credentials beside our token. Ours takes its connector over."""
    library: aiohttp.ClientSession = client.rest_client.pool_manager
    client.rest_client.pool_manager = aiohttp.ClientSession(connector=library.connector)
    library.detach()
    return client


def _proxy_of(url: str, environment: Mapping[str, str]) -> str | None:
    """`https_proxy` and the like, unless `no_proxy` names the host."""
    parts = urlsplit(url)
    named = {key.lower(): value for key, value in environment.items() if value}
    if proxy_bypass_environment(parts.hostname or "", {"no": named.get("no_proxy", "")}):
        return None
    return named.get(f"{parts.scheme}_proxy")


def untrusted(error: BaseException) -> bool:
    """Is it that we do not trust the server's certificate?"""
    return isinstance(error, aiohttp.ClientConnectorCertificateError)


def explain(error: BaseException) -> str:
    """Why a call was not answered, in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted ({error.certificate_error}); set informer.caFile"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return _words(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "the connection was cut"
    return _words(error)


def _words(error: BaseException) -> str:
    """The system's own words for an error number, else the error's own; never empty, one line."""
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        text = os.strerror(error.errno)
        return text[:1].lower() + text[1:]
    return " ".join(str(error).split())[:300] or type(error).__name__
