"""What the owner of a host lets a job install on it: `images.allow` and `images.requireDigest`. Pure.

Whoever may create jobs must not thereby be able to run any image as root on every node (product.md 6.1).
"""

import re
from collections.abc import Sequence

from beehive.errors import Refused
from modules.upgrader.images.reference import DEFAULT_HOST, Repository, parse_repository

KUBEEDGE_ONLY = ("docker.io/kubeedge/installation-package",)
"""The images that a host allows when its owner says nothing."""


def check_image(image: str, pin: str, *, allow: Sequence[str], require_digest: bool) -> Repository:
    """Return the repository that a job's `image` means if this host's owner allows it, else `Refused`.

    A pattern is a repository in full; `*` stands for anything within one part of it, `**` for any number of parts.
    """
    repository = parse_repository(image)
    if not any(_matches(pattern, repository.name) for pattern in allow):
        allowed = ", ".join(allow) or "none"
        raise Refused(
            f"This host does not allow images from {repository.name}; allowed: {allowed}"
            f" (images.allow in the host's configuration)."
        )
    if require_digest and not pin:
        raise Refused(
            f"This host installs {repository.name} only by digest (images.requireDigest), and the job pins none for"
            " this architecture; set spec.imageDigestGatter."
        )
    return repository


def _matches(pattern: str, name: str) -> bool:
    host, slash, _ = pattern.partition("/")
    full = pattern if slash and ("." in host or ":" in host or "*" in host or host == "localhost") else ""
    pieces = re.split(r"(\*{1,2})", full or f"{DEFAULT_HOST}/{pattern}")
    wild = {"*": "[^/]*", "**": ".*"}
    return re.fullmatch("".join(wild.get(piece, re.escape(piece)) for piece in pieces), name) is not None
