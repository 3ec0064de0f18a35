"""A small registry that can be made to misbehave: cuts, lies, redirects, asks for credentials. Serves an OCI layout."""

import asyncio
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tests.modules.upgrader.images.building import REPOSITORY


class Asked(msgspec.Struct, frozen=True):
    """One request."""

    path: str
    headers: dict[str, str]


class Answer(msgspec.Struct):
    """What is sent back; a test may change any of it."""

    status: int = 200
    headers: dict[str, str] = {}
    body: bytes = b""
    cut_after: int | None = None
    """Bytes of the body after which the connection is torn."""
    length: int | None = None
    """Announced in place of the true length; -1: nothing is announced."""
    wait_for: asyncio.Event | None = None
    """Waited for before the body."""


Change = Callable[[Asked, Answer], Answer]


class FakeRegistry:
    """Serves `directory` as one repository. `change` sees every answer before it is sent."""

    def __init__(self, directory: Path, repository: str = REPOSITORY) -> None:
        self.directory = directory
        self.repository = repository
        self.address = ""
        self.asked: list[Asked] = []
        self.sent = 0
        """Bytes of blobs that were sent."""
        self.change: Change = lambda _, answer: answer

    def requests(self, kind: str) -> list[Asked]:
        """The requests for `manifests`, `blobs` or another part of the path."""
        return [asked for asked in self.asked if f"/{kind}/" in asked.path]

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["FakeRegistry"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in lines)}
            asked = Asked(first.split(" ")[1], headers)
            self.asked.append(asked)
            await self._send(writer, asked, self.change(asked, self._answer(asked)))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, asked: Asked, answer: Answer) -> None:
        length = len(answer.body) if answer.length is None else answer.length
        headers = answer.headers | {"Connection": "close"} | ({"Content-Length": str(length)} if length >= 0 else {})
        head = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        writer.write(f"HTTP/1.1 {answer.status} X\r\n{head}\r\n".encode())
        if answer.wait_for is not None:
            await writer.drain()
            await answer.wait_for.wait()
        body = answer.body if answer.cut_after is None else answer.body[: answer.cut_after]
        writer.write(body)
        await writer.drain()
        if "/blobs/" in asked.path:
            self.sent += len(body)

    def _answer(self, asked: Asked) -> Answer:
        prefix = f"/v2/{self.repository}/"
        kind, _, name = asked.path.removeprefix(prefix).partition("/")
        if not asked.path.startswith(prefix) or kind not in ("manifests", "blobs"):
            return Answer(404)
        digest = name if name.startswith("sha256:") else self._tagged(name)
        file = self.directory / "blobs" / "sha256" / digest.removeprefix("sha256:")
        if not digest or not file.exists():
            return Answer(404, {"Content-Type": "application/json"}, b'{"errors":[]}')
        return self._file(asked, kind, file.read_bytes())

    def _file(self, asked: Asked, kind: str, body: bytes) -> Answer:
        if kind == "manifests":
            document = json.loads(body)
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
            media_type = document.get("mediaType", "")
            return Answer(200, {"Content-Type": media_type, "Docker-Content-Digest": digest}, body)
        if start := asked.headers.get("range", "").removeprefix("bytes=").removesuffix("-"):
            extent = f"bytes {start}-{len(body) - 1}/{len(body)}"
            return Answer(206, {"Content-Range": extent}, body[int(start) :])
        return Answer(200, {}, body)

    def _tagged(self, tag: str) -> str:
        entries = json.loads((self.directory / "index.json").read_bytes())["manifests"]
        names = {entry["annotations"]["org.opencontainers.image.ref.name"]: entry["digest"] for entry in entries}
        return str(names.get(f"{self.repository}:{tag}", ""))
