"""What replaces the program when `upgradeTool` is not `keadm`: the image's own keadm, or a command of the host's owner.

It is run in our unit, between our backup and our verification, and rolled back like everything else (product.md 6.3).
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO

from msgspec.structs import replace

from beehive.errors import Refused
from modules.upgrader.artefact import load_extracted
from modules.upgrader.checks import IMAGE_KEADM, KEADM
from modules.upgrader.config import Provider
from modules.upgrader.host.files import digest_of
from modules.upgrader.host.host import Host
from modules.upgrader.host.layout import KEADM as KEADM_NAME
from modules.upgrader.host.lock import lent
from modules.upgrader.sentences import with_last_words
from modules.upgrader.tool.record import Order

_KUBEEDGE = Provider(
    run=("{keadm}", "upgrade", "edge", "--force", "--toVersion", "{version}", "--image", "{image}"),
)
"""KubeEdge's command line (spec/kubeedge.md 7.5); without `--image` where the job names none."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TAIL = 16 * 1024


def is_ours(order: Order) -> bool:
    """Does our own tool replace the program?"""
    return order.tool == KEADM


def replace_program(host: Host, order: Order) -> Order:
    """Bring the new program to its place; the order, with the digest of what is there now. Raises Refused, OSError."""
    if is_ours(order):
        host.program.swap(host.layout.artefact(order.to_version), order.to_version, like_installed=True)
        found, blame = host.program.digest(), "what was written; the disk is faulty"
    else:
        _have_it_replaced(host, order)
        found, blame = host.program.digest(), "the program of the image that was checked"
        if found == order.old_digest != order.new_digest:
            raise Refused(f"{order.tool} ended well and replaced nothing")
    if order.new_digest and found != order.new_digest:
        raise Refused(f"{host.layout.executable} is not {blame}")
    return replace(order, new_digest=found)


def _have_it_replaced(host: Host, order: Order) -> None:
    """Run the provider to its end. Raises Refused with its last words."""
    provider = _KUBEEDGE if order.tool == IMAGE_KEADM else host.config.providers.get(order.tool)
    if provider is None:
        raise Refused(f"upgradeTool {order.tool!r} is not known on this host any more")
    if provider.image:
        _check_keadm(host, order)
    argv = argv_of(provider, _places(host, order))
    with lent(host.layout.lock):  # KubeEdge's keadm takes the mere existence of our lock's file for another keadm
        _run(order.tool, argv, provider.timeout)


def argv_of(provider: Provider, places: Mapping[str, str]) -> tuple[str, ...]:
    """The command with its places filled in, one word each; a flag whose value is empty is left out. Pure."""
    words: list[str] = []
    for word in provider.run:
        filled = _filled(word, places)
        if filled or not word:
            words.append(filled)
        elif words and words[-1].startswith("--"):
            words.pop()
    return tuple(words)


def _filled(word: str, places: Mapping[str, str]) -> str:
    """A value is never read for places again: what a job says is no template."""
    parts = word.split("{")
    filled = [parts[0]]
    for part in parts[1:]:
        name, closed, rest = part.partition("}")
        filled.append(f"{places[name]}{rest}" if closed and name in places else f"{{{part}")
    return "".join(filled)


def _places(host: Host, order: Order) -> dict[str, str]:
    layout = host.layout
    return {
        "version": order.to_version,
        "image": order.image,
        "keadm": str(layout.upgrade(order.to_version) / KEADM_NAME),
        "program": str(layout.artefact(order.to_version)),
        "executable": str(layout.executable),
        "config": str(layout.config or ""),
        "root": str(layout.root),
    }


def _check_keadm(host: Host, order: Order) -> None:
    """What is run as root is what was checked."""
    extracted = load_extracted(host.layout, order.to_version)
    place = host.layout.upgrade(order.to_version) / KEADM_NAME
    if extracted is None or not extracted.keadm or digest_of(place) != extracted.keadm:
        raise Refused(f"{place} is not the keadm of the image that was checked; start the upgrade anew")


def _run(name: str, argv: tuple[str, ...], timeout: float) -> None:
    with tempfile.TemporaryFile() as said:
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={"PATH": _PATH, "LANG": "C.UTF-8", "HOME": "/root"},
                process_group=0,
            )
        except OSError as error:
            raise Refused(f"{name}: {argv[0]} cannot be run: {error.strerror}") from error
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise Refused(with_last_words(f"{name} had not ended after {timeout:g} s", _tail(said))) from None
        if code:
            how = f"exited with code {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}"
            raise Refused(with_last_words(f"{name} {how}", _tail(said)))


def _tail(said: IO[bytes]) -> list[str]:
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - _TAIL))
    return said.read().decode("utf-8", "replace").splitlines()[-20:]
