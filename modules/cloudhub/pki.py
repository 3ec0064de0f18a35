"""Certificates: the CA, the hub's own, and the nodes' (spec/kubeedge.md 5.10). ECDSA P-256, DER.

`now` and lifetimes are in seconds. Everything is signed by what the caller may be; nothing of a CSR is taken over but
its key.
"""

import hashlib
import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from beehive.errors import Refused
from modules.cloudhub.identity import ORGANISATION, common_name

CA_LIFETIME = 100 * 364 * 86400.0
SERVER_LIFETIME = 365 * 86400.0
_EARLIER = timedelta(hours=1)
"""Certificates are good from an hour ago on, for clocks differ; short ones from a tenth of their life ago on."""


class Pair(Struct, frozen=True):
    """A certificate and its private key, both DER (the key as SEC1, as KubeEdge keeps it)."""

    certificate: bytes
    key: bytes


class Authority(Struct, frozen=True):
    """The CA that signs, and during a rotation those before it."""

    ca: Pair
    trusted: tuple[bytes, ...] = ()
    """Earlier CAs, whose nodes are still let in. DER."""
    crosses: tuple[bytes, ...] = ()
    """Each CA's key as its predecessor signed it, the newest first: nodes that know only an earlier CA believe the hub
    by these. DER."""


def make_ca(now: float) -> Pair:
    """A new CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    digest = hashlib.sha256(_spki(key.public_key())).hexdigest()
    name = _name("Beehive", f"Beehive CA {digest[:8]}")
    builder = _as_ca(_builder(name, name, key.public_key(), now, CA_LIFETIME))
    return Pair(_signed(builder, key), _key_bytes(key))


def rotate(authority: Authority, now: float) -> Authority:
    """A new CA that everybody believes at once: who knows only the old one by its signature on the new key."""
    old, old_key = _opened(authority.ca)
    made = make_ca(now)
    new, _ = _opened(made)
    builder = _builder(new.subject, old.subject, _ec(new), now, CA_LIFETIME)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(_ec(old))
    cross = _signed(_as_ca(builder).add_extension(identifier, critical=False), old_key)
    return Authority(made, (authority.ca.certificate, *authority.trusted), (cross, *authority.crosses))


def retire(authority: Authority) -> Authority:
    """Believe the earlier CAs no more."""
    return Authority(authority.ca)


def _as_ca(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    usage = _usage(key_cert_sign=True, crl_sign=True)
    return builder.add_extension(constraints, critical=True).add_extension(usage, critical=True)


def make_server(ca: Pair, names: Sequence[str], now: float) -> Pair:
    """A certificate for the hub, good for these addresses and DNS names."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer, ca_key = _opened(ca)
    builder = (
        _builder(_name("Beehive", "Beehive hub"), issuer.subject, key.public_key(), now, SERVER_LIFETIME)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_usage(), critical=True)
    )
    return Pair(_signed(_by(builder, issuer), ca_key), _key_bytes(key))


def sign_node(ca: Pair, csr: bytes, node: str, now: float, lifetime: float, not_before: float = 0.0) -> bytes:
    """A node's certificate: CN and O set by us, no SANs, clientAuth only. Raises Refused.

    It begins a little before `now`, but never before `not_before`.
    """
    name = _name(ORGANISATION, common_name(node))
    key = csr_key(csr)
    issuer, ca_key = _opened(ca)
    builder = (
        _builder(name, issuer.subject, key, now, lifetime, not_before)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(_usage(), critical=True)
    )
    return _signed(_by(builder, issuer), ca_key)


def csr_key(csr: bytes) -> ec.EllipticCurvePublicKey:
    """The key of a CSR in DER, whose owner has proved that it has the private one. Raises Refused."""
    try:
        request = x509.load_der_x509_csr(csr)
        key = request.public_key()
        good = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature) as error:
        raise Refused(f"the body is not a certificate signing request in DER: {str(error)[:120]}") from None
    if not good:
        raise Refused("the signing request is not signed by its own key")
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in ("secp256r1", "secp384r1"):
        raise Refused("the signing request has no ECDSA key on P-256 or P-384")
    return key


def fingerprint(csr: bytes) -> str:
    """Of the key in a CSR: 32 hex digits. Raises Refused."""
    return hashlib.sha256(_spki(csr_key(csr))).hexdigest()[:32]


def check_ca(ca: Pair) -> None:
    """Raises Refused when these bytes are no CA."""
    certificate, key = _opened(ca)
    if certificate.public_key() != key.public_key():
        raise Refused("the CA's certificate and its key do not belong together")


def is_good_server(ca: Pair, server: Pair, names: Sequence[str], now: float) -> bool:
    """It is of this CA, covers these names, and has more than a third of its life before it."""
    try:
        certificate, key = _opened(server)
        certificate.verify_directly_issued_by(_opened(ca)[0])
        covered = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (Refused, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    begin, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    lasting = begin <= now < end - (end - begin) / 3
    return lasting and certificate.public_key() == key.public_key() and {_general(one) for one in names} <= set(covered)


def end_of(der: bytes) -> float:
    """Until when a certificate is good, in seconds since the epoch."""
    return x509.load_der_x509_certificate(der).not_valid_after_utc.timestamp()


def split(concatenated: bytes) -> tuple[bytes, ...]:
    """Certificates in DER, one after the other, taken apart. Raises Refused."""
    found: list[bytes] = []
    while concatenated:
        if concatenated[:2] != b"\x30\x82" or len(concatenated) < 4:
            raise Refused("a list of certificates in DER cannot be read")
        length = 4 + int.from_bytes(concatenated[2:4], "big")
        found.append(concatenated[:length])
        concatenated = concatenated[length:]
    try:
        for one in found:
            x509.load_der_x509_certificate(one)
    except ValueError as error:
        raise Refused(f"a list of certificates in DER cannot be read: {error}") from None
    return tuple(found)


def to_pem(der: bytes) -> bytes:
    """A certificate as PEM."""
    return x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)


def key_to_pem(der: bytes) -> bytes:
    """A private key as PEM."""
    key = load_der_private_key(der, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _opened(pair: Pair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_der_x509_certificate(pair.certificate)
        key = load_der_private_key(pair.key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Refused(f"a certificate or its key cannot be read: {str(error)[:120]}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Refused("a private key is not an ECDSA key")
    return certificate, key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: float,
    lifetime: float,
    not_before: float = 0.0,
) -> x509.CertificateBuilder:
    begin = datetime.fromtimestamp(int(now), UTC)
    earliest = datetime.fromtimestamp(int(not_before), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(begin - min(_EARLIER, timedelta(seconds=lifetime / 10)), earliest))
        .not_valid_after(begin + timedelta(seconds=lifetime))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _by(builder: x509.CertificateBuilder, issuer: x509.Certificate) -> x509.CertificateBuilder:
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(_ec(issuer))
    return builder.add_extension(identifier, critical=False).add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )


def _ec(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise Refused("the CA has no ECDSA key")
    return key


def _spki(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _name(organisation: str, common: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation), x509.NameAttribute(NameOID.COMMON_NAME, common)]
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
