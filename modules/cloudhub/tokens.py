"""Join tokens: `{sha256 of the CA}.{JWT}`, HS256 with a random key of our own (product.md 4). Pure.

The Secret (`Config.secrets.tokens`) holds the key under `key` and, under `tokens`, what is known of each token. A token
that is not in it was revoked, whatever its signature says. A *use* is a node with one key: a node that asks again with
the key that it asked with before uses up nothing, so a lost answer costs no use.
"""

import hashlib
from collections.abc import Mapping

import jwt
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from beehive.errors import Refused

KEY, TOKENS = "key", "tokens"
KEY_BYTES = 32
_FAILURE = "token validation failure, "
"""How KubeEdge's own refusals begin (spec/kubeedge.md 5.8)."""


class Use(Struct, frozen=True):
    """Who joined with a token."""

    node: str
    key: str
    """Fingerprint of its public key."""


class Token(Struct, frozen=True, omit_defaults=True):
    """What is known of a token; never the token itself."""

    id: str
    expires: float
    """Seconds since the epoch."""
    node: str = ""
    """The only node that may use it; empty for any."""
    uses: int = 1
    """How many nodes may join with it; 0 for any number."""
    used: tuple[Use, ...] = ()


class Book(Struct, frozen=True):
    """The Secret's content."""

    key: bytes
    tokens: tuple[Token, ...] = ()


def read(data: Mapping[str, bytes]) -> Book | None:
    """The book; None where there is none yet. Raises Refused for one that cannot be used."""
    if not data.get(KEY):
        return None
    if len(data[KEY]) < KEY_BYTES:
        raise Refused(f"the key of the join tokens has fewer than {KEY_BYTES} bytes; delete the Secret to begin anew")
    try:
        return Book(data[KEY], _TOKENS.decode(data.get(TOKENS, b"[]")))
    except msgspec.MsgspecError as error:
        raise Refused(f"the list of join tokens cannot be read ({error}); delete the Secret to begin anew") from None


def write(book: Book, now: float) -> dict[str, bytes]:
    """The Secret's data; tokens that ended a day ago are forgotten."""
    kept = tuple(token for token in book.tokens if token.expires > now - 86400)
    return {KEY: book.key, TOKENS: msgspec.json.encode(kept)}


def create(book: Book, token: Token, ca: bytes) -> tuple[Book, str]:
    """Note a new token; the text goes to who may join, and is kept nowhere. `ca` is the CA's certificate in DER."""
    claims: dict[str, object] = {"exp": int(token.expires), "jti": token.id}
    if token.node:
        claims["sub"] = token.node
    text = f"{hashlib.sha256(ca).hexdigest()}.{jwt.encode(claims, book.key, algorithm='HS256')}"
    return replace(book, tokens=(*book.tokens, token)), text


def revoke(book: Book, token_id: str) -> Book:
    """Take a token out. Raises Refused when there is none of this id."""
    kept = tuple(token for token in book.tokens if token.id != token_id)
    if len(kept) == len(book.tokens):
        raise Refused(f"there is no join token {token_id!r}; `beehive token list` names those that are good")
    return replace(book, tokens=kept)


def bearer(authorization: str) -> str:
    """The token in an Authorization header. Raises Refused with KubeEdge's texts."""
    if not authorization:
        raise Refused(f"{_FAILURE}token is empty")
    parts = authorization.split(" ")
    if len(parts) != 2:
        raise Refused(f"{_FAILURE}token cannot be split")
    return parts[1]


def redeem(book: Book | None, text: str, use: Use, now: float) -> Book:
    """`use.node` wants to join with the JWT `text`: the book with that use noted, the same one when it was free.

    Raises Refused (401) for a token that is wrong, expired, revoked, for another node, or used up.
    """
    if book is None:
        raise Refused(f"{_FAILURE}err: no token was ever made")
    token = _known(book, text)
    if token.expires <= now:
        raise Refused(f"{_FAILURE}err: the token has expired")
    if token.node and token.node != use.node:
        raise Refused(f"{_FAILURE}err: the token is for another node")
    if use in token.used:
        return book
    if token.uses and len(token.used) >= token.uses:
        raise Refused(f"{_FAILURE}err: the token is used up")
    noted = replace(token, used=(*token.used, use))
    return replace(book, tokens=tuple(noted if one.id == token.id else one for one in book.tokens))


def _known(book: Book, text: str) -> Token:
    options: jwt.types.Options = {"require": ["exp", "jti"], "verify_exp": False}  # by our own clock, in `redeem`
    try:
        claims = jwt.decode(text, book.key, algorithms=["HS256"], options=options)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise Refused(f"{_FAILURE}err: the token was not made by this cloud") from None
    for token in book.tokens:
        if token.id == claims["jti"]:
            return token
    raise Refused(f"{_FAILURE}err: the token was revoked")


_TOKENS = msgspec.json.Decoder(tuple[Token, ...])
