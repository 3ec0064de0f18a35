"""`beehive job validate FILE…`: manifests judged offline."""

import sys
from pathlib import Path

import click

from beehive.errors import EXIT_FAILED
from modules.console.manifests import Judged, Problem, judged


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
def validate(files: tuple[str, ...]) -> None:
    """Judge manifests without a cluster, by the rules of the API server and of our webhook.

    YAML or JSON, several documents in a file; - reads stdin. Exits with 1 when something is wrong.
    """
    good = True
    for file in files:
        found = _read(file)
        good = good and not found.problems
        for problem in found.problems:
            where = f"{file}:{problem.line}" if problem.line else file
            click.echo(f"{where}: {problem.path + ': ' if problem.path else ''}{problem.sentence}")
        if not found.problems:
            click.echo(f"{file}: {found.jobs} {'job is' if found.jobs == 1 else 'jobs are'} good")
    if not good:
        sys.exit(EXIT_FAILED)


def _read(file: str) -> Judged:
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return judged(raw.decode())
    except OSError as error:
        return Judged(0, (Problem(0, "", f"it cannot be read: {error.strerror}"),))
    except UnicodeDecodeError:
        return Judged(0, (Problem(0, "", "it is not UTF-8"),))
