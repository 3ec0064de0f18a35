"""From a tag or a pinned digest to the one manifest for this architecture, every document verified on the way."""

import contextlib
import hashlib

import msgspec

from beehive.errors import Refused
from modules.upgrader.images.images import Images, NotFound
from modules.upgrader.images.manifest import (
    Config,
    Descriptor,
    Index,
    Manifest,
    check_manifest,
    choose,
    read_config,
    read_document,
)
from modules.upgrader.images.reference import check_digest, parse_repository, tag_of
from modules.upgrader.images.request import ImageRequest, Limits, Resolved

_NESTED = 3


class Found(msgspec.Struct, frozen=True):
    """An image at a source, nothing of its layers read yet."""

    image: Resolved
    manifest: Manifest
    config: Config


async def look(images: Images, request: ImageRequest, limits: Limits) -> Found:
    """From tag or pin to the one manifest for this architecture, every document verified."""
    repository, tag = parse_repository(request.image), tag_of(request.version)
    pin = check_digest(request.pin) if request.pin else ""
    body, declared = await _pinned(images, pin, tag) if pin else await images.document(tag)
    top = digest = _digest(body)
    document = read_document(body, declared)
    for _ in range(_NESTED):
        if not isinstance(document, Index):
            break
        entry = choose(document, request.architecture)
        digest = check_digest(entry.digest)
        document = read_document(await _listed(images, entry), entry.media_type)
    if isinstance(document, Index):
        raise Refused("The image's index leads from one index to the next without end.")
    size = check_manifest(document, limits)
    config = read_config(await images.small(document.config), document, request.architecture)
    image = Resolved(
        reference=f"{repository.name}:{tag}",
        source=images.name,
        index_digest=top if top != digest else None,
        manifest_digest=digest if images.keeps_digests else None,
        architecture=request.architecture,
        layers=len(document.layers),
        size=size,
    )
    return Found(image, document, config)


async def _pinned(images: Images, pin: str, tag: str) -> tuple[bytes, str]:
    """What the pin names, whatever the tag means by now; if it is not there, say what the tag means."""
    try:
        body, declared = await images.document(pin)
    except NotFound as error:
        with contextlib.suppress(NotFound):
            now, _ = await images.document(tag)
            raise Refused(
                f"{images.name} has nothing with the pinned digest {pin}; its tag {tag} is {_digest(now)}."
            ) from error
        raise
    if _digest(body) != pin:
        raise Refused(f"{images.name} handed out a manifest with the digest {_digest(body)} where {pin} is pinned.")
    return body, declared


async def _listed(images: Images, entry: Descriptor) -> bytes:
    body, _ = await images.document(entry.digest)
    if len(body) != entry.size or _digest(body) != entry.digest:
        raise Refused(f"{images.name} handed out a manifest that is not the one its index names ({entry.digest}).")
    return body


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
