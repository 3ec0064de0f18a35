"""What the leader knows of its followers: `GET /debug/vars`, the only place where etcd tells how far a learner is
without an attempt to promote it (spec/k3s-etcd.md 12b.6)."""

import asyncio
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from beehive.errors import Refused
from modules.etcdmanager.config import Config
from modules.etcdmanager.sight import Member, Progress
from modules.etcdmanager.tls import address, context

_MOST = 4 * 1024 * 1024


class _Follower(Struct, frozen=True):
    match: int = 0
    state: str = ""


class _Status(Struct, frozen=True):
    progress: dict[str, _Follower] | None = None


class _Vars(Struct, frozen=True):
    raft: _Status | None = msgspec.field(default=None, name="raft.status")


_vars = msgspec.json.Decoder(_Vars)


def read(body: bytes) -> Progress | None:
    """The progress in an answer; None when it holds none (followers and learners say nothing)."""
    try:
        raft = _vars.decode(body).raft
        followers = {int(name, 16): one for name, one in ((raft.progress if raft else None) or {}).items()}
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not followers:
        return None
    snapshot = frozenset(name for name, one in followers.items() if one.state == "StateSnapshot")
    return Progress({name: one.match for name, one in followers.items()}, snapshot)


def urls(leader: Member, config: Config) -> list[str]:
    """Where to ask."""
    if not config.http_url:
        return list(leader.client_urls)
    hosts = [urlsplit(url).hostname or "" for url in leader.client_urls[:1]]
    return [config.http_url.replace("{host}", f"[{host}]" if ":" in host else host) for host in hosts]


async def progress(leader: Member, config: Config) -> tuple[Progress | None, str]:
    """Ask the leader: what it knows, or None and why it does not tell."""
    why = "the leader has no client URL"
    for url in urls(leader, config):
        try:
            async with asyncio.timeout(float(config.probe_timeout)):
                found = read(await _get(url, config))
        except Refused as refused:
            why = refused.reason
        except TimeoutError:
            why = f"{url} did not answer in {float(config.probe_timeout):g} s"
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            why = f"{url}: {getattr(error, 'strerror', None) or repr(error)}"
        else:
            if found:
                return found, ""
            why = f"{url}/debug/vars does not tell how far the followers are"
    return None, why


async def _get(url: str, config: Config) -> bytes:
    parts = address(url)
    own = context(config) if parts.scheme == "https" else None
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=own)
    try:
        writer.write(f"GET /debug/vars HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
        answer = await _all(reader)
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return body if b" 200 " in head.split(b"\r\n", 1)[0] + b" " else b""


async def _all(reader: asyncio.StreamReader) -> bytes:
    """To the end, or to what no etcd would say."""
    parts = bytearray()
    while chunk := await reader.read(65536):
        parts += chunk
        if len(parts) > _MOST:
            return b""
    return bytes(parts)
