"""Who may speak to the agent on its own host. Pure but for the look-up of a group's number."""

import grp

from beehive.errors import ConfigError, Problem
from beehive.local import Peer


def may_ask(peer: Peer, own: int, group: int | None) -> bool:
    """Root, whoever runs the agent, and the members of the configured group."""
    return peer.uid in (0, own) or (group is not None and group in peer.groups)


def number_of(group: str) -> int | None:
    """Of a group's name; None: none is configured. Raises ConfigError."""
    if not group:
        return None
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        problem = f"there is no group {group!r} on this host; make it: groupadd --system {group}"
        raise ConfigError("the configuration", [Problem("here", "control.group", problem)]) from None
