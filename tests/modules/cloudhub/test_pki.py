"""What the hub signs: what the caller may be, and nothing of what its request says."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from beehive.errors import Refused
from modules.cloudhub import pki

NOW = 1767225600.0
CA = pki.make_ca(NOW)


def csr(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None, **names: str) -> bytes:
    """A signing request that asks for far too much."""
    wanted = {"CN": "system:node:other", "O": "system:masters"} | names
    kinds = {"CN": NameOID.COMMON_NAME, "O": NameOID.ORGANIZATION_NAME}
    subject = x509.Name([x509.NameAttribute(kinds[name], value) for name, value in wanted.items()])
    builder = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("cloud.example.org")]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    return builder.sign(key or ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.DER)


def test_a_node_gets_what_it_may_be_and_nothing_that_it_asked_for() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.load_der_x509_certificate(pki.sign_node(CA, csr(key), "edge-1", NOW, 86400.0))
    assert made.subject.rfc4514_string() == "CN=system:node:edge-1,O=system:nodes"
    assert made.public_key() == key.public_key()
    made.verify_directly_issued_by(x509.load_der_x509_certificate(CA.certificate))
    extensions = made.extensions
    usage = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    with pytest.raises(x509.ExtensionNotFound):
        extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert made.not_valid_after_utc == datetime.datetime.fromtimestamp(NOW + 86400, datetime.UTC)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not a certificate signing request"),
        (b"-----BEGIN CERTIFICATE REQUEST-----", "not a certificate signing request"),
        (b"\x30" * 5000, "not a certificate signing request"),
        (CA.certificate, "not a certificate signing request"),
        (csr(rsa.generate_private_key(65537, 2048)), "no ECDSA key"),
        (csr(ec.generate_private_key(ec.SECP256K1())), "no ECDSA key"),
    ],
    ids=["empty", "pem", "garbage", "certificate", "rsa", "secp256k1"],
)
def test_what_is_not_signed(data: bytes, text: str) -> None:
    with pytest.raises(Refused, match=text):
        pki.sign_node(CA, data, "edge-1", NOW, 86400.0)


def test_a_request_that_its_own_key_did_not_sign() -> None:
    data = bytearray(csr())
    data[-1] ^= 1
    with pytest.raises(Refused, match="not signed by its own key"):
        pki.sign_node(CA, bytes(data), "edge-1", NOW, 86400.0)


def test_the_same_key_has_the_same_fingerprint() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    assert pki.fingerprint(csr(key)) == pki.fingerprint(csr(key, CN="x"))
    assert pki.fingerprint(csr()) != pki.fingerprint(csr())
    assert len(pki.fingerprint(csr())) == 32


def test_the_hubs_certificate_is_made_anew_when_it_must_be() -> None:
    names = ("10.0.0.1", "cloud.example.org", "fd00::1")
    server = pki.make_server(CA, names, NOW)
    year = pki.SERVER_LIFETIME
    assert pki.is_good_server(CA, server, names, NOW)
    assert pki.is_good_server(CA, server, names[:1], NOW + year / 2)
    assert not pki.is_good_server(CA, server, (*names, "10.0.0.2"), NOW)
    assert not pki.is_good_server(CA, server, names, NOW + year * 0.7)
    assert not pki.is_good_server(CA, server, names, NOW - 7200)
    assert not pki.is_good_server(pki.make_ca(NOW), server, names, NOW)
    assert not pki.is_good_server(CA, pki.Pair(server.certificate, CA.key), names, NOW)
    assert not pki.is_good_server(CA, pki.Pair(b"", b""), names, NOW)


@pytest.mark.parametrize(
    "pair", [pki.Pair(b"", b""), pki.Pair(CA.certificate, b"x"), pki.Pair(CA.certificate, pki.make_ca(NOW).key)]
)
def test_what_is_no_ca(pair: pki.Pair) -> None:
    with pytest.raises(Refused):
        pki.check_ca(pair)
    pki.check_ca(CA)
