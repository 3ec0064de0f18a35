"""What every source of images can do."""

from pathlib import Path
from typing import Protocol

from beehive.errors import Refused
from modules.upgrader.images.manifest import Descriptor
from modules.upgrader.images.unpack import Extent


class NotFound(Refused):
    """The source works and has no such thing."""


class Images(Protocol):
    """One repository at one source. Each method raises `NotFound`, `Refused` or `Unavailable`."""

    name: str
    """For people: where this is."""
    received: int
    """Bytes of layers that came over the network."""
    keeps_digests: bool
    """Whether its documents are the ones that other sources hand out under the same digest."""

    async def document(self, reference: str) -> tuple[bytes, str]:
        """The index or manifest of a tag or digest, and the media type under which it is handed out ("": unsaid)."""

    async def small(self, blob: Descriptor) -> bytes:
        """A blob that is held in memory: the configuration. Its size and digest have been verified."""

    async def layer(self, blob: Descriptor, work: Path) -> Extent:
        """A blob that is on this host afterwards. Its size and digest have been verified while it came."""
