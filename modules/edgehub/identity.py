"""The node's identity: three files in one directory, and the TLS context made of them.

Each file is replaced whole, and `node.pem` holds certificate and key together: a power cut in the middle of a renewal
leaves the old identity or the new one, never a certificate with another's key.
"""

import ssl
from pathlib import Path

import msgspec
from msgspec import Struct

from beehive.errors import Unavailable
from beehive.journal import write_durably

CA, PAIR, ABOUT = "ca.crt", "node.pem", "identity.json"
_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME."""


class About(Struct, frozen=True, omit_defaults=True):
    """`identity.json`: what is not worth parsing a certificate for at every start."""

    node: str
    cloud: str = ""
    """Where it joined: the hub's HTTPS port, `https://host:10002`."""
    begins: float = 0.0
    """From when its certificate is good, in seconds since the epoch."""
    ends: float = 0.0
    """Until when; 0.0 where nobody wrote it down."""
    ca: str = ""
    """SHA-256 of the CA's certificate, in hex."""


def read(directory: Path) -> About:
    """Who this host is. Raises Unavailable."""
    try:
        return msgspec.json.decode((directory / ABOUT).read_bytes(), type=About)
    except FileNotFoundError:
        raise Unavailable(f"there is no {directory / ABOUT}: run `beehive edge join` on this host") from None
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise Unavailable(f"the identity in {directory} cannot be used: {error}") from None


def read_or_none(directory: Path) -> About:
    """The same, and nobody where it cannot be read."""
    try:
        return read(directory)
    except Unavailable:
        return About("")


def load(directory: Path, now: float | None = None, ca_file: str = "") -> tuple[str, ssl.SSLContext]:
    """The node's name, and a context that shows its certificate and trusts our CA alone. Raises Unavailable.

    A clock that stands before the node's own certificate began (1970 at boot) is wrong, and cannot say what has
    expired: then only the cloud's CA and name are looked at. `ca_file` holds more CAs to trust.
    """
    about = read(directory)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(directory / CA)
        if ca_file:
            context.load_verify_locations(ca_file)
        context.load_cert_chain(directory / PAIR)
    except FileNotFoundError as error:
        raise Unavailable(f"there is no {error.filename or directory}: run `beehive edge join` on this host") from None
    except (OSError, ssl.SSLError) as error:
        raise Unavailable(f"the identity in {directory} cannot be used: {error}") from None
    if now is not None and now < about.begins:
        do_not_look_at_the_clock(context)
    return about.node, context


def do_not_look_at_the_clock(context: ssl.SSLContext) -> None:
    """Certificates are neither too early nor too late for it."""
    context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)


def store(directory: Path, about: About, ca: bytes, certificate: bytes, key: bytes) -> None:
    """Write it durably, who it is last. All PEM. Raises OSError.

    Of another node or cloud nothing stays that could be mistaken for this one's.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_of(directory, about):
        (directory / ABOUT).unlink(missing_ok=True)
    write_durably(directory / CA, ca, 0o600)
    write_durably(directory / PAIR, certificate + key, 0o600)
    write_durably(directory / ABOUT, msgspec.json.encode(about) + b"\n", 0o600)


def _is_of(directory: Path, about: About) -> bool:
    try:
        former = read(directory)
    except Unavailable:
        return False
    return (former.node, former.cloud) == (about.node, about.cloud)
