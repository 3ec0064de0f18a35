"""What a registry asks for with 401: `WWW-Authenticate` (RFC 9110 11.6.1, distribution's token protocol). Pure."""

import base64
import re
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

from beehive.errors import Refused

_SCHEME: Final = re.compile(r"\s*,?\s*([A-Za-z0-9._~+/-]+)(?:\s+|$)")
_PARAMETER: Final = re.compile(r'\s*,?\s*([A-Za-z0-9._~+-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_LONGEST: Final = 8192


class Challenge(msgspec.Struct, frozen=True):
    """One way to prove who one is."""

    scheme: str
    """In lower case."""
    parameters: dict[str, str]


class _Token(msgspec.Struct):
    token: str = ""
    access_token: str = ""


_TOKEN: Final = msgspec.json.Decoder(_Token)


def parse(header: str) -> list[Challenge]:
    """All challenges of a header; what cannot be understood ends the list."""
    found: list[Challenge] = []
    at, text = 0, header[:_LONGEST]
    while scheme := _SCHEME.match(text, at):
        at = scheme.end()
        parameters: dict[str, str] = {}
        while parameter := _PARAMETER.match(text, at):
            at = parameter.end()
            quoted, plain = parameter[2], parameter[3]
            parameters[parameter[1].lower()] = re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain
        found.append(Challenge(scheme[1].lower(), parameters))
    return found


def token_address(challenge: Challenge, repository: str) -> str:
    """Where to get a bearer token that may pull from `repository`."""
    realm = challenge.parameters.get("realm", "")
    parts = urlsplit(realm)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise Refused("The registry asks for a token but does not say where to get one.")
    scope = challenge.parameters.get("scope") or f"repository:{repository}:pull"
    query = [("scope", scope)]
    if service := challenge.parameters.get("service"):
        query.insert(0, ("service", service))
    return f"{realm}{'&' if parts.query else '?'}{urlencode(query)}"


def read_token(body: bytes) -> str:
    """The token in a token server's answer."""
    try:
        answer = _TOKEN.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused("The registry's token server answered with something that is no token.") from error
    token = answer.token or answer.access_token
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise Refused("The registry's token server answered with something that is no token.")
    return token


def basic(username: str, password: str) -> str:
    """The value of an `Authorization` header."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
