"""The command line of `keadm` on an edge host, with KubeEdge's flags (spec/kubeedge.md 8.1)."""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from beehive import config as configuration
from beehive.errors import EXIT_BUSY, EXIT_CONFIG, EXIT_FAILED, BeehiveError, ConfigError, Problem
from modules.upgrader.config import Config
from modules.upgrader.host.lock import Busy
from modules.upgrader.tool import commands, recovery

_SETTINGS = Path("/etc/beehive/edge.yaml")
_IMAGE = "kubeedge/installation-package"


def run(argv: Sequence[str]) -> int:
    """Parse, do, and say how it went; returns the exit code."""
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as end:  # argparse has printed help or usage
        return int(end.code or 0)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-5s %(name)s  %(message)s")
    try:
        command: Callable[[argparse.Namespace, Config | None], int] = arguments.command
        return command(arguments, None if getattr(arguments, "request", None) else _settings_or_default(arguments))
    except ConfigError as error:
        return _fail(error, EXIT_CONFIG)
    except Busy as error:
        return _fail(error, EXIT_BUSY)
    except BeehiveError as error:
        return _fail(error, EXIT_FAILED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", EXIT_FAILED)


def _fail(problem: object, code: int) -> int:
    print(problem, file=sys.stderr)
    return code


def _settings_or_default(arguments: argparse.Namespace) -> Config:
    """Whoever mends a host must not fail for a settings file that is broken too."""
    try:
        return _settings(arguments)
    except ConfigError as error:
        if arguments.command is not recovery.command:
            raise
        print(error, file=sys.stderr)
        return Config(root=arguments.root or "/")


def _settings(arguments: argparse.Namespace) -> Config:
    """The section `upgrader` of the agent's own configuration file, then the flags."""
    place: Path = arguments.settings or _SETTINGS
    if not place.exists() and arguments.settings is None:
        text = ""
    else:
        try:
            text = place.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(str(place), [Problem("file", "", f"cannot be read: {error}")]) from error
    flags = {"upgrader.root": arguments.root} if arguments.root else {}
    if arguments.config:
        flags["upgrader.target.config"] = arguments.config
    source = configuration.Source(name=str(place), text=text, flags=flags)
    loaded: Config = configuration.load({"upgrader": Config}, source, others=True)["upgrader"]
    return loaded


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keadm", description="Upgrade, back up or roll back the agent of this edge host.", allow_abbrev=False
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    backup = _action(actions, "backup", "save the installed version")
    backup.set_defaults(command=commands.backup)
    upgrade = _action(actions, "upgrade", "bring this host to another version; roll back by itself if that fails")
    upgrade.set_defaults(command=commands.upgrade)
    upgrade.add_argument("--toVersion", dest="to_version", default="", metavar="VERSION", help="such as v1.23.0")
    upgrade.add_argument("--image", default=_IMAGE, help=f"repository of the installation package (default {_IMAGE})")
    upgrade.add_argument("--image-digest", default="", metavar="sha256:…", help="install only this image")
    upgrade.add_argument("--force", action="store_true", help="do not ask")
    upgrade.add_argument("--request", type=Path, metavar="FILE", help="what the agent asks for")
    _deprecated(upgrade)
    rollback = _action(actions, "rollback", "go back to a version that was saved")
    rollback.set_defaults(command=commands.rollback)
    rollback.add_argument("--historical-version", default="", metavar="VERSION", help="default: the last one saved")
    recover = actions.add_parser("recover", help="finish or undo what was interrupted; done at every boot")
    recover.add_argument("what", choices=("edge",), metavar="edge", help="this host")
    _common(recover)
    recover.set_defaults(command=recovery.command)
    control = actions.add_parser("ctl", help="say yes or no to an upgrade that waits for its owner", allow_abbrev=False)
    control.add_argument("word", choices=("confirm", "reject"))
    control.add_argument("--reason", default="", help="why not")
    _common(control)
    control.set_defaults(command=commands.control)
    return parser


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    action = actions.add_parser(name, help=text, description=text, allow_abbrev=False)
    action.add_argument("what", choices=("edge",), metavar="edge", help="this host")
    _common(action)
    action.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    action.add_argument("--pre-run", type=Path, metavar="PROGRAM", help="run before; it must succeed")
    action.add_argument("--post-run", type=Path, metavar="PROGRAM", help="run after success")
    return action


def _common(action: argparse.ArgumentParser) -> None:
    action.add_argument("--config", default="", metavar="FILE", help="the agent's configuration file on this host")
    action.add_argument("--settings", type=Path, metavar="FILE", help=f"our own configuration (default {_SETTINGS})")
    action.add_argument("--root", default="", metavar="DIR", help="a directory that is the host (default /)")


def _deprecated(upgrade: argparse.ArgumentParser) -> None:
    """KubeEdge's v1alpha1 passes them; without meaning here, but that `--upgradeID` is not asked back."""
    for flag in ("--upgradeID", "--historyID", "--fromVersion", "--type"):
        upgrade.add_argument(flag, default="", help=argparse.SUPPRESS)
    upgrade.add_argument("--disable-backup", action="store_true", help=argparse.SUPPRESS)
