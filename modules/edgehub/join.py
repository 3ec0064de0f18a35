"""Joining: a token becomes an identity (spec/kubeedge.md 5.10, 11.1).

The first word of the token is the hash of the CA: so the CA that the cloud shows is the right one or is not taken.
"""

import hashlib
import hmac
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID
from msgspec import Struct

from beehive.errors import Refused, Unavailable
from beehive.journal import write_durably
from beehive.messages import wire
from modules.edgehub import identity

if TYPE_CHECKING:
    import httpx

Key = ec.EllipticCurvePrivateKey
_PENDING_KEY = "node.key.pending"
_MOST_BYTES = 1 << 16


class Through(Struct, frozen=True):
    """How the cloud is reached."""

    context: ssl.SSLContext
    timeout: float = 30.0
    proxy: str = ""
    """URL; empty for what the environment says (`HTTPS_PROXY`)."""


async def join(
    cloud_url: str, token: str, node_name: str, directory: Path, timeout: float = 30.0, proxy: str = ""
) -> None:
    """Get an identity for `node_name` from the cloud at `cloud_url` (`https://host:10002`) into `directory`.

    Files are 0600, written durably; a former identity stays until the new one is here. The key is kept from the first
    try on, so that a lost answer costs no use of the token. Raises Refused (wrong token, wrong CA, name not allowed:
    trying again is no use) or Unavailable (may pass); both say what to do.
    """
    url = _checked(cloud_url, node_name)
    wanted, bearer = _split(token)
    key = _key(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the token's hash says whether it is the right CA, below
    ca = (await _get(f"{url}/ca.crt", Through(context, timeout, proxy))).content
    found = hashlib.sha256(ca).hexdigest()
    if not hmac.compare_digest(wanted, found):
        raise Refused(f"failed to validate CA certificate. tokenCAhash: {wanted}, CAhash: {found}; is {url} the cloud?")
    through = Through(_trusting(ca), timeout, proxy)
    await _certify(url, through, key, node_name, directory, ca, {"Authorization": f"Bearer {bearer}"})


async def renew(directory: Path, cloud_url: str, through: Through) -> None:
    """Get the next certificate, with a new key, by showing the present one; and the CA that signs now.

    `through` shows the present identity and trusts its CA. Raises Refused or Unavailable; the present identity stays.
    """
    about = identity.read(directory)
    url = _checked(cloud_url or about.cloud, about.node)
    ca = (await _get(f"{url}/ca.crt", through)).content
    await _certify(url, through, _key(directory), about.node, directory, ca, {})


async def _certify(
    url: str, through: Through, key: Key, node: str, directory: Path, ca: bytes, headers: dict[str, str]
) -> None:
    answer = await _get(f"{url}/edge.crt", through, {**headers, "NodeName": node}, _request(key, node))
    made = _parsed(answer.content)
    _check(made, _parsed(ca), key, node)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    begins, ends = made.not_valid_before_utc.timestamp(), made.not_valid_after_utc.timestamp()
    about = identity.About(node, url, begins, ends, hashlib.sha256(ca).hexdigest())
    try:
        identity.store(directory, about, _pem(ca), made.public_bytes(Encoding.PEM), private)
        (directory / _PENDING_KEY).unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"the identity cannot be written to {directory}: {error.strerror or error}") from None


def _trusting(ca: bytes) -> ssl.SSLContext:
    """Trusts this CA, whatever the clock says when it stands before the CA began."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=_pem(ca).decode())
    if datetime.now(UTC) < _parsed(ca).not_valid_before_utc:
        identity.do_not_look_at_the_clock(context)
    return context


def _checked(cloud_url: str, node_name: str) -> str:
    parts = urlsplit(cloud_url)
    if parts.scheme != "https" or not parts.hostname:
        raise Refused(f"{cloud_url!r} is not the address of a cloud; write one like https://cloud.example.org:10002")
    if not wire.is_name(node_name):
        raise Refused(f"{node_name[:60]!r} cannot be the name of a node: write lower-case letters, digits, '-' and '.'")
    return cloud_url.rstrip("/")


def _split(token: str) -> tuple[str, str]:
    parts = token.strip().split(".")
    if len(parts) != 4 or len(parts[0]) != 64 or not token.isascii():
        raise Refused("the token is in the wrong format: it has four parts; `beehive token create` makes one")
    return parts[0].lower(), ".".join(parts[1:])


def _key(directory: Path) -> Key:
    """The key of an earlier try that got no answer, or a new one, written down before it is used."""
    pending = directory / _PENDING_KEY
    try:
        key = load_pem_private_key(pending.read_bytes(), None)
        if isinstance(key, Key):
            return key
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        pass
    except OSError as error:
        raise Unavailable(f"{pending} cannot be read: {error.strerror or error}") from None
    made = ec.generate_private_key(ec.SECP256R1())
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = made.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        write_durably(pending, data, 0o600)
    except OSError as error:
        raise Unavailable(f"the identity cannot be written to {directory}: {error.strerror or error}") from None
    return made


def _request(key: Key, node: str) -> bytes:
    """KubeEdge's subject; the cloud sets its own (spec/kubeedge.md 5.10)."""
    names = (
        (NameOID.COUNTRY_NAME, "CN"),
        (NameOID.ORGANIZATION_NAME, "system:nodes"),
        (NameOID.COMMON_NAME, f"system:node:{node}"[:64]),
    )
    subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in names])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return csr.public_bytes(Encoding.DER)


async def _get(
    url: str, through: Through, headers: dict[str, str] | None = None, body: bytes = b""
) -> "httpx.Response":
    import httpx  # noqa: PLC0415 - not for an edge that has joined

    try:
        async with httpx.AsyncClient(
            verify=through.context, timeout=through.timeout, proxy=through.proxy or None
        ) as client:
            answer = await client.request("GET", url, headers=headers, content=body or None)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise Unavailable(f"{url} does not answer: {str(error) or type(error).__name__}") from None
    text = answer.text.strip()[:300] if answer.status_code != 200 else ""
    if answer.status_code in (400, 401, 403, 404, 413):
        raise Refused(f"the cloud refuses: {text or answer.status_code}")
    if answer.status_code != 200:
        raise Unavailable(f"{url} answers {answer.status_code}: {text}")
    if len(answer.content) > _MOST_BYTES:
        raise Refused(f"{url} answers with {len(answer.content)} bytes, which is no certificate")
    return answer


def _parsed(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise Refused("the cloud's answer is not a certificate in DER") from None


def _pem(der: bytes) -> bytes:
    return _parsed(der).public_bytes(Encoding.PEM)


def _check(made: x509.Certificate, ca: x509.Certificate, key: Key, node: str) -> None:
    """Never store an identity that is another's, or that the cloud itself would not believe."""
    names = [attribute.value for attribute in made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if made.public_key() != key.public_key() or names != [f"system:node:{node}"]:
        raise Refused(f"the cloud's certificate is for {names}, or for another key, not for {node}")
    try:
        made.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        raise Unavailable("the cloud's CA changed in the middle; try again") from None
