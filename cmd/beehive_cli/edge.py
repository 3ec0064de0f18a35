"""`beehive edge`: what is done by hand on an edge host, and about one."""

import asyncio
import os
from pathlib import Path
from socket import gethostname

import click

from beehive.config import load
from beehive.errors import Refused
from beehive.runtime import sections
from beehive.world import rfc3339
from beehive_cli import on_host
from beehive_cli.serve import read
from beehive_cli.token import at_the_desk, on_cluster
from modules.registry import MODULES


@click.group()
def edge() -> None:
    """Join this host to a cloud, see it, speak for it; or, in the cloud, turn a host away."""


@edge.command()
@click.option("--cloud", "url", required=True, metavar="URL", help="The hub's HTTPS port: https://cloud.example:10002")
@click.option("--token-file", metavar="FILE", type=click.Path(path_type=Path),
              help="File with the join token; without it, $BEEHIVE_JOIN_TOKEN.")  # fmt: skip
@click.option("--node", metavar="NAME", default=lambda: gethostname().lower(),
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
@on_host.on_this_host
@on_host.by_socket
@click.option("-o", "--output", type=click.Choice(["json"]), help="For programs.")
def status(file: str | None, socket: Path | None, output: str | None) -> None:
    """See what this host runs, whether the cloud is reached, and what is under way; also while the agent is down."""
    on_host.status(file, socket, output)


@edge.command()
@on_host.on_this_host
@on_host.by_socket
@click.argument("job", default="")
def confirm(file: str | None, socket: Path | None, job: str) -> None:
    """Say yes to the upgrade that waits for this host's owner; with JOB, to that one only."""
    on_host.decide(file, socket, confirmed=True, job=job, reason="")


@edge.command()
@on_host.on_this_host
@on_host.by_socket
@click.argument("job", default="")
@click.option("--reason", default="", metavar="TEXT", help="Is told to who made the job.")
def reject(file: str | None, socket: Path | None, job: str, reason: str) -> None:
    """Say no to the upgrade that waits for this host's owner; that is final."""
    on_host.decide(file, socket, confirmed=False, job=job, reason=reason)


@edge.command()
@on_host.on_this_host
@on_host.by_socket
@click.option("--lines", "count", default=100, show_default=True, type=click.IntRange(1, 1000), help="Of each program.")
def logs(file: str | None, socket: Path | None, count: int) -> None:
    """See what the last upgrade's tool and the program of this host wrote last."""
    on_host.logs(file, socket, count)


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
