"""`beehive etcd status`."""

import asyncio

import click
import msgspec

from beehive.config import load
from beehive.errors import EXIT_FAILED, EXIT_OK
from beehive.runtime import sections
from beehive.world import World
from beehive_cli.job_options import show
from beehive_cli.serve import read
from modules.console.etcd import fetch, healthy, lines, stale
from modules.registry import MODULES


@click.group()
def etcd() -> None:
    """See who votes in etcd, and whether a node may go down."""


@etcd.command()
@click.option("--config", "file", metavar="FILE", help="The cloud's configuration: it says which cluster.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="For programs.")
def status(file: str | None, output: str | None) -> int:
    """Print the members as the cloud last saw them; exit code 1 when not all is well."""
    settings = load(sections(MODULES), read(file, {}))
    report = asyncio.run(fetch(settings["informer"], settings["etcdmanager"].report))
    now = World().now()
    if output:
        show({**msgspec.to_builtins(report), "stale": stale(report, now)}, output)
    else:
        click.echo("\n".join(lines(report, now)))
    return EXIT_OK if healthy(report, now) else EXIT_FAILED
