"""Sentences that leave this host: bounded, on one line, without control characters and without secrets. Pure."""

import re
from collections.abc import Sequence

LONGEST = 256
"""Characters of a reason (product.md 3.2)."""
_HIDDEN = "[removed]"
_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+"
)
_NAMED = (
    r"[\w.-]*(?:pass(?:wd|word|phrase)?|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|cookie)"
    r"[\w.-]*"
)
_SECRETS = (
    re.compile(r"-----BEGIN [A-Z ]+-----.*"),
    re.compile(r"(?i)\b(authorization\"?\s*[:=]\s*\"?)(?:\w+\s+)?[^\s\",;]+"),
    re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}"),
    re.compile(rf"(?i)\b({_NAMED}[\"']?\s*[:=]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)"),
    re.compile(rf"(?i)(--{_NAMED}[ =])\S+"),
    re.compile(r"\b([a-z][a-z0-9+.-]*://[^/\s:@]*:)[^@\s]+(?=@)"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*"),
    re.compile(r"\bK10[0-9a-f]{64}::\S+"),
)


def one_line(text: str) -> str:
    """Without line breaks, control characters and terminal sequences."""
    return " ".join(_CONTROL.sub(" ", text).split())


def without_secrets(text: str) -> str:
    """What looks like a password, a token or a key is taken out; the name before it stays."""
    for pattern in _SECRETS:
        text = pattern.sub(lambda found: (found[1] if found.re.groups else "") + _HIDDEN, text)
    return text


def of_error(error: Exception) -> str:
    """What went wrong, and where: `/etc/kubeedge/…: No space left on device`."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def reason(text: str) -> str:
    """A text as it may stand in a status: at most 256 characters."""
    return shortened(without_secrets(one_line(text)), LONGEST)


def shortened(text: str, most: int) -> str:
    """Cut, visibly, to at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def with_last_words(text: str, log: Sequence[str]) -> str:
    """`v1.23.0 exited with code 1 after 0.3 s: "cannot open database: schema 9"`, if its log says anything.

    A traceback or a dump is left out but for its last line; the secret is looked for in the whole tail first.
    """
    lines = [line for line in (one_line(line) for line in without_secrets("\n".join(log)).splitlines()) if line]
    if not lines:
        return reason(text)
    head = reason(text)
    room = LONGEST - len(head) - 4
    return f'{head}: "{shortened(without_secrets(lines[-1]), room)}"' if room > 8 else head
