"""``python -m modules.demo.apiserver``: serve until SIGTERM, SIGINT or, if asked, until standard input closes.

The first line on standard output is the server's address.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from modules.demo.apiserver.kinds import from_crd
from modules.demo.apiserver.server import Config, Server


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve; the exit code: 0 after a stop, 78 for a file that is of no use, 70 for an address that cannot be bound."""
    options = _parser().parse_args(arguments)
    try:
        config = _config(options)
    except (OSError, ValueError) as error:
        print(f"The embedded API server cannot start: {error}", file=sys.stderr)
        return 78
    try:
        asyncio.run(_serve(config, options.until_stdin_closes))
    except ValueError as error:
        print(f"The embedded API server cannot start: {error}", file=sys.stderr)
        return 78
    except OSError as error:
        print(
            f"The embedded API server cannot listen on {config.host}:{config.port}: {error.strerror}.", file=sys.stderr
        )
        return 70
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m modules.demo.apiserver", description="A small Kubernetes API server in memory."
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0: any free one")
    parser.add_argument("--token-file", type=Path, help="file with the bearer token that callers must have")
    parser.add_argument(
        "--certificate", default="", help="PEM file of the certificate; without it plain HTTP is served"
    )
    parser.add_argument("--key", default="", help="PEM file of the certificate's key")
    parser.add_argument(
        "--crd",
        type=Path,
        action="append",
        help="file of CustomResourceDefinitions, as YAML or JSON; by default our own",
    )
    parser.add_argument(
        "--history", type=int, default=20_000, help="changes remembered per kind; older watches get 410"
    )
    parser.add_argument("--bookmark-seconds", type=float, default=60.0, help="time between bookmarks of a watch")
    parser.add_argument("--namespace", action="append", default=[], help="a namespace that exists from the start")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when standard input is closed")
    parser.add_argument("--faults", action="store_true", help="serve /faults, by which tests spoil requests")
    return parser


def _config(options: argparse.Namespace) -> Config:
    return Config(
        crds=[crd for path in options.crd for crd in _crds(path)] if options.crd else [_own_crd()],
        host=options.host,
        port=options.port,
        token=options.token_file.read_text().strip() if options.token_file else "",
        certificate=options.certificate,
        key=options.key,
        history=options.history,
        bookmark_every=options.bookmark_seconds,
        namespaces=options.namespace,
        faults=options.faults,
    )


def _crds(path: Path) -> list[Mapping[str, Any]]:
    """The definitions in a file, JSON or YAML. Raises ValueError that names it."""
    try:
        found = [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one is not None]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"{path}: not YAML or JSON: line {line}: {error.problem or error.context}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not YAML or JSON: {str(error).splitlines()[0]}") from None
    wrong = [problem for one in found or [None] if (problem := _misfit(one))]
    if wrong:
        raise ValueError(f"{path}: not a CustomResourceDefinition: {wrong[0]}")
    return found


def _misfit(crd: Any) -> str:
    if not isinstance(crd, Mapping):
        return "it is empty" if crd is None else f"a mapping is expected, not {str(crd)[:40]}"
    if crd.get("kind") != "CustomResourceDefinition":
        return f"its kind is {str(crd.get('kind'))[:40]}"
    try:
        from_crd(crd)
    except (KeyError, TypeError, AttributeError) as error:
        return f"{str(error)[:80]} is missing or no value that it may have"
    return ""


def _own_crd() -> Mapping[str, Any]:
    from beehive.api.crd import crd  # noqa: PLC0415 - only when none is given

    return crd()


async def _serve(config: Config, until_stdin_closes: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if until_stdin_closes:
        await _watch_stdin(loop, stop)
    async with Server(config) as server:
        print(server.address, flush=True)
        await stop.wait()


async def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    class Reader(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            stop.set()

    await loop.connect_read_pipe(Reader, sys.stdin)


if __name__ == "__main__":
    sys.exit(main())
