"""Names of images: what a job's `image` and `version` mean, spelled out in full. Pure.

As Docker normalises them (spec/kubeedge.md 4.7, vectors `rule_v1alpha1_image_repo`): without a host the registry is
docker.io, there a single word lies under `library/`. A tag or digest in `image` is overridden by the version.
"""

import re

import msgspec

from beehive.errors import Refused

DEFAULT_REPOSITORY = "kubeedge/installation-package"
DEFAULT_HOST = "docker.io"
_HUB_ALIASES = ("index.docker.io", "registry-1.docker.io")
_HUB_ADDRESS = "registry-1.docker.io"

_HOST = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:]+\])"
    r"(?::[0-9]{1,5})?"
)
_PATH = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_WRITTEN = re.compile(r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-fA-F]{64})?")
"""What may stand after a repository."""
_VERSION = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+.][0-9A-Za-z.+-]+)?")
_LONGEST = 255


class Repository(msgspec.Struct, frozen=True):
    """A repository in full."""

    host: str
    path: str

    @property
    def name(self) -> str:
        """`docker.io/kubeedge/installation-package`, the form in which people and policies see it."""
        return f"{self.host}/{self.path}"

    @property
    def address(self) -> str:
        """`host[:port]` to connect to; Docker's hub answers under another name than its images carry."""
        return _HUB_ADDRESS if self.host == DEFAULT_HOST else self.host


def parse_repository(image: str) -> Repository:
    """Read `spec.image`, without its tag or digest. Refused: what is no image name."""
    text = without_tag(image or DEFAULT_REPOSITORY)
    first, slash, rest = text.partition("/")
    named = bool(slash) and ("." in first or ":" in first or first == "localhost" or first != first.lower())
    host, path = (first, rest) if named else (DEFAULT_HOST, text)
    if host in _HUB_ALIASES:
        host = DEFAULT_HOST
    if host == DEFAULT_HOST and "/" not in path:
        path = f"library/{path}"
    written = _WRITTEN.fullmatch(image.removeprefix(text) if image else "")
    if (
        not written
        or len(image) > 2 * _LONGEST
        or len(path) > _LONGEST
        or not _HOST.fullmatch(host)
        or not _PATH.fullmatch(path)
    ):
        raise Refused(f"{image[:_LONGEST]!r} is not the name of an image; write one like {DEFAULT_REPOSITORY}.")
    return Repository(host.lower(), path)


def without_tag(image: str) -> str:
    """Drop `@digest` and `:tag`; the colon of a port stays."""
    text = image.partition("@")[0]
    head, colon, tail = text.rpartition(":")
    return head if colon and "/" not in tail and not tail.endswith("]") else text


def tag_of(version: str) -> str:
    """The tag of a version: `v1.30.4+k3s1` → `v1.30.4-k3s1`, for a tag may hold no plus sign; `1.12.1` → `v1.12.1`."""
    if not _VERSION.fullmatch(version):
        raise Refused(f"{version[:_LONGEST]!r} is not a version; write one like v1.23.0.")
    tag = (version if version.startswith("v") else f"v{version}").replace("+", "-")
    if not _TAG.fullmatch(tag):
        raise Refused(f"Version {version[:_LONGEST]!r} makes no image tag; a tag has at most 128 characters.")
    return tag


def check_digest(digest: str) -> str:
    """Return the digest if it is one that we can verify (`sha256:` and 64 hexadecimal digits)."""
    lowered = digest.lower()
    if not _DIGEST.fullmatch(lowered):
        raise Refused(f"{digest[:_LONGEST]!r} is not a digest; write sha256: and 64 hexadecimal digits.")
    return lowered
