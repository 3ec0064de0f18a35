"""`beehive job …`: what an operator does with upgrades. Also `kubectl nuj …` and `kubectl beehive job …`."""

from typing import Any

import click

from beehive.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE
from beehive_cli.job_options import Where, agreed, dry_run, lines, listed, name, now, output, show, told, where, yes
from beehive_cli.job_validate import validate
from beehive_cli.job_words import duration, made_of, manifest_of
from modules.console import jobs_act, jobs_logs, jobs_made, jobs_plan, jobs_view
from modules.console.jobs import Found, Jobs


@click.group()
def job() -> None:
    """Upgrade nodes: make jobs, watch them, stop them."""


job.add_command(validate)


# ---- looking -------------------------------------------------------------------------------------------------------


@job.command("list")
@where
@output
def list_(output: str | None, where: Where) -> None:
    """List all jobs, the youngest first."""
    found = where.do(lambda jobs: jobs.all())
    if output in ("json", "yaml"):
        show({"apiVersion": "v1", "kind": "List", "items": [one.raw for one in found]}, output)
    elif found:
        listed(found, output)
    else:
        click.echo(jobs_view.EMPTY, err=True)


@job.command()
@name
@where
@output
def get(name: str, output: str | None, where: Where) -> None:
    """Print one job: a line, or the whole object with -o json or yaml."""
    found = where.do(lambda jobs: jobs.get(name))
    if output in ("json", "yaml"):
        show(found.raw, output)
    else:
        listed([found], output)


@job.command()
@name
@where
@output
@click.option("--all", "everything", is_flag=True, help="Every node, every sentence whole; -o wide says the same.")
def describe(name: str, output: str | None, everything: bool, where: Where) -> None:
    """Say how far a job is, why it waits, and what to do."""

    async def look(jobs: Jobs) -> tuple[Found, list[jobs_logs.Happened]]:
        return await jobs.get(name), await jobs_logs.events_of(jobs)

    found, happened = where.do(look)
    if output in ("json", "yaml"):
        show(found.raw, output)
    else:
        wide = everything or output == "wide"
        lines(jobs_view.described(found.job, now(), everything=wide))
        lines(jobs_logs.contested(found.job, happened, now()))


@job.command()
@name
@where
@click.option("--node", default="", metavar="NAME", help="Of this node alone.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended.")
@click.option("-o", "--output", type=click.Choice(["json"]), default=None, help="One JSON object a line.")
def logs(name: str, node: str, follow: bool, output: str | None, where: Where) -> None:
    """Tell what happened, in order: the job's Events, and every step of its nodes as they reported it.

    What a host itself wrote down is on the host: beehive edge logs.
    """
    where.do(lambda jobs: jobs_logs.tell(jobs, name, jobs_logs.Wanted(node, follow, output == "json")))


@job.command()
@name
@where
@click.option("--timeout", default="", callback=duration, metavar="T", help="Give up looking on after this.")
def watch(name: str, timeout: float | None, where: Where) -> int:
    """Look on until the job has ended: exit code 0 when it is Completed, 1 when it is not."""
    return EXIT_OK if where.do(lambda jobs: jobs_act.watch(jobs, name, timeout)) else EXIT_FAILED


@job.command()
@made_of
@where
@output
def plan(output: str | None, where: Where, **words: Any) -> None:
    """Say what a job would do; change nothing."""
    manifest = manifest_of("", words)
    seen = where.do(lambda jobs: jobs_act.preview(jobs, manifest, now()))
    if output in ("json", "yaml"):
        show(jobs_plan.plain(seen), output)
    else:
        lines([*jobs_plan.lines(seen, everything=output == "wide"), "Nothing was changed."])


# ---- changing ------------------------------------------------------------------------------------------------------


@job.command()
@click.argument("name", default="")
@made_of
@where
@yes
@dry_run
@output
def create(name: str, yes: bool, dry: bool, output: str | None, where: Where, **words: Any) -> int:
    """Make a job, after saying which nodes it will upgrade."""
    manifest = manifest_of(name, words)
    if not yes and not dry:
        seen = where.do(lambda jobs: jobs_act.preview(jobs, manifest, now()))
        lines(jobs_plan.lines(seen), err=True)
        if not agreed("Create it?"):
            return EXIT_USAGE
    jobs_made.job_of(manifest)
    found = where.do(lambda jobs: jobs.create(manifest, dry=dry))
    made = found.job.metadata.name
    told(found, output, dry, f"Job {made} is made. Look on: beehive job watch {made}")
    return EXIT_OK


@job.command()
@name
@where
@yes
@dry_run
@output
def abort(name: str, yes: bool, dry: bool, output: str | None, where: Where) -> int:
    """Stop a job for good: no further node starts, nodes that have not begun to swap stop."""
    if not yes and not dry:
        lines(jobs_act.would_abort(where.do(lambda jobs: jobs.get(name)).job), err=True)
        if not agreed("Abort it?"):
            return EXIT_USAGE
    found = where.do(lambda jobs: jobs.change(name, jobs_act.abort, dry=dry))
    told(found, output, dry, f"Job {name} is aborted. Look on: beehive job watch {name}")
    return EXIT_OK


@job.command()
@name
@where
@dry_run
@output
def suspend(name: str, dry: bool, output: str | None, where: Where) -> None:
    """Start no further node; nodes in flight finish."""
    found = where.do(lambda jobs: jobs.change(name, jobs_act.suspend, dry=dry))
    told(found, output, dry, f"Job {name} is suspended. Go on: beehive job resume {name}")


@job.command()
@name
@where
@dry_run
@output
def resume(name: str, dry: bool, output: str | None, where: Where) -> None:
    """Go on with a suspended job."""
    found = where.do(lambda jobs: jobs.change(name, jobs_act.resume, dry=dry))
    told(found, output, dry, f"Job {name} goes on. Look on: beehive job watch {name}")


@job.command()
@name
@where
@yes
@dry_run
@output
def retry(name: str, yes: bool, dry: bool, output: str | None, where: Where) -> int:
    """Try again the nodes that failed, were silent, were away, or were left out when the budget was spent."""
    if not yes and not dry:
        lines(jobs_act.would_retry(where.do(lambda jobs: jobs.get(name)).job), err=True)
        if not agreed("Try them again?"):
            return EXIT_USAGE
    found = where.do(lambda jobs: jobs.change(name, jobs_act.retry, dry=dry))
    told(found, output, dry, f"Job {name} tries again. Look on: beehive job watch {name}")
    return EXIT_OK
