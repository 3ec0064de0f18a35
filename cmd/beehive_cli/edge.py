"""`beehive edge`: what is done by hand on an edge host, and about one."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from beehive.config import load
from beehive.errors import Refused
from beehive.runtime import sections
from beehive.world import rfc3339
from beehive_cli.serve import read
from beehive_cli.token import at_the_desk, on_cluster
from modules.registry import MODULES

on_host: Callable[[Any], Any] = click.option(
    "--config", "file", metavar="FILE", help="The agent's configuration: it says where this host keeps its things."
)


@click.group()
def edge() -> None:
    """Join this host to a cloud; or, in the cloud, turn a host away."""


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


@edge.command()
@on_cluster
@click.argument("node")
@click.option("--reason", default="", metavar="TEXT", help="Is told to the node and stands in the log.")
def revoke(file: str | None, node: str, reason: str) -> None:
    """Refuse the certificates that NODE has now, within two seconds. With a new token it may join again."""
    at_the_desk(file, lambda desk: desk.revoke_node(node, reason))
    click.echo(f"The certificates that {node} has are refused. To let it in again: beehive token create --node {node}")


@edge.command()
@on_cluster
def revoked(file: str | None) -> None:
    """List the nodes whose certificates are refused."""
    found = at_the_desk(file, lambda desk: desk.revoked())
    if not found:
        click.echo("No certificates are refused. To refuse one: beehive edge revoke NODE")
        return
    click.echo(f"{'NODE':<20}  {'GIVEN BEFORE':<20}  REASON")
    for one in found:
        click.echo(f"{one.node:<20}  {rfc3339(one.before):<20}  {one.reason}".rstrip())


@edge.command()
@on_host
def confirm(file: str | None) -> NoReturn:
    """Say yes to the upgrade that waits for this host's owner."""
    _owner_says("confirm", file)


@edge.command()
@on_host
@click.option("--reason", default="", metavar="TEXT", help="Is told to who made the job.")
def reject(file: str | None, reason: str) -> NoReturn:
    """Say no to the upgrade that waits for this host's owner; that is final."""
    _owner_says("reject", file, "--reason", reason)


def _owner_says(word: str, file: str | None, *more: str) -> NoReturn:
    """As `keadm ctl` does."""
    from beehive_cli.keadm import run as tool  # noqa: PLC0415

    sys.exit(tool(["ctl", word, *(("--settings", file) if file else ()), *more]))


def _token(file: Path | None) -> str:
    """Never from the command line, where every process could read it."""
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").strip()
        except UnicodeDecodeError:
            raise Refused(f"{file} holds no join token: it is not text. Make one: beehive token create") from None
    if "BEEHIVE_JOIN_TOKEN" in os.environ:
        return os.environ["BEEHIVE_JOIN_TOKEN"].strip()
    raise Refused("A join token is needed: --token-file FILE, or $BEEHIVE_JOIN_TOKEN. Make one: beehive token create")
