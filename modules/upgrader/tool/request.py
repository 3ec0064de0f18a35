"""What the agent asks of the tool: one file, written whole, read by the tool when its unit starts."""

from pathlib import Path

import msgspec
from msgspec import Struct

from beehive.errors import ConfigError, Problem
from modules.upgrader.config import Config, from_json, to_json
from modules.upgrader.host.files import Files
from modules.upgrader.host.layout import Layout
from modules.upgrader.host.names import attempt_key, checked_version, unit_key


class Request(Struct, frozen=True, kw_only=True):
    """One attempt."""

    job: str
    uid: str
    attempt: int
    undo: bool = False
    """Roll back, whatever is done already."""
    from_version: str
    to_version: str
    digest: str
    """Of the program to install, as it was when the check verified it."""
    tool: str = "keadm"
    """The provider (product.md 6.3)."""
    image: str = ""
    """The job's image, for providers that fetch it themselves."""
    settings: msgspec.Raw
    """The section `upgrader`."""


def write_request(files: Files, layout: Layout, request: Request) -> None:
    """Store it for the tool's unit. Raises OSError."""
    files.directory(layout.requests)
    files.replace(layout.request(unit_key(request.uid, request.attempt)), msgspec.json.encode(request))


def read_request(path: Path) -> tuple[Request, Config]:
    """Raises ConfigError with what is wrong with it."""
    try:
        request = msgspec.json.decode(path.read_bytes(), type=Request)
        attempt_key(request.uid, request.attempt)
        checked_version(request.to_version)
        checked_version(request.from_version)
        return request, from_json(bytes(request.settings))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except (msgspec.MsgspecError, ValueError) as error:
        problem = f"is no request to the tool: {error}"
    raise ConfigError(str(path), [Problem("file", "", problem)])


def settings_of(config: Config) -> msgspec.Raw:
    """The section as it travels in a request."""
    return msgspec.Raw(to_json(config))
