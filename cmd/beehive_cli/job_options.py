"""What the commands of `beehive job` have in common: where the cluster is, how to print, whom to ask."""

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click
import msgspec
import yaml

from beehive.config import load
from beehive.errors import BeehiveError
from beehive.runtime import sections
from beehive.world import World
from beehive_cli.serve import read
from modules.console import jobs_view
from modules.console.jobs import Found, Jobs, open_jobs
from modules.registry import MODULES

T = TypeVar("T")
Decorator = Callable[[Any], Any]
_LONGEST_COMPLETION = 3.0


class Where(NamedTuple):
    """How to reach the cluster."""

    kubeconfig: str = ""
    context: str = ""
    file: str = ""

    def do(self, work: Callable[[Jobs], Awaitable[T]]) -> T:
        """Do it with the jobs of that cluster."""
        flags = {f"informer.{name}": getattr(self, name) for name in ("kubeconfig", "context") if getattr(self, name)}
        settings = load(sections(MODULES), read(self.file or None, flags))

        async def go() -> T:
            async with open_jobs(settings["informer"]) as jobs:
                return await work(jobs)

        return asyncio.run(go())


def where(command: Any) -> Any:
    """Options that become the parameter `where`."""

    @functools.wraps(command)
    def found(kubeconfig: str, context: str, file: str, **rest: Any) -> Any:
        return command(where=Where(kubeconfig, context, file), **rest)

    options = (
        click.option("--kubeconfig", default="", metavar="FILE", help="Instead of $KUBECONFIG and ~/.kube/config."),
        click.option("--context", default="", metavar="NAME", help="A context in the kubeconfig."),
        click.option("--config", "file", default="", metavar="FILE", help="The cloud's configuration, instead."),
    )
    made: Any = found
    for option in reversed(options):
        made = option(made)
    return made


def _complete(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Names of jobs that begin so; none where the cluster does not answer soon, for completion must not complain."""
    words = (context.params.get(name) or "" for name in Where._fields)

    async def names(jobs: Jobs) -> list[str]:
        async with asyncio.timeout(_LONGEST_COMPLETION):
            return [found.job.metadata.name for found in await jobs.all()]

    try:
        return [name for name in Where(*words).do(names) if name.startswith(begun)]
    except (BeehiveError, TimeoutError, OSError):
        return []


output: Decorator = click.option(
    "-o", "--output", type=click.Choice(["wide", "json", "yaml"]), default=None,
    help="wide: more columns; json, yaml: the whole object, for programs.",
)  # fmt: skip
yes: Decorator = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
dry_run: Decorator = click.option("--dry-run", "dry", is_flag=True, help="Let the API server judge it; change nothing.")
name: Decorator = click.argument("name", shell_complete=_complete)


def now() -> float:
    """Seconds since the epoch."""
    return World().now()


def show(made: object, output: str) -> None:
    """An object for programs."""
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(made), indent=2).decode())
    else:
        click.echo(yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=120), nl=False)


def lines(told: Sequence[str], *, err: bool = False) -> None:
    """One after the other."""
    for line in told:
        click.echo(line, err=err)


def listed(found: Sequence[Found], output: str | None) -> None:
    """As a table, or what `-o` asks for."""
    lines(jobs_view.listing([one.job for one in found], now(), wide=output == "wide"))


def told(found: Found, output: str | None, dry: bool, text: str) -> None:
    """What became of a change."""
    if output in ("json", "yaml"):
        show(found.raw, output)
    elif output:
        listed([found], output)
    else:
        click.echo("The API server would take it. Nothing was changed." if dry else text)


def agreed(question: str) -> bool:
    """Ask on a terminal; elsewhere nobody can answer."""
    if not sys.stdin.isatty():
        click.echo("Nothing was changed: nobody can be asked here. Say --yes to do it.", err=True)
        return False
    if not click.confirm(question, err=True):
        click.echo("Nothing was changed.", err=True)
        return False
    return True
