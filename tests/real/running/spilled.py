"""Did a secret get into a log? Both are looked for below a folder: what is secret, and what was written down."""

import re
from collections.abc import Iterator
from pathlib import Path

_JWT = re.compile(rb"eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}")
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(.*?)-----END", re.DOTALL)
_TOKEN = re.compile(rb'"?token"?: *"?([\w.~+/:=-]{20,})')
_HOLDERS = re.compile(r"(\.(pem|key)|token|kubeconfig.*)$")
_LOGS = re.compile(r"\.(log|stdout|stderr|out|err)(\.\d+)?$")
_LARGEST = 256 * 1024


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path


def secrets(folder: Path) -> dict[bytes, Path]:
    """Tokens, and a line from the middle of each private key -> the file that holds it."""
    found: dict[bytes, Path] = {}
    for path in _files(folder):
        if not _HOLDERS.search(path.name) or path.stat().st_size > _LARGEST:
            continue
        text = path.read_bytes()
        words = [*_JWT.findall(text), *_TOKEN.findall(text)]
        for block in _KEY.findall(text):
            lines = block.split()
            words.append(lines[len(lines) // 2])
        if "token" in path.name and len(text.split()) == 1:
            words.append(text.strip())
        found |= {word: path for word in words if len(word) >= 20}
    return found


def spilled(folder: Path) -> list[str]:
    """A sentence for each secret that stands in a log below the folder; it does not show the secret."""
    known = secrets(folder)
    logs = [path for path in _files(folder) if _LOGS.search(path.name)]
    told = []
    for log in logs:
        text = log.read_bytes()
        told += [f"{log} holds the secret of {path}" for word, path in known.items() if word in text]
    return told
