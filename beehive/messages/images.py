"""Topic `images`, owned by digests: what an image is, as its registry says."""

from typing import TypeAlias

from msgspec import Struct

from beehive.message import Request


class Digests(Struct, frozen=True, gc=False):
    """The registry's answer, checked."""

    by_architecture: dict[str, str]
    """Architecture as a job's pins name it (`amd64`, `arm/v7`) to `sha256:…` of the index, or of the only manifest."""


class NoDigests(Struct, frozen=True, gc=False):
    """There is none that one may believe."""

    reason: str
    """A sentence; it never holds the token."""
    may_pass: bool = False
    """Asking again later may help."""


DigestsAnswer: TypeAlias = Digests | NoDigests


class LookUpDigests(Request[DigestsAnswer], frozen=True, kw_only=True, gc=False, tag="images.look-up-digests"):
    """taskmanager, before a job starts that gives a registry and no digests (product.md 3.1)."""

    host: str
    """The registry, `host[:port]`."""
    token: str
    """Bearer token for it, and for nobody else."""
    image: str
    """As in the job; which registry it names does not count here."""
    version: str
