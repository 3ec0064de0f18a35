"""What of a registry's answer may be believed. Pure; every refusal is a sentence for the job."""

import hashlib

import msgspec
from msgspec import Struct

from beehive.api.limits import MOST_ARCHITECTURES
from beehive.messages.images import Digests, DigestsAnswer, NoDigests

MOST_BYTES = 4 * 1024 * 1024
"""OCI lets no manifest be larger."""
INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFEST_TYPES = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
ACCEPT = ", ".join(INDEX_TYPES + MANIFEST_TYPES)
_PLAIN = ("amd64", "arm64")
"""A manifest that stands alone does not name its platform; a pin counts for these then, as v1alpha1's `value` does."""
_MAY_PASS = (408, 425, 429, 500, 502, 503, 504)


class Answer(Struct, frozen=True):
    """As it came; `body` is empty where the status is not 200."""

    status: int
    content_type: str = ""
    digest: str = ""
    """`Docker-Content-Digest`."""
    body: bytes = b""


class _Platform(Struct, frozen=True):
    architecture: str = ""
    os: str = ""
    variant: str = ""


class _Entry(Struct, frozen=True):
    platform: _Platform | None = None


class _Document(Struct, frozen=True, rename="camel"):
    media_type: str = ""
    manifests: tuple[_Entry, ...] | None = None
    layers: tuple[msgspec.Raw, ...] | None = None


_document = msgspec.json.Decoder(_Document).decode


def judged(answer: Answer, host: str, image: str) -> DigestsAnswer:
    """The digests; `host` and `image` are for the sentences."""
    if answer.status != 200:
        return _refused(answer.status, host, image)
    digest = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
    if answer.digest.startswith("sha256:") and answer.digest != digest:
        return NoDigests(f"registry {host} answers with something that does not have the digest that it names")
    try:
        document = _document(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return NoDigests(f"registry {host} answers with something that is no manifest of an image")
    kind = document.media_type or answer.content_type.partition(";")[0].strip()
    if kind in INDEX_TYPES and document.manifests is not None:
        return _of_index(document.manifests, digest, host, image)
    if kind in MANIFEST_TYPES and document.layers is not None:
        return Digests(dict.fromkeys(_PLAIN, digest))
    return NoDigests(f"registry {host} answers with something that is no manifest of an image")


def _of_index(entries: tuple[_Entry, ...], digest: str, host: str, image: str) -> DigestsAnswer:
    platforms = [one.platform for one in entries if one.platform is not None and one.platform.os == "linux"]
    names = sorted({_name(one) for one in platforms if one.architecture.isascii() and one.architecture.isalnum()})
    if not names:
        return NoDigests(f"{image} in registry {host} is built for no Linux platform")
    if len(names) > MOST_ARCHITECTURES:
        return NoDigests(f"{image} in registry {host} is built for more than {MOST_ARCHITECTURES} platforms")
    return Digests(dict.fromkeys(names, digest))


def _name(platform: _Platform) -> str:
    """As pins name it: every arm64 is v8, and other variants are named."""
    variant = platform.variant if platform.variant.isascii() and platform.variant.isalnum() else ""
    return f"{platform.architecture}/{variant}" if variant and platform.architecture == "arm" else platform.architecture


def _refused(status: int, host: str, image: str) -> NoDigests:
    if 300 <= status < 400:
        return NoDigests(f"registry {host} sends us elsewhere (HTTP {status}), where nobody is followed")
    if status in (401, 403):
        return NoDigests(f"registry {host} does not take the token of spec.imageDigestGatter (HTTP {status})")
    if status == 404:
        return NoDigests(f"registry {host} has no {image}")
    if status in _MAY_PASS:
        return NoDigests(f"registry {host} cannot answer now (HTTP {status})", may_pass=True)
    return NoDigests(f"registry {host} answers with HTTP {status}")
