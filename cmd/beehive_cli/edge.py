"""`beehive edge join`: what is done on an edge host by hand."""

import asyncio
import os
import socket
from pathlib import Path

import click

from beehive.config import load
from beehive.errors import Refused
from beehive.runtime import sections
from beehive_cli.serve import read
from modules.registry import MODULES


@click.group()
def edge() -> None:
    """Join this host to a cloud; see what it does."""


@edge.command()
@click.option("--cloud", "url", required=True, metavar="URL", help="The hub's HTTPS port: https://cloud.example:10002")
@click.option("--token-file", metavar="FILE", type=click.Path(path_type=Path),
              help="File with the join token; without it, $BEEHIVE_JOIN_TOKEN.")  # fmt: skip
@click.option("--node", metavar="NAME", default=lambda: socket.gethostname().lower(),
              help="Name of the Node object; default: this host's name.")  # fmt: skip
@click.option("--config", "file", metavar="FILE", help="The agent's configuration: it says where the identity lies.")
def join(url: str, token_file: Path | None, node: str, file: str | None) -> None:
    """Get this host's identity from the cloud. Then start the agent: beehive --mode edge"""
    from modules.edgehub.join import join as joined  # noqa: PLC0415 - certificates only where they are used

    settings = load(sections(MODULES), read(file, {}))
    directory = Path(settings["edgehub"].identity)
    asyncio.run(joined(url, _token(token_file), node, directory))
    click.echo(f"{node} has joined {url}; its identity is in {directory}. Now start the agent: beehive --mode edge")


def _token(file: Path | None) -> str:
    """Never from the command line, where every process could read it."""
    if file is not None:
        return file.read_text(encoding="utf-8").strip()
    if "BEEHIVE_JOIN_TOKEN" in os.environ:
        return os.environ["BEEHIVE_JOIN_TOKEN"].strip()
    raise Refused("A join token is needed: --token-file FILE, or $BEEHIVE_JOIN_TOKEN. Make one: beehive token create")
