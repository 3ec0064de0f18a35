"""What the rest of the upgrader asks of the image client, and what it gets back: plain values only."""

from pathlib import Path
from typing import Literal

import msgspec

from beehive.errors import Refused

MIB = 1024 * 1024

Policy = Literal["elf", "any"]
"""What a file must be before it is placed: an executable for this architecture, or anything."""


class WantedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file to take out of the image. Only `to` decides where on the host it goes; the image never does."""

    path: str
    """Where the file lies in the image, such as `/usr/local/bin/keadm`; links on the way are followed in the image."""
    to: Path
    """Absolute path on the host. Folders that are missing are made with mode 0700; what is there is replaced whole."""
    mode: int = 0o700
    """Permission bits of the placed file; the image's own mode, owner and times are ignored."""
    policy: Policy = "elf"
    optional: bool = False
    """Leave it out where the image has none."""
    folder: bool = False
    """All that lies below `path`, each file below `to` under the name that it has there, as 0755 if the image has it so
    and 0644 otherwise; links become files. `policy` is for those that are wanted by their own names too."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What an image may cost this host. All sizes in bytes."""

    file: int = 512 * MIB
    """Largest wanted file."""
    files: int = 4096
    """Files of a wanted folder."""
    download: int = 2048 * MIB
    """All layers of one image together, as they are transferred."""
    unpacked: int = 4096 * MIB
    """All layers of one image together, unpacked (nothing of that is written but the wanted files)."""
    entries: int = 65_536
    """Files and folders in all layers together, those included that are only named on the way to another."""
    names: int = 16 * MIB
    """Length of all names together."""
    document: int = 4 * MIB
    """Largest index, manifest, configuration or token answer."""
    layers: int = 128


class ImageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which image, for which architecture."""

    image: str = ""
    """The job's `spec.image`: a repository; a tag or digest in it is overridden by `version`. Empty: KubeEdge's."""
    version: str
    """The job's `spec.version`: `v1.23.0`; `1.23.0` is read as `v1.23.0`, `v1.30.4+k3s1` has the tag `v1.30.4-k3s1`."""
    architecture: str
    """`amd64`, `arm64`, `arm/v7` … as images spell it; see `manifest.architecture_of` for the kernel's spelling."""
    pin: str = ""
    """`sha256:…` of the image index or of this platform's manifest; empty: whatever the tag means now."""


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """An image found, nothing of its layers read yet."""

    reference: str
    """Repository and tag in full: `docker.io/kubeedge/installation-package:v1.23.0`."""
    source: str
    """Where it was found, for people."""
    index_digest: str | None
    """None if the tag leads straight to one platform's manifest."""
    manifest_digest: str | None
    """Use it as the next request's pin. None only for a docker archive, which keeps no manifest."""
    architecture: str
    layers: int
    size: int
    """Bytes of all layers as transferred."""


class PlacedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that lies complete and synced at its place."""

    path: str
    to: Path
    size: int
    sha256: str
    """`sha256:…` of the bytes placed."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """An image whose wanted files are all in place."""

    image: Resolved
    files: tuple[PlacedFile, ...]
    received: int
    """Bytes of layers that this call got over the network from `image.source`, those of a cut transfer included."""


def check_files(files: tuple[WantedFile, ...]) -> None:
    """Refuse orders that could not be carried out as meant."""
    if not files:
        raise Refused("No file is wanted from the image; name at least one.")
    places = [file.to for file in files]
    for file in files:
        if not file.to.is_absolute() or ".." in file.to.parts:
            raise Refused(f"{file.to} is not an absolute path without '..'; say where {file.path} is to be placed.")
        if places.count(file.to) > 1:
            raise Refused(f"{file.to} is named twice as the place of a file; give each file its own.")
