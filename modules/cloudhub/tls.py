"""TLS of the two ports: 1.2 or later, our CAs and no other (spec/kubeedge.md 5.2).

A port listens with one context for ever, its *outer* one; at each ClientHello that hands over to the context of the
hour. So certificates and CAs change without a restart, and who is connected notices nothing.
"""

import ssl
import tempfile
from pathlib import Path
from typing import Any

from modules.cloudhub import pki
from modules.cloudhub.pki import Authority, Pair


def context(authority: Authority, server: Pair, client_certificate: ssl.VerifyMode) -> ssl.SSLContext:
    """A server's context; `client_certificate` says whether a peer must show one of ours, or may."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    # No resumption: a resumed session would not be judged by the CAs of the hour.
    made.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    made.num_tickets = 0
    certificates = (authority.ca.certificate, *authority.trusted)
    made.load_verify_locations(cadata="".join(pki.to_pem(one).decode() for one in certificates))
    made.verify_mode = client_certificate
    chain = b"".join(pki.to_pem(one) for one in (server.certificate, *authority.crosses))
    with tempfile.TemporaryDirectory(prefix="beehive-hub-") as directory:  # OpenSSL takes a chain from files only
        path = Path(directory, "server.pem")
        path.touch(0o600)
        path.write_bytes(chain + pki.key_to_pem(server.key))
        made.load_cert_chain(path)
    return made


class Contexts:
    """The contexts of one port."""

    def __init__(self, client_certificate: ssl.VerifyMode) -> None:
        self._client_certificate = client_certificate
        self._current: ssl.SSLContext | None = None
        self._outer: ssl.SSLContext | None = None

    @property
    def outer(self) -> ssl.SSLContext:
        """To listen with; there is one after the first `use`."""
        assert self._outer is not None
        return self._outer

    def use(self, authority: Authority, server: Pair) -> None:
        """From the next ClientHello on."""
        self._current = context(authority, server, self._client_certificate)
        if self._outer is None:
            self._outer = context(authority, server, self._client_certificate)
            self._outer.sni_callback = self._hand_over

    def _hand_over(self, connection: Any, _name: str | None, _outer: ssl.SSLContext) -> None:
        """OpenSSL asks here whether or not the peer names a server."""
        connection.context = self._current
