"""Versions of agents: `v1.23.1`, `v1.30.4+k3s1`, `v1.23.1-acme.5`."""

import re

from beehive.api.limits import LONGEST_VERSION, VERSION

_VERSION = re.compile(VERSION)
_NUMBERS = re.compile(r"v?([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,18})(?![0-9])")


def normalised(version: str) -> str:
    """`1.12.1` is read as `v1.12.1`; everything else stays as it was written."""
    return f"v{version}" if version[:1].isdigit() else version


def is_version(version: str) -> bool:
    """A version, in either spelling, of at most 63 characters (it becomes a tag and a directory)."""
    return len(version) <= LONGEST_VERSION and _VERSION.fullmatch(version) is not None


def image_tag(version: str) -> str:
    """Image tags know no `+`: `v1.30.4+k3s1` is tagged `v1.30.4-k3s1`."""
    return normalised(version).replace("+", "-")


def same(one: str, other: str) -> bool:
    """The same version, whichever way it is spelt."""
    return normalised(one) == normalised(other)


def agent_version(whole: str) -> str:
    """Of kubelet's `v1.30.4-kubeedge-v1.22.0` the last part, else the whole (product.md 3.4.2)."""
    return whole.rpartition("-kubeedge-")[2]


def is_newer(one: str, other: str) -> bool:
    """Is `one` newer than `other`? Only major.minor.patch decides; vendors' suffixes have no order (product.md 3.1)."""
    ours, theirs = numbers(one), numbers(other)
    return ours is not None and theirs is not None and ours > theirs


def numbers(version: str) -> tuple[int, int, int] | None:
    """major, minor, patch; None for what does not begin like a version."""
    found = _NUMBERS.match(version)
    if not found:
        return None
    major, minor, patch = found.groups()
    return int(major), int(minor), int(patch)
