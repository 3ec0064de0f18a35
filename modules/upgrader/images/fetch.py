"""From a request to files on this host: the first source that has the image, its layers, the wanted files."""

import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio.from_thread
import anyio.to_thread
import msgspec

from beehive.errors import Refused, Unavailable
from modules.upgrader.images import partial
from modules.upgrader.images.archive import read_archive
from modules.upgrader.images.images import Images
from modules.upgrader.images.layout import DirectoryFiles, LayoutImages
from modules.upgrader.images.look import Found, look
from modules.upgrader.images.reference import Repository, parse_repository, tag_of
from modules.upgrader.images.request import Fetched, ImageRequest, Limits, PlacedFile, Resolved, WantedFile, check_files
from modules.upgrader.images.sources import Access, LayoutSource, RegistrySource, Source
from modules.upgrader.images.unpack import Layer, extract

_DEFAULT_ACCESS = Access()
_DEFAULT_LIMITS = Limits()
_T = TypeVar("_T")


class _Brought(msgspec.Struct, frozen=True):
    """An image whose layers are on this host."""

    found: Found
    layers: tuple[Layer, ...]
    received: int


async def resolve(
    request: ImageRequest,
    sources: Sequence[Source],
    *,
    access: Access = _DEFAULT_ACCESS,
    limits: Limits = _DEFAULT_LIMITS,
) -> Resolved:
    """Find the image and its sizes; nothing is written. Raises `Refused`, `Unavailable`."""

    async def use(images: Images) -> Resolved:
        return (await look(images, request, limits)).image

    return await _first(request, sources, access, limits, use)


async def fetch(
    request: ImageRequest,
    files: Sequence[WantedFile],
    sources: Sequence[Source],
    work: Path,
    *,
    access: Access = _DEFAULT_ACCESS,
    limits: Limits = _DEFAULT_LIMITS,
) -> Fetched:
    """Place the wanted files, all or none; sources are tried in their order.

    `work` is a directory of this client's own, for one call at a time: after `Unavailable` (or a cancellation) it keeps
    what was downloaded and the next call goes on from there; after success and `Refused` it is empty.
    """
    wanted = tuple(files)
    check_files(wanted)

    async def use(images: Images) -> _Brought:
        return await _bring(images, await look(images, request, limits), work)

    try:
        brought = await _first(request, sources, access, limits, use)
        placed = await anyio.to_thread.run_sync(_place, brought, wanted, request.architecture, limits)
    except Refused:
        await anyio.to_thread.run_sync(partial.clean, work)
        raise
    await anyio.to_thread.run_sync(partial.clean, work)
    return Fetched(image=brought.found.image, files=placed, received=brought.received)


async def _first(
    request: ImageRequest,
    sources: Sequence[Source],
    access: Access,
    limits: Limits,
    use: Callable[[Images], Awaitable[_T]],
) -> _T:
    """What the first source gives that can; if none can, what was wrong with each."""
    repository = parse_repository(request.image)
    tag_of(request.version)
    problems: list[Refused | Unavailable] = []
    for source in sources:
        if isinstance(source, RegistrySource) and source.mirrors not in ("", repository.host):
            continue
        try:
            async with _opened(source, repository, access, limits) as images:
                return await use(images)
        except (Refused, Unavailable) as problem:
            problems.append(problem)
        except OSError as error:
            problems.append(_of_disk(error))
    raise _sum(problems, repository)


def _sum(problems: Sequence[Refused | Unavailable], repository: Repository) -> Refused | Unavailable:
    """One error for all sources; it may pass if one of them may."""
    if not problems:
        return Refused(f"This host has no source for images of {repository.host}; list one under images.sources.")
    text = " ".join(dict.fromkeys(problem.reason for problem in problems))
    passing = [problem for problem in problems if isinstance(problem, Unavailable)]
    if not passing:
        return problems[0] if len(problems) == 1 else Refused(text)
    waits = [problem.retry_after for problem in passing if problem.retry_after is not None]
    return Unavailable(text, min(waits, default=None))


@asynccontextmanager
async def _opened(source: Source, repository: Repository, access: Access, limits: Limits) -> AsyncIterator[Images]:
    if isinstance(source, RegistrySource):
        from modules.upgrader.images import registry  # noqa: PLC0415 - brings httpx

        address = source.host or repository.address
        async with registry.opened(address, source.prefix + repository.path, access, limits) as images:
            yield images
    elif isinstance(source, LayoutSource):
        name = f"Layout {source.directory}"
        yield LayoutImages(name, DirectoryFiles(source.directory), repository, limits)
    else:
        yield await anyio.to_thread.run_sync(read_archive, source.file, repository, limits)


async def _bring(images: Images, found: Found, work: Path) -> _Brought:
    blobs = found.manifest.layers
    await anyio.to_thread.run_sync(partial.sweep, work, blobs)
    pairs = zip(blobs, found.config.rootfs.diff_ids, strict=True)
    layers = [Layer(await images.layer(blob, work), blob.digest, diff_id) for blob, diff_id in pairs]
    return _Brought(found, tuple(layers), images.received)


def _place(
    brought: _Brought, files: tuple[WantedFile, ...], architecture: str, limits: Limits
) -> tuple[PlacedFile, ...]:
    try:
        return extract(brought.layers, files, architecture, limits, anyio.from_thread.check_cancelled)
    except OSError as error:
        raise _of_disk(error) from error


def _of_disk(error: OSError) -> Unavailable:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable(f"The disk is full{where}; make room and try again.")
    return Unavailable(f"Files of this host cannot be used{where}: {error.strerror or error}.")
