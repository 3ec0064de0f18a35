"""OCI images as folders, made in plain Python: what a registry serves to the hosts under test."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Files = Mapping[str, bytes | Path]
"""One layer: absolute path in the image → content. A file named ``.wh.NAME`` hides ``NAME`` of the layers below."""

_IMAGE = "application/vnd.oci.image"


def installation_package(edgecore: Path | bytes, keadm: Path | bytes = b"#!/bin/sh\nexit 0\n") -> list[Files]:
    """The layers of an image laid out as KubeEdge's installation-package."""
    return [{"/etc/os-release": b"ID=test\n"}, {"/usr/local/bin/edgecore": edgecore, "/usr/local/bin/keadm": keadm}]


class OciLayout:
    """A folder in the OCI image layout; the same layers give the same digests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index: list[dict[str, Any]] = []
        (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def add(self, tag: str, layers: Sequence[Files], architecture: str = "amd64") -> str:
        """Adds an image under ``tag``; its manifest's digest."""
        return self._name(tag, self._manifest(layers, architecture))

    def add_index(self, tag: str, images: Mapping[str, Sequence[Files]]) -> str:
        """Adds an index of several architectures (architecture → layers) under ``tag``; the index's digest."""
        manifests = [
            {**self._manifest(layers, name), "platform": {"architecture": name, "os": "linux"}}
            for name, layers in images.items()
        ]
        kind = f"{_IMAGE}.index.v1+json"
        content = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": manifests}).encode()
        return self._name(tag, self.blob(content, kind))

    def blob(self, content: bytes, kind: str) -> dict[str, Any]:
        """Stores a blob of any content; its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        self.blob_path(f"sha256:{digest}").write_bytes(content)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    def blob_path(self, digest: str) -> Path:
        """The file that holds the blob of this digest (``sha256:…``)."""
        return self.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _name(self, tag: str, descriptor: dict[str, Any]) -> str:
        self._index = [
            entry for entry in self._index if entry["annotations"]["org.opencontainers.image.ref.name"] != tag
        ]
        self._index.append({**descriptor, "annotations": {"org.opencontainers.image.ref.name": tag}})
        kind = f"{_IMAGE}.index.v1+json"
        (self.folder / "index.json").write_text(
            json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": self._index})
        )
        return str(descriptor["digest"])

    def _manifest(self, layers: Sequence[Files], architecture: str) -> dict[str, Any]:
        tars = [_tar(files) for files in layers]
        packed = [self.blob(gzip.compress(tar, 1, mtime=0), f"{_IMAGE}.layer.v1.tar+gzip") for tar in tars]
        digests = [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in tars]
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": digests},
        }
        described = self.blob(json.dumps(config).encode(), f"{_IMAGE}.config.v1+json")
        kind = f"{_IMAGE}.manifest.v1+json"
        manifest = {"schemaVersion": 2, "mediaType": kind, "config": described, "layers": packed}
        return self.blob(json.dumps(manifest).encode(), kind)


def _tar(files: Files) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in files.items():
            data = content if isinstance(content, bytes) else content.read_bytes()
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()
