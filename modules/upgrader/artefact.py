"""Brings the new program to this host: the owner's policy, the image, the file, and what that says of itself."""

import platform
from pathlib import Path

import anyio.to_thread
import msgspec
from msgspec import Struct

from beehive.api.version import same
from beehive.errors import Refused
from modules.upgrader.config import Images
from modules.upgrader.host.files import Files
from modules.upgrader.host.host import Host
from modules.upgrader.host.layout import KEADM, MANIFEST, Layout
from modules.upgrader.host.program import program_of
from modules.upgrader.host.programs import version_of
from modules.upgrader.host.tree import walk
from modules.upgrader.images import (
    Access,
    ArchiveSource,
    ImageRequest,
    LayoutSource,
    RegistrySource,
    Resolved,
    Source,
    WantedFile,
    architecture_of,
    check_digest,
    check_image,
    fetch,
    resolve,
)

KEADM_IN_IMAGE = "/usr/local/bin/keadm"


class Extracted(Struct, frozen=True):
    """`manifest.json` beside what was extracted: which image it came from, which bytes it is."""

    version: str
    image: str
    """Repository and tag in full."""
    manifest_digest: str | None
    program: str
    """`sha256:…` of the program."""
    size: int
    keadm: str = ""
    """`sha256:…` of the image's own keadm; empty: it has none."""


def image_request(image: str, version: str, pins: dict[str, str] | None) -> ImageRequest:
    """What the job names, for this machine. Refused: pins that leave this architecture out, or are no digests."""
    architecture = architecture_of(platform.machine())
    pin = (pins or {}).get(architecture) or (pins or {}).get(architecture.partition("/")[0], "")
    if pins and not pin:
        raise Refused(f"The job pins image digests for {', '.join(sorted(pins))} but none for {architecture}")
    pin = check_digest(pin) if pin else ""
    return ImageRequest(image=image, version=version, architecture=architecture, pin=pin)


def check_policy(images: Images, request: ImageRequest) -> None:
    """Refused, if the owner of this host does not let a job install this image."""
    check_image(request.image, request.pin, allow=images.allow, require_digest=images.require_digest)


async def look_up(host: Host, request: ImageRequest) -> Resolved:
    """Find the image; nothing is written. Raises Refused, Unavailable."""
    images = host.config.images
    return await resolve(request, sources_of(images), access=access_of(images))


async def bring(host: Host, request: ImageRequest) -> Extracted:
    """Extract the program (and the image's keadm) to the upgrade's folder. Raises Refused, Unavailable, OSError."""
    images, layout = host.config.images, host.layout
    folder, program = layout.upgrade(request.version), layout.artefact(request.version)
    if layout.link:
        await anyio.to_thread.run_sync(host.files.remove_tree, program)  # of another image, perhaps
    keadm = WantedFile(path=KEADM_IN_IMAGE, to=folder / KEADM, mode=0o700, policy="any", optional=True)
    await anyio.to_thread.run_sync(host.files.remove, keadm.to)  # of another image, perhaps
    wanted = (*_wanted(host, program), keadm)
    fetched = await fetch(request, wanted, sources_of(images), layout.downloads, access=access_of(images))
    if layout.link:
        await anyio.to_thread.run_sync(_let_in, layout, program)
    size = sum(file.size for file in fetched.files if file.to == program or program in file.to.parents)
    digest = await anyio.to_thread.run_sync(host.program.digest_of, program)
    tool = next((file.sha256 for file in fetched.files if file.to == keadm.to), "")
    extracted = Extracted(request.version, fetched.image.reference, fetched.image.manifest_digest, digest, size, tool)
    host.files.replace(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(extracted), indent=1) + b"\n")
    return extracted


def _wanted(host: Host, program: Path) -> tuple[WantedFile, ...]:
    target, layout = host.config.target, host.layout
    if layout.link is None:
        return (WantedFile(path=target.image_path, to=program, mode=0o755, policy=target.format),)
    inside = layout.executable.relative_to(layout.link)
    started = WantedFile(path=f"{target.image_path}/{inside}", to=program / inside, mode=0o755, policy=target.format)
    return started, WantedFile(path=target.image_path, to=program, policy="any", folder=True)


def _let_in(layout: Layout, program: Path) -> None:
    """A tree is asked for its version as somebody without powers, who has to find its other files by their paths."""
    for folder in (layout.upgrades, program.parent):
        folder.chmod(0o711)
    for folder in (program, *(path for path in walk(program) if path.is_dir())):
        folder.chmod(0o755)


def check_program(host: Host, version: str) -> None:
    """Ask the extracted program itself, before anything is touched. Refused: it does not run, or is another version."""
    said = version_of(host.layout.started(version), host.config.version_timeout)
    if not same(said, version):
        raise Refused(f"The program in the image says that it is {said}, not {version}")


def load_extracted(layout: Layout, version: str) -> Extracted | None:
    """What lies in the upgrade's folder, its digest verified; None: nothing whole."""
    try:
        extracted = msgspec.json.decode((layout.upgrade(version) / MANIFEST).read_bytes(), type=Extracted)
    except (OSError, msgspec.MsgspecError):
        return None
    program = program_of(Files(), layout)
    whole = same(extracted.version, version) and program.digest_of(layout.artefact(version)) == extracted.program
    return extracted if whole else None


def extracted_digests(layout: Layout) -> set[str]:
    """Digests of all programs that were extracted here, from their manifests."""
    found = set()
    for manifest in layout.upgrades.glob(f"*/{MANIFEST}"):
        try:
            found.add(msgspec.json.decode(manifest.read_bytes(), type=Extracted).program)
        except (OSError, msgspec.MsgspecError):
            continue
    return found


def sources_of(images: Images) -> list[Source]:
    """In the order in which they are asked."""
    sources: list[Source] = []
    if images.layout:
        sources.append(LayoutSource(directory=Path(images.layout)))
    if images.archive:
        sources.append(ArchiveSource(file=Path(images.archive)))
    sources += [RegistrySource(host=one.host, prefix=one.prefix, mirrors=one.only_for) for one in images.mirrors]
    return [*sources, RegistrySource()] if images.registry else sources


def access_of(images: Images) -> Access:
    """How registries are spoken to."""
    return Access(
        plain_http=images.insecure_hosts,
        ca_file=Path(images.ca_file) if images.ca_file else None,
        attempts=images.attempts,
        connect_timeout=float(images.connect_timeout),
        read_timeout=float(images.read_timeout),
    )
