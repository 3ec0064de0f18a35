"""Names that come from somebody else and become part of a path: one check for all of them. Pure."""

import re

from beehive.api.version import is_version, normalised
from beehive.errors import Refused

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_+-]|\.(?!\.)){0,99}")
_LONGEST_SHOWN = 64


def checked_name(text: str) -> str:
    """The text if it can be one part of a path, and a part of a unit's name; otherwise Refused."""
    if not _NAME.fullmatch(text):
        raise Refused(
            f"{text[:_LONGEST_SHOWN]!r} cannot be the name of a file; use letters, digits, '.', '_', '-', '+'"
        )
    return text


def checked_version(text: str) -> str:
    """The version as it names folders (`1.12.1` → `v1.12.1`); Refused if it is none."""
    if not is_version(text):
        raise Refused(f"{text[:_LONGEST_SHOWN]!r} is not a version; write one like v1.23.0")
    return checked_name(normalised(text))


def attempt_key(uid: str, attempt: int) -> str:
    """Name of all records of one attempt."""
    return checked_name(f"{uid}-{attempt}")


def unit_key(uid: str, attempt: int) -> str:
    """The short name of an attempt: `{uid8}-{attempt}`, in the name of the tool's unit (product.md 6.1)."""
    return checked_name(f"{uid[:8]}-{attempt}")
