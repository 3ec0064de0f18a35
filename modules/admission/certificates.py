"""The webhook's own CA and certificate, PEM. ECDSA P-256."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

CA_LIFETIME = 100 * 364 * 86400.0
_EARLIER = timedelta(hours=1)
"""Certificates are good from an hour ago on: clocks differ."""


class Pair(Struct, frozen=True):
    """A certificate and its private key."""

    certificate: bytes = b""
    key: bytes = b""


def make_ca(now: float) -> Pair:
    """A new CA; `now` in seconds since the epoch."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Beehive admission CA")
    builder = _builder(name, name, key.public_key(), now, CA_LIFETIME).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def make_server(ca: Pair, names: Sequence[str], now: float, lifetime: float) -> Pair:
    """A server's certificate for these addresses and DNS names, good for `lifetime` seconds."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer, issuer_key = _opened(ca)
    builder = (
        _builder(_name("Beehive admission"), issuer.subject, key.public_key(), now, lifetime)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    return _pair(builder.sign(issuer_key, hashes.SHA256()), key)


def is_ca(pair: Pair) -> bool:
    """These are a certificate and its key."""
    try:
        certificate, key = _opened(pair)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return certificate.public_key() == key.public_key()


def is_good(ca: Pair, server: Pair, names: Sequence[str], now: float) -> bool:
    """It is of this CA, covers these names, and has more than a third of its life before it."""
    try:
        certificate, key = _opened(server)
        certificate.verify_directly_issued_by(_opened(ca)[0])
        covered = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature, x509.ExtensionNotFound):
        return False
    begin, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    lasts = begin <= now < end - (end - begin) / 3
    return lasts and certificate.public_key() == key.public_key() and {_general(one) for one in names} <= set(covered)


def _opened(pair: Pair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    key = serialization.load_pem_private_key(pair.key, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("not an ECDSA key")
    return certificate, key


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    plain = serialization.NoEncryption()
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain),
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: float, lifetime: float
) -> x509.CertificateBuilder:
    begin = datetime.fromtimestamp(int(now), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - _EARLIER)
        .not_valid_after(begin + timedelta(seconds=lifetime))
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
