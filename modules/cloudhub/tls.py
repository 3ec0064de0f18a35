"""TLS of the two ports: 1.2 or later, our CA and no other (spec/kubeedge.md 5.2)."""

import ssl
import tempfile
from pathlib import Path

from modules.cloudhub import pki
from modules.cloudhub.pki import Pair


def context(ca: Pair, server: Pair, client_certificate: ssl.VerifyMode) -> ssl.SSLContext:
    """A server's context; `client_certificate` says whether a peer must show one of ours, or may."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    made.load_verify_locations(cadata=pki.to_pem(ca.certificate).decode())
    made.verify_mode = client_certificate
    with tempfile.TemporaryDirectory(prefix="beehive-hub-") as directory:  # OpenSSL takes a chain from files only
        path = Path(directory, "server.pem")
        path.touch(0o600)
        path.write_bytes(pki.to_pem(server.certificate) + pki.key_to_pem(server.key))
        made.load_cert_chain(path)
    return made
