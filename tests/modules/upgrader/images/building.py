"""Images for tests, good and hostile, entry by entry, written into OCI layouts."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

from modules.upgrader.images import ImageRequest, WantedFile

OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker"
INDEX = f"{OCI}.index.v1+json"
MANIFEST = f"{OCI}.manifest.v1+json"
CONFIG = f"{OCI}.config.v1+json"
LAYER = f"{OCI}.layer.v1.tar"
REPOSITORY = "kubeedge/installation-package"
KEADM = "/usr/local/bin/keadm"
MACHINES = {"amd64": (2, 1, 62), "arm64": (2, 1, 183), "arm": (1, 1, 40), "s390x": (2, 2, 22), "riscv64": (2, 1, 243)}


def program(architecture: str = "amd64", text: bytes = b"keadm", kind: int = 2) -> bytes:
    """The beginning of an ELF executable, followed by `text`."""
    bits, order, machine = MACHINES[architecture.partition("/")[0]]
    name = "little" if order == 1 else "big"
    ends = kind.to_bytes(2, name) + machine.to_bytes(2, name)  # type: ignore[arg-type]
    return b"\x7fELF" + bytes([bits, order, 1]) + bytes(9) + ends + text


class Entry:
    """One entry of a layer."""

    def __init__(self, name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", target: str = "") -> None:
        self.info = tarfile.TarInfo(name)
        self.info.type = kind
        self.info.linkname = target
        self.info.size = len(data)
        self.data = data


def file(name: str, data: bytes = b"") -> Entry:
    return Entry(name, data=data)


def folder(name: str) -> Entry:
    return Entry(name, tarfile.DIRTYPE)


def symlink(name: str, target: str) -> Entry:
    return Entry(name, tarfile.SYMTYPE, target=target)


def link(name: str, target: str) -> Entry:
    return Entry(name, tarfile.LNKTYPE, target=target)


def special(name: str, kind: bytes) -> Entry:
    return Entry(name, kind)


def tar(*entries: Entry, format_: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive; names go in as they are, hostile or not."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=format_) as archive:
        for entry in entries:
            archive.addfile(entry.info, io.BytesIO(entry.data))
    return stream.getvalue()


def header(name: str, size: int, kind: bytes = b"0") -> bytes:
    """One header block of a size that no data follow."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def packed(plain: bytes, how: str) -> bytes:
    if how == "+gzip":
        return gzip.compress(plain, 1, mtime=0)
    return zstandard.compress(plain) if how == "+zstd" else plain


class Layout:
    """An OCI layout that a test fills, and damages."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "blobs" / "sha256").mkdir(parents=True)
        self._entries: list[dict[str, Any]] = []

    def blob(self, media_type: str, data: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.path(digest).write_bytes(data)
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    def json(self, media_type: str, document: object) -> dict[str, Any]:
        return self.blob(media_type, json.dumps(document).encode())

    def path(self, digest: str) -> Path:
        return self.directory / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def manifest(
        self,
        layers: Sequence[bytes],
        architecture: str = "amd64",
        how: str = "+gzip",
        config: Mapping[str, object] | None = None,
        **more: object,
    ) -> dict[str, Any]:
        """A manifest with its configuration and layers (tar archives); its descriptor."""
        name, _, variant = architecture.partition("/")
        platform = {"architecture": name, "os": "linux"} | ({"variant": variant} if variant else {})
        diff_ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
        content = {**platform, "rootfs": {"type": "layers", "diff_ids": diff_ids}, **(config or {})}
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.json(CONFIG, content),
            "layers": [self.blob(LAYER + how, packed(layer, how)) for layer in layers],
            **more,
        }
        return self.json(MANIFEST, document) | {"platform": platform}

    def index(self, *manifests: dict[str, Any]) -> dict[str, Any]:
        return self.json(INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(manifests)})

    def name(self, descriptor: dict[str, Any], name: str = f"{REPOSITORY}:v1.23.0") -> str:
        """Give an image a name in the layout; its digest."""
        self._entries.append({**descriptor, "annotations": {"org.opencontainers.image.ref.name": name}})
        self.write_index()
        return str(descriptor["digest"])

    def write_index(self) -> None:
        (self.directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        (self.directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": self._entries}))

    def add(self, *layers: bytes, how: str = "+gzip") -> str:
        """An image for amd64 under the usual name; the digest of its index."""
        return self.name(self.index(self.manifest(layers, how=how)))


def request(**changes: str) -> ImageRequest:
    return ImageRequest(**{"version": "v1.23.0", "architecture": "amd64", **changes})


def wanted(place: Path, path: str = KEADM, policy: str = "elf") -> WantedFile:
    return WantedFile(path=path, to=place, policy=policy)  # type: ignore[arg-type]


def tree(directory: Path) -> dict[str, bytes | None]:
    """Everything below a directory, to compare before and after."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(directory.rglob("*"))}
