"""Structured logs on stderr, as text for people or JSON for programs; one line for each thing worth acting on.

Modules use the standard `logging` with `extra={"job": …, "node": …}`; what is extra becomes `key=value`, or a key.
"""

import logging
import sys
from typing import Any

import msgspec

from beehive.world import rfc3339

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def set_up(style: str, level: str) -> None:
    """Send every log line of this process to stderr in this style, `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for chatty in ("websockets", "uvicorn", "httpx", "httpcore", "kubernetes_asyncio", "asyncio", "picows"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _module(record: logging.LogRecord) -> str:
    """`beehive.taskmanager` and `modules.taskmanager.cloud` are both taskmanager."""
    parts = record.name.split(".")
    return parts[1] if parts[0] in ("beehive", "modules") and len(parts) > 1 else parts[0]


class TextFormatter(logging.Formatter):
    """`2026-11-29T20:31:07Z  INFO  taskmanager  node dispatched      job=north node=edge-8`."""

    def format(self, record: logging.LogRecord) -> str:
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        extra = " ".join(f"{key}={_quoted(value)}" for key, value in _extra(record).items())
        message = _one_line(record.getMessage())
        line = f"{rfc3339(record.created)}  {level:<5} {_module(record):<12} {message:<24} {extra}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            "module": _module(record),
            "message": record.getMessage(),
            **{key: value if isinstance(value, str | int | float | bool) else str(value)
               for key, value in _extra(record).items()},
        }  # fmt: skip
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def _one_line(text: str) -> str:
    """No line breaks and no control characters: who names a node must not be able to write our log."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _quoted(value: object) -> str:
    text = _one_line(str(value))
    return f'"{text}"' if not text or any(letter in text for letter in ' "=') else text
