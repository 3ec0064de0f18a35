"""Certificates and keys for a kube-apiserver."""

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def serving_certificate(folder: Path) -> list[str]:
    """A certificate for loopback of a new CA (``ca.crt``), and the flags that name it to kube-apiserver."""
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc")
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    leaf.cert_chain_pems[0].write_to_path(str(folder / "serving.crt"))
    leaf.private_key_pem.write_to_path(str(folder / "serving.key"))
    return [f"--tls-cert-file={folder / 'serving.crt'}", f"--tls-private-key-file={folder / 'serving.key'}"]


def signing_key(folder: Path) -> Path:
    """A new key that signs and checks ServiceAccount tokens."""
    path = folder / "service-accounts.key"
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.TraditionalOpenSSL
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return path
