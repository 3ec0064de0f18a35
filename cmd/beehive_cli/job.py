"""`beehive job …`: what an operator does with upgrades. Also `kubectl nuj …` and `kubectl beehive job …`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec
import yaml

from beehive.config import load
from beehive.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE
from beehive.runtime import sections
from beehive.world import World
from beehive_cli.job_validate import validate
from beehive_cli.job_words import duration, made_of, manifest_of
from beehive_cli.serve import read
from modules.console import jobs_act, jobs_made, jobs_plan, jobs_view
from modules.console.jobs import Found, Jobs, open_jobs
from modules.registry import MODULES

T = TypeVar("T")
Decorator = Callable[[Any], Any]


def _at_work(where: dict[str, str], do: Callable[[Jobs], Awaitable[T]]) -> T:
    flags = {f"informer.{name}": where[name] for name in ("kubeconfig", "context") if where[name]}
    settings = load(sections(MODULES), read(where["file"] or None, flags))

    async def go() -> T:
        async with open_jobs(settings["informer"]) as jobs:
            return await do(jobs)

    return asyncio.run(go())


def _now() -> float:
    return World().now()


def _print(made: object, output: str) -> None:
    text = msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n" if output == "json" else ""
    click.echo(text or yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=120), nl=False)


def _lines(lines: list[str]) -> None:
    for line in lines:
        click.echo(line)


# ---- options -------------------------------------------------------------------------------------------------------


def _where(command: Any) -> Any:
    """How to reach the cluster."""
    options = (
        click.option("--kubeconfig", default="", metavar="FILE", help="Instead of $KUBECONFIG and ~/.kube/config."),
        click.option("--context", default="", metavar="NAME", help="A context in the kubeconfig."),
        click.option("--config", "file", default="", metavar="FILE", help="The cloud's configuration, instead."),
    )
    for option in reversed(options):
        command = option(command)
    return command


_output: Decorator = click.option(
    "-o", "--output", type=click.Choice(["json", "yaml"]), default=None, help="For programs: the whole object."
)
_yes: Decorator = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
_dry: Decorator = click.option("--dry-run", "dry", is_flag=True, help="Let the API server judge it; change nothing.")
_name: Decorator = click.argument("name")


# ---- commands ------------------------------------------------------------------------------------------------------


@click.group()
def job() -> None:
    """Upgrade nodes: make jobs, watch them, stop them."""


job.add_command(validate)


@job.command("list")
@_where
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml"]), help="More columns, or the whole objects.")
def list_(output: str | None, **where: str) -> None:
    """List all jobs, the youngest first."""
    found = _at_work(where, lambda jobs: jobs.all())
    if output in ("json", "yaml"):
        _print({"apiVersion": "v1", "kind": "List", "items": [one.raw for one in found]}, output)
    elif found:
        _lines(jobs_view.listing([one.job for one in found], _now(), wide=output == "wide"))
    else:
        click.echo(jobs_view.EMPTY, err=True)


@job.command()
@_name
@_where
@_output
@click.option("--all", "everything", is_flag=True, help="Every node, every sentence whole.")
def describe(name: str, output: str | None, everything: bool, **where: str) -> None:
    """Say how far a job is, why it waits, and what to do."""
    found = _at_work(where, lambda jobs: jobs.get(name))
    if output:
        _print(found.raw, output)
    else:
        _lines(jobs_view.described(found.job, _now(), everything=everything))


@job.command()
@_name
@_where
@click.option("--timeout", default="", callback=duration, metavar="T", help="Give up looking on after this.")
def watch(name: str, timeout: float | None, **where: str) -> int:
    """Look on until the job has ended: exit code 0 when it is Completed, 1 when it is not."""
    return EXIT_OK if _at_work(where, lambda jobs: jobs_act.watch(jobs, name, timeout)) else EXIT_FAILED


@job.command()
@made_of
@_where
@_output
def plan(output: str | None, kubeconfig: str, context: str, file: str, **words: Any) -> None:
    """Say what a job would do; change nothing."""
    manifest = manifest_of("", words)
    where = {"kubeconfig": kubeconfig, "context": context, "file": file}
    seen = _at_work(where, lambda jobs: jobs_act.preview(jobs, manifest, _now()))
    if output:
        _print(jobs_plan.plain(seen), output)
    else:
        _lines([*jobs_plan.lines(seen), "Nothing was changed."])


@job.command()
@click.argument("name", default="")
@made_of
@_where
@_yes
@_dry
@_output
def create(
    name: str, yes: bool, dry: bool, output: str | None, kubeconfig: str, context: str, file: str, **words: Any
) -> int:
    """Make a job, after saying which nodes it will upgrade."""
    manifest = manifest_of(name, words)
    where = {"kubeconfig": kubeconfig, "context": context, "file": file}
    if not yes and not dry:
        seen = _at_work(where, lambda jobs: jobs_act.preview(jobs, manifest, _now()))
        for line in jobs_plan.lines(seen):
            click.echo(line, err=True)
        if not _agreed("Create it?"):
            return EXIT_USAGE
    jobs_made.job_of(manifest)
    found = _at_work(where, lambda jobs: jobs.create(manifest, dry=dry))
    made = found.job.metadata.name
    _told(found, output, dry, f"Job {made} is made. Look on: beehive job watch {made}")
    return EXIT_OK


@job.command()
@_name
@_where
@_yes
@_dry
@_output
def abort(name: str, yes: bool, dry: bool, output: str | None, **where: str) -> int:
    """Stop a job for good: no further node starts, nodes that have not begun to swap stop."""
    if not yes and not dry:
        _lines_err(jobs_act.would_abort(_at_work(where, lambda jobs: jobs.get(name)).job))
        if not _agreed("Abort it?"):
            return EXIT_USAGE
    found = _at_work(where, lambda jobs: jobs.change(name, jobs_act.abort, dry=dry))
    _told(found, output, dry, f"Job {name} is aborted. Look on: beehive job watch {name}")
    return EXIT_OK


@job.command()
@_name
@_where
@_dry
@_output
def suspend(name: str, dry: bool, output: str | None, **where: str) -> None:
    """Start no further node; nodes in flight finish."""
    found = _at_work(where, lambda jobs: jobs.change(name, jobs_act.suspend, dry=dry))
    _told(found, output, dry, f"Job {name} is suspended. Go on: beehive job resume {name}")


@job.command()
@_name
@_where
@_dry
@_output
def resume(name: str, dry: bool, output: str | None, **where: str) -> None:
    """Go on with a suspended job."""
    found = _at_work(where, lambda jobs: jobs.change(name, jobs_act.resume, dry=dry))
    _told(found, output, dry, f"Job {name} goes on. Look on: beehive job watch {name}")


@job.command()
@_name
@_where
@_yes
@_dry
@_output
def retry(name: str, yes: bool, dry: bool, output: str | None, **where: str) -> int:
    """Try again the nodes that failed, were silent, were away, or were left out when the budget was spent."""
    if not yes and not dry:
        _lines_err(jobs_act.would_retry(_at_work(where, lambda jobs: jobs.get(name)).job))
        if not _agreed("Try them again?"):
            return EXIT_USAGE
    found = _at_work(where, lambda jobs: jobs.change(name, jobs_act.retry, dry=dry))
    _told(found, output, dry, f"Job {name} tries again. Look on: beehive job watch {name}")
    return EXIT_OK


def _told(found: Found, output: str | None, dry: bool, text: str) -> None:
    if output:
        _print(found.raw, output)
    else:
        click.echo("The API server would take it. Nothing was changed." if dry else text)


def _lines_err(lines: list[str]) -> None:
    for line in lines:
        click.echo(line, err=True)


def _agreed(question: str) -> bool:
    """Ask on a terminal; elsewhere nobody can answer."""
    if not sys.stdin.isatty():
        click.echo("Nothing was changed: nobody can be asked here. Say --yes to do it.", err=True)
        return False
    if not click.confirm(question, err=True):
        click.echo("Nothing was changed.", err=True)
        return False
    return True
