"""The image client: verified files out of OCI images, from registries, mirrors, local layouts and archives.

    found = await resolve(request, sources, access=access)              # sizes and digests, nothing written
    done = await fetch(request, files, sources, work, access=access)    # the wanted files, complete, at their places

`Refused` is permanent (a hostile or wrong image, a policy), `Unavailable` may pass (`work` keeps what was downloaded).
Importing this package imports neither httpx nor zstandard: they come with the first use.
"""

from modules.upgrader.images.fetch import fetch, resolve
from modules.upgrader.images.manifest import architecture_of
from modules.upgrader.images.policy import KUBEEDGE_ONLY, check_image
from modules.upgrader.images.reference import check_digest, parse_repository, tag_of
from modules.upgrader.images.request import Fetched, ImageRequest, Limits, PlacedFile, Resolved, WantedFile
from modules.upgrader.images.sources import Access, ArchiveSource, Credentials, LayoutSource, RegistrySource, Source

__all__ = [
    "KUBEEDGE_ONLY",
    "Access",
    "ArchiveSource",
    "Credentials",
    "Fetched",
    "ImageRequest",
    "LayoutSource",
    "Limits",
    "PlacedFile",
    "RegistrySource",
    "Resolved",
    "Source",
    "WantedFile",
    "architecture_of",
    "check_digest",
    "check_image",
    "fetch",
    "parse_repository",
    "resolve",
    "tag_of",
]
