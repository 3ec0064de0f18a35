"""The node's identity: four files in one directory, and the TLS context made of them."""

import ssl
from pathlib import Path

import msgspec
from msgspec import Struct

from beehive.errors import Unavailable
from beehive.journal import write_durably

CA, CERTIFICATE, KEY, ABOUT = "ca.crt", "node.crt", "node.key", "identity.json"


class About(Struct, frozen=True):
    """`identity.json`: what is not worth parsing a certificate for at every start."""

    node: str


def load(directory: Path) -> tuple[str, ssl.SSLContext]:
    """The node's name, and a context that shows its certificate and trusts our CA alone. Raises Unavailable."""
    try:
        about = msgspec.json.decode((directory / ABOUT).read_bytes(), type=About)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(directory / CA)
        context.load_cert_chain(directory / CERTIFICATE, directory / KEY)
    except FileNotFoundError as error:
        raise Unavailable(f"there is no {error.filename or directory}: run `beehive edge join` on this host") from None
    except (OSError, ssl.SSLError, msgspec.MsgspecError) as error:
        raise Unavailable(f"the identity in {directory} cannot be used: {error}") from None
    return about.node, context


def store(directory: Path, node: str, ca: bytes, certificate: bytes, key: bytes) -> None:
    """Write it durably, the name last: an identity is whole or not there. All PEM. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    (directory / ABOUT).unlink(missing_ok=True)
    write_durably(directory / KEY, key, 0o600)
    write_durably(directory / CERTIFICATE, certificate, 0o600)
    write_durably(directory / CA, ca, 0o600)
    write_durably(directory / ABOUT, msgspec.json.encode(About(node)) + b"\n", 0o600)
