"""Writes container images into a local OCI layout: the demo's image source, and that of the tests. Deterministic."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

Content = bytes | Path
"""The bytes of a file in the image, or the file that has them."""
Files = Mapping[str, tuple[Content, int]]
"""Path in the image → content and mode."""

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_NAME = "org.opencontainers.image.ref.name"


def write_layout(directory: Path, repository: str, tag: str, platforms: Mapping[str, Files]) -> str:
    """Add an image of one layer for each architecture (`amd64`, `arm/v7`) to the layout; return its index' digest.

    The same input gives the same bytes. An image that the layout has under this name is replaced.
    """
    manifests = []
    for architecture, files in platforms.items():
        name, _, variant = architecture.partition("/")
        platform = {"architecture": name, "os": "linux"} | ({"variant": variant} if variant else {})
        manifests.append(_write_image(directory, platform, files) | {"platform": platform})
    index = _write_json(directory, _INDEX, {"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests})
    _name_it(directory, f"{repository}:{tag}", index)
    return str(index["digest"])


def write_blob(directory: Path, media_type: str, data: bytes) -> dict[str, Any]:
    """Add a blob; return its descriptor."""
    digest = hashlib.sha256(data).hexdigest()
    file = directory / "blobs" / "sha256" / digest
    file.parent.mkdir(parents=True, exist_ok=True)
    _write(file, data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def tar_of(files: Files) -> bytes:
    """A layer with these files and the folders above them, owned by root, without times."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        folders: set[str] = set()
        for path, (content, mode) in sorted(files.items()):
            name = path.strip("/")
            for folder in reversed(PurePosixPath(name).parents[:-1]):
                if str(folder) not in folders:
                    folders.add(str(folder))
                    tar.addfile(_entry(f"{folder}/", tarfile.DIRTYPE, 0o755))
            data = content.read_bytes() if isinstance(content, Path) else content
            entry = _entry(name, tarfile.REGTYPE, mode)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return archive.getvalue()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry


def _write_image(directory: Path, platform: dict[str, str], files: Files) -> dict[str, Any]:
    plain = tar_of(files)
    layer = write_blob(directory, _LAYER, gzip.compress(plain, mtime=0))
    diff_id = f"sha256:{hashlib.sha256(plain).hexdigest()}"
    config = _write_json(directory, _CONFIG, platform | {"rootfs": {"type": "layers", "diff_ids": [diff_id]}})
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": [layer]}
    return _write_json(directory, _MANIFEST, manifest)


def _write_json(directory: Path, media_type: str, document: object) -> dict[str, Any]:
    return write_blob(directory, media_type, msgspec.json.encode(document))


def _name_it(directory: Path, name: str, index: dict[str, Any]) -> None:
    file = directory / "index.json"
    entries: list[dict[str, Any]] = msgspec.json.decode(file.read_bytes())["manifests"] if file.exists() else []
    others = [entry for entry in entries if entry.get("annotations", {}).get(_NAME) != name]
    named = [*others, index | {"annotations": {_NAME: name}}]
    _write(directory / "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    _write(file, msgspec.json.encode({"schemaVersion": 2, "mediaType": _INDEX, "manifests": named}))


def _write(file: Path, data: bytes) -> None:
    """Whole or not at all: a host may read the layout while it is written."""
    beside = file.with_name(f".{file.name}.new")
    beside.write_bytes(data)
    beside.replace(file)
