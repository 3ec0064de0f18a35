"""Join tokens: wrong, expired, revoked, foreign, used up; and what costs nothing."""

import base64
import hashlib
import json

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.errors import Refused
from modules.cloudhub.tokens import Book, Token, Use, bearer, create, read, redeem, revoke, write

CA = b"the CA's certificate"
KEY = bytes(range(32))
NOW = 1767225600.0
SOON = NOW + 3600


def made(token: Token, key: bytes = KEY) -> tuple[Book, str]:
    """A book with this token, and its JWT."""
    book, text = create(Book(key), token, CA)
    head, _, rest = text.partition(".")
    assert head == hashlib.sha256(CA).hexdigest()
    assert len(text.split(".")) == 4
    return book, rest


def test_a_token_is_good_for_its_uses() -> None:
    book, text = made(Token("t1", SOON, uses=2))
    book = redeem(book, text, Use("n1", "k1"), NOW)
    book = redeem(book, text, Use("n2", "k2"), NOW)
    with pytest.raises(Refused, match="used up"):
        redeem(book, text, Use("n3", "k3"), NOW)


def test_the_same_node_with_the_same_key_is_free() -> None:
    book, text = made(Token("t1", SOON, uses=1))
    book = redeem(book, text, Use("n1", "k1"), NOW)
    assert redeem(book, text, Use("n1", "k1"), NOW) is book
    for other in (Use("n1", "k2"), Use("n2", "k1")):
        with pytest.raises(Refused, match="used up"):
            redeem(book, text, other, NOW)


def test_any_number_of_uses() -> None:
    book, text = made(Token("t1", SOON, uses=0))
    for number in range(50):
        book = redeem(book, text, Use(f"n{number}", "k"), NOW)
    assert len(book.tokens[0].used) == 50


@pytest.mark.parametrize("now", [SOON, SOON + 1, SOON + 1e9])
def test_expired(now: float) -> None:
    book, text = made(Token("t1", SOON))
    with pytest.raises(Refused, match="expired"):
        redeem(book, text, Use("n1", "k1"), now)


def test_bound_to_a_node() -> None:
    book, text = made(Token("t1", SOON, node="n1"))
    with pytest.raises(Refused, match="another node"):
        redeem(book, text, Use("n2", "k1"), NOW)
    assert redeem(book, text, Use("n1", "k1"), NOW) is not book


def test_revoked() -> None:
    book, text = made(Token("t1", SOON))
    with pytest.raises(Refused, match="revoked"):
        redeem(revoke(book, "t1"), text, Use("n1", "k1"), NOW)
    with pytest.raises(Refused, match="token list"):
        revoke(book, "t2")


def test_of_another_cloud() -> None:
    book, _ = made(Token("t1", SOON))
    _, foreign = made(Token("t1", SOON), key=bytes(32))
    with pytest.raises(Refused, match="not made by this cloud"):
        redeem(book, foreign, Use("n1", "k1"), NOW)


def test_when_none_was_ever_made() -> None:
    _, text = made(Token("t1", SOON))
    with pytest.raises(Refused, match="no token was ever made"):
        redeem(None, text, Use("n1", "k1"), NOW)


def unsigned(claims: dict[str, object]) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}."


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "...", "a.b.c", "é.é.é", "\x00", "x" * 100_000, "." * 5000,
        unsigned({"exp": int(SOON), "jti": "t1"}),
        jwt.encode({"exp": int(SOON), "jti": "t1"}, b"\x01" * 48, algorithm="HS384"),
        jwt.encode({"exp": int(SOON), "jti": "t1"}, KEY * 2, algorithm="HS512"),
        jwt.encode({"jti": "t1"}, KEY, algorithm="HS256"),
        jwt.encode({"exp": int(SOON)}, KEY, algorithm="HS256"),
        jwt.encode({"exp": int(SOON), "jti": "t1"}, KEY, algorithm="HS256") + "x",
        jwt.encode({"exp": int(SOON), "jti": "t1"}, KEY, algorithm="HS256", headers={"crit": ["x"]}),
    ],
    ids=lambda text: text[:16] or "empty",
)  # fmt: skip
def test_what_is_no_token_of_ours(text: str) -> None:
    book, _ = made(Token("t1", SOON))
    with pytest.raises(Refused, match=r"^token validation failure, err: "):
        redeem(book, text, Use("n1", "k1"), NOW)


@given(st.text(max_size=80))
def test_no_text_passes(text: str) -> None:
    book, _ = made(Token("t1", SOON))
    with pytest.raises(Refused):
        redeem(book, text, Use("n1", "k1"), NOW)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("", "token validation failure, token is empty"),
        ("Bearer", "token validation failure, token cannot be split"),
        ("Bearer a b", "token validation failure, token cannot be split"),
    ],
)
def test_kubeedges_texts(header: str, text: str) -> None:
    with pytest.raises(Refused) as refusal:
        bearer(header)
    assert refusal.value.reason == text


def test_the_book_in_its_secret() -> None:
    book, text = made(Token("t1", SOON, node="n1", uses=3))
    book = redeem(book, text, Use("n1", "k1"), NOW)
    data = write(book, NOW)
    assert read(data) == book
    assert text.encode() not in b"".join(data.values())
    assert read({}) is None


def test_tokens_that_ended_are_forgotten_after_a_day() -> None:
    book, _ = made(Token("t1", NOW))
    again = read(write(book, NOW + 86399))
    gone = read(write(book, NOW + 86401))
    assert again is not None
    assert gone is not None
    assert (len(again.tokens), len(gone.tokens)) == (1, 0)


@pytest.mark.parametrize("data", [{"key": b"short"}, {"key": KEY, "tokens": b"{"}, {"key": KEY, "tokens": b"[7]"}])
def test_a_damaged_secret_says_what_to_do(data: dict[str, bytes]) -> None:
    with pytest.raises(Refused, match="delete the Secret"):
        read(data)
