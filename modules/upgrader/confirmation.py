"""The word of the node's owner: asked for and given by files that are root's alone, so it survives every restart."""

import contextlib
from pathlib import Path

import msgspec
from msgspec import Struct

from beehive.messages.host import Waiting
from modules.upgrader.host.files import Files
from modules.upgrader.host.layout import Layout
from modules.upgrader.host.names import attempt_key
from modules.upgrader.sentences import reason as sentence

_WAITING = "waiting.json"


class Word(Struct, frozen=True, kw_only=True):
    """What the owner said; a rejection is final."""

    confirmed: bool
    reason: str = ""


def wait_for(files: Files, layout: Layout, asked: Waiting) -> Waiting:
    """Write down that this upgrade waits; the time of an earlier start of the same wait stays.

    Words about other attempts are of no use any more: a host works on one at a time, and the ends of those that have
    ended are remembered elsewhere.
    """
    before = waiting(layout)
    if before and (before.uid, before.attempt) == (asked.uid, asked.attempt):
        return before
    files.directory(layout.owner)
    for word in layout.owner.glob("word-*.json"):
        if word != _word(layout, asked.uid, asked.attempt):
            files.remove(word)
    files.replace(layout.owner / _WAITING, msgspec.json.encode(asked))
    return asked


def waiting(layout: Layout) -> Waiting | None:
    """The upgrade that waits now."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((layout.owner / _WAITING).read_bytes(), type=Waiting)
    return None


def stop_waiting(files: Files, layout: Layout) -> None:
    """Nothing waits any more."""
    if layout.owner.is_dir():
        files.discard(layout.owner / _WAITING)


def say(files: Files, layout: Layout, about: Waiting, *, confirmed: bool, reason: str = "") -> Word:
    """The owner's word, durably; what was said first stays, and is returned. Raises OSError."""
    before = said(layout, about.uid, about.attempt)
    if before:
        return before
    word = Word(confirmed=confirmed, reason=sentence(reason))
    files.directory(layout.owner)
    files.replace(_word(layout, about.uid, about.attempt), msgspec.json.encode(word))
    return word


def said(layout: Layout, uid: str, attempt: int) -> Word | None:
    """What the owner said about this attempt; None: nothing yet."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_word(layout, uid, attempt).read_bytes(), type=Word)
    return None


def _word(layout: Layout, uid: str, attempt: int) -> Path:
    return layout.owner / f"word-{attempt_key(uid, attempt)}.json"
