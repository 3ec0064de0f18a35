"""`beehive token create|list|revoke`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from beehive.config import Duration, load
from beehive.runtime import sections
from beehive.world import World, rfc3339
from beehive_cli.job_options import show
from beehive_cli.serve import read
from modules.console.tokens import Desk, open_desk
from modules.registry import MODULES

T = TypeVar("T")


def at_the_desk(file: str | None, do: Callable[[Desk], Awaitable[T]]) -> T:
    """Do it in the cluster that the cloud's configuration names."""
    settings = load(sections(MODULES), read(file, {}))

    async def go() -> T:
        async with open_desk(settings["informer"], settings["cloudhub"], World()) as desk:
            return await do(desk)

    return asyncio.run(go())


def _duration(_: click.Context, __: click.Parameter, value: str) -> float:
    try:
        return float(Duration.parse(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


on_cluster: Callable[[Any], Any] = click.option(
    "--config", "file", metavar="FILE", help="The cloud's configuration: it says which cluster."
)


@click.group()
def token() -> None:
    """Make the tokens by which edge hosts join."""


@token.command()
@on_cluster
@click.option("--node", default="", metavar="NAME", help="Only this node may use it.")
@click.option("--uses", default=1, type=click.IntRange(0), show_default=True, help="How many nodes; 0 for any number.")
@click.option("--ttl", default="24h", callback=_duration, show_default=True, help="How long it is good.")
def create(file: str | None, node: str, uses: int, ttl: float) -> None:
    """Print a new token. It is shown once and kept nowhere: beehive token create > join.token"""
    click.echo(at_the_desk(file, lambda desk: desk.create(node, uses, ttl)))


@token.command("list")
@on_cluster
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="For programs.")
def list_(file: str | None, output: str | None) -> None:
    """List the tokens that are known, without the tokens themselves."""
    known = at_the_desk(file, lambda desk: desk.all())
    if output:
        told = [{"id": one.id, "node": one.node, "used": len(one.used), "uses": one.uses,
                 "expires": rfc3339(one.expires)} for one in known]  # fmt: skip
        show(told, output)
        return
    if not known:
        click.echo("No tokens. Make one: beehive token create", err=True)
        return
    click.echo(f"{'ID':<36}  {'NODE':<20}  {'USED':<6}  EXPIRES")
    for one in known:
        used = f"{len(one.used)}/{one.uses or 'any'}"
        click.echo(f"{one.id:<36}  {one.node or 'any':<20}  {used:<6}  {rfc3339(one.expires)}")


@token.command()
@on_cluster
@click.argument("token_id", metavar="ID")
def revoke(file: str | None, token_id: str) -> None:
    """Refuse this token from now on."""
    at_the_desk(file, lambda desk: desk.revoke(token_id))
    click.echo(f"Nobody joins with token {token_id} any more.")
