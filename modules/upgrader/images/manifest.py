"""The documents of an image: index, manifest, configuration; and which of an index' manifests is ours. Pure.

OCI image specification 1.1 and Docker's schema 2, which differ in media types only.
"""

from typing import Final, TypeVar

import msgspec

from beehive.errors import Refused
from modules.upgrader.images.reference import check_digest
from modules.upgrader.images.request import Limits

INDEX_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
CONFIG_TYPES: Final = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
)
LAYER_TYPES: Final = (
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
)

_KERNEL_NAMES: Final = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm/v7",
    "armv6l": "arm/v6",
    "i686": "386",
    "riscv64": "riscv64",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "loongarch64": "loong64",
}
_USUAL_VARIANT: Final = {"arm": "v7", "arm64": "v8", "amd64": "v1"}


class Platform(msgspec.Struct, frozen=True):
    """For which machine a manifest is."""

    architecture: str
    os: str
    variant: str = ""


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """Points to a document or a layer: what it is, its digest, its size in bytes."""

    media_type: str
    digest: str
    size: int
    platform: Platform | None = None
    annotations: dict[str, str] | None = None


class Index(msgspec.Struct, frozen=True, rename="camel"):
    """A list of manifests, one for each platform."""

    manifests: tuple[Descriptor, ...]
    media_type: str = ""


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """One platform's image: its configuration and its layers, lowest first."""

    config: Descriptor
    layers: tuple[Descriptor, ...]
    media_type: str = ""


class RootFs(msgspec.Struct, frozen=True):
    """Digests of the layers before compression."""

    diff_ids: tuple[str, ...]


class Config(msgspec.Struct, frozen=True):
    """What we read of an image's configuration."""

    architecture: str
    os: str
    rootfs: RootFs
    variant: str = ""


class _Kind(msgspec.Struct, frozen=True, rename="camel"):
    media_type: str = ""
    schema_version: int = 0
    manifests: msgspec.Raw = msgspec.Raw()
    layers: msgspec.Raw = msgspec.Raw()


_T = TypeVar("_T")
_INDEX = msgspec.json.Decoder(Index)
_MANIFEST = msgspec.json.Decoder(Manifest)
CONFIG: Final = msgspec.json.Decoder(Config)
_KIND = msgspec.json.Decoder(_Kind)


def decode(decoder: msgspec.json.Decoder[_T], body: bytes, what: str) -> _T:
    """Read JSON that a stranger wrote; brackets without end are a RecursionError to msgspec."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"{what} cannot be read: {error}.") from error


def architecture_of(kernel_name: str) -> str:
    """How images spell what `uname -m` says."""
    if kernel_name not in _KERNEL_NAMES:
        raise Refused(f"Machine {kernel_name!r} is none that images are built for.")
    return _KERNEL_NAMES[kernel_name]


def read_document(body: bytes, declared: str = "") -> Index | Manifest:
    """Tell an index from a manifest by what is in it; `declared` is the media type under which it was handed out.

    A document that could be read as both is refused, for two clients would then install two different images.
    """
    what = "The image's manifest"
    kind = decode(_KIND, body, what)
    if bool(bytes(kind.manifests)) == bool(bytes(kind.layers)):
        raise Refused(_strange(kind))
    document = decode(_MANIFEST, body, what) if bytes(kind.layers) else decode(_INDEX, body, what)
    fitting = INDEX_TYPES if isinstance(document, Index) else MANIFEST_TYPES
    for media_type in filter(None, (kind.media_type, declared)):
        if media_type in INDEX_TYPES + MANIFEST_TYPES and media_type not in fitting:
            raise Refused(f"The image's manifest is not what its media type says ({media_type}).")
    return document


def _strange(kind: _Kind) -> str:
    if kind.schema_version == 1:
        return "The image is in Docker's schema 1, which has no digests to verify; push it again with a current tool."
    return "The image's manifest is neither an index nor a manifest, or both at once."


def choose(index: Index, architecture: str) -> Descriptor:
    """The manifest for this architecture, the most fitting variant first; `Refused` names what there is instead."""
    wanted = acceptable(architecture)
    fitting = [(wanted.index(key), entry) for entry in index.manifests if (key := _key(entry)) in wanted]
    if not fitting:
        there = ", ".join(sorted({f"{key[0]}/{key[1]}".rstrip("/") for m in index.manifests if (key := _key(m))}))
        raise Refused(f"The image is not built for {architecture}, only for {there or 'no platform at all'}.")
    return min(fitting, key=lambda pair: pair[0])[1]


def acceptable(architecture: str) -> tuple[tuple[str, str], ...]:
    """(architecture, variant) pairs that run on `architecture`, best first; a missing variant is the usual one."""
    name, _, variant = architecture.partition("/")
    variant = variant or _USUAL_VARIANT.get(name, "")
    if name == "arm" and variant in ("v5", "v6", "v7", "v8"):
        return tuple((name, f"v{number}") for number in range(min(int(variant[1:]), 7), 4, -1))
    if name == "amd64" and variant in ("v1", "v2", "v3", "v4"):
        return tuple((name, f"v{number}") for number in range(int(variant[1:]), 0, -1))
    return ((name, variant),)


def _key(entry: Descriptor) -> tuple[str, str] | None:
    if entry.platform is None or entry.media_type not in MANIFEST_TYPES + INDEX_TYPES:
        return None
    return _normal(entry.platform.os, entry.platform.architecture, entry.platform.variant)


def _normal(system: str, architecture: str, variant: str) -> tuple[str, str] | None:
    if system != "linux":
        return None
    return architecture, variant or _USUAL_VARIANT.get(architecture, "")


def check_manifest(manifest: Manifest, limits: Limits) -> int:
    """Refuse layers that we cannot or will not read; return the bytes of all layers as transferred."""
    if manifest.config.media_type not in CONFIG_TYPES:
        raise Refused(f"This is not a container image but an artefact of type {manifest.config.media_type[:99]!r}.")
    if len(manifest.layers) > limits.layers:
        raise Refused(f"The image has {len(manifest.layers)} layers, more than the {limits.layers} that are allowed.")
    for descriptor in (manifest.config, *manifest.layers):
        check_digest(descriptor.digest)
        if descriptor.size < 0:
            raise Refused("The image's manifest names a size below zero.")
    for layer in manifest.layers:
        if layer.media_type not in LAYER_TYPES:
            raise Refused(f"The image has a layer of type {layer.media_type[:99]!r}, which cannot be read here.")
    total = sum(layer.size for layer in manifest.layers)
    if total > limits.download:
        raise Refused(f"The image's layers have {total:,} bytes, more than the {limits.download:,} that are allowed.")
    return total


def read_config(body: bytes, manifest: Manifest, architecture: str) -> Config:
    """Read the configuration and refuse an image whose label says one machine and whose content another."""
    config = decode(CONFIG, body, "The image's configuration")
    wanted = acceptable(architecture)
    unsaid = config.os == "linux" and not config.variant and config.architecture == wanted[0][0]
    if not unsaid and _normal(config.os, config.architecture, config.variant) not in wanted:
        built = "/".join(filter(None, (config.os, config.architecture, config.variant)))
        raise Refused(
            f"The image's configuration says that it is built for {built}; this host is linux/{architecture}."
        )
    if len(config.rootfs.diff_ids) != len(manifest.layers):
        raise Refused("The image's configuration and its manifest disagree about the number of layers.")
    for diff_id in config.rootfs.diff_ids:
        check_digest(diff_id)
    return config
