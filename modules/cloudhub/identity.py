"""Who a peer is: the subject of its certificate, and nothing that it says (spec/kubeedge.md 5.9, 5.10). Pure."""

from collections.abc import Iterable, Mapping
from ssl import cert_time_to_seconds
from typing import Any

from beehive.errors import Refused
from beehive.messages import wire

ORGANISATION = "system:nodes"
PREFIX = "system:node:"
MOST_NAME = 64 - len(PREFIX)
"""A common name has at most 64 characters (X.509, ub-common-name)."""


def common_name(node: str) -> str:
    """The CN of a node's certificate. Raises Refused for a name that no certificate of ours can carry."""
    if not wire.is_name(node):
        raise Refused(f"{node[:60]!r} cannot be the name of a node: write lower-case letters, digits, '-' and '.'")
    if len(node) > MOST_NAME:
        raise Refused(f"the node name {node!r} has {len(node)} characters, a certificate can carry {MOST_NAME}")
    return PREFIX + node


def node_of(certificate: Mapping[str, Any] | None) -> str:
    """The node that a verified certificate, as `ssl` decodes it, belongs to. Raises Refused."""
    pairs = list(_pairs((certificate or {}).get("subject", ())))
    names = [value for key, value in pairs if key == "commonName"]
    organisations = [value for key, value in pairs if key == "organizationName"]
    if len(names) != 1 or not names[0].startswith(PREFIX) or not wire.is_name(names[0][len(PREFIX) :]):
        raise Refused(f"its certificate is for {', '.join(names)[:120]!r}, not for one node")
    if ORGANISATION not in organisations:
        raise Refused(f"its certificate has the organisation {', '.join(organisations)[:60]!r}, not {ORGANISATION!r}")
    return names[0][len(PREFIX) :]


def lifetime_of(certificate: Mapping[str, Any]) -> tuple[float, float]:
    """From when to when the certificate is good, in seconds since the epoch."""
    return float(cert_time_to_seconds(certificate["notBefore"])), float(cert_time_to_seconds(certificate["notAfter"]))


def check_claim(node: str, claimed: str) -> None:
    """What it calls itself must agree with its certificate. Raises Refused."""
    if claimed != node:
        raise Refused(f"it says that it is {claimed[:60]!r}, its certificate says {node!r}")


def _pairs(subject: Iterable[Iterable[tuple[str, str]]]) -> Iterable[tuple[str, str]]:
    for relative in subject:
        yield from relative
