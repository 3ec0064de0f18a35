"""The words by which `beehive job create` and `plan` are told what a job is."""

import sys
from pathlib import Path
from typing import Any

import click

from beehive.api import limits
from beehive.config import Duration
from beehive.errors import Refused
from modules.console import jobs_made


def selector(_: click.Context, __: click.Parameter, text: str) -> dict[str, Any] | None:
    try:
        return jobs_made.selector(text) if text else None
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def duration(_: click.Context, __: click.Parameter, value: str) -> float | None:
    try:
        return float(Duration.parse(value)) if value else None
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def made_of(command: Any) -> Any:
    """What a new job is made of."""
    options = (
        click.option("-f", "--filename", default="", metavar="FILE", help="A job in YAML or JSON; - is stdin."),
        click.option("--version", default="", metavar="V", help="The version to upgrade to, such as v1.23.0."),
        click.option("--selector", "-l", default="", callback=selector, metavar="LABELS", help="Nodes by label."),
        click.option("--nodes", default="", metavar="A,B", help="Nodes by name."),
        click.option("--concurrency", type=int, metavar="N", help="How many at once; default 1."),
        click.option("--tolerate", metavar="SHARE", help="Share that may fail, such as 0.1 or 10%; default 0.1."),
        click.option("--timeout", default="", callback=duration, metavar="T", help="Longest silence; default 5m."),
        click.option("--on-offline", type=click.Choice(limits.ON_OFFLINE), help="Absent nodes; default Skip."),
        click.option("--check", metavar="ITEMS", help="What each node checks first: cpu,mem,disk."),
        click.option("--image", metavar="REPOSITORY", help="Repository of the installation image."),
        click.option("--confirm", is_flag=True, help="The owner of each node must confirm on it."),
        click.option("--allow-downgrade", is_flag=True, help="Also nodes that run a newer version."),
        click.option("--suspend", is_flag=True, help="Create it, but start no node yet."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def manifest_of(name: str, words: dict[str, Any]) -> jobs_made.Manifest:
    file, version = words.pop("filename"), words.pop("version")
    given = {key: value for key, value in words.items() if value not in (None, "", False)}
    if file and (version or given or name):
        raise click.UsageError("give either -f FILE or the words of a job, not both")
    if file:
        text = sys.stdin.read() if file == "-" else _text(file)
        return jobs_made.from_text(text, "stdin" if file == "-" else file)
    if not version:
        raise click.UsageError("a job needs --version, and --selector or --nodes; or -f FILE")
    return jobs_made.manifest(name, jobs_made.spec(version, given))


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{file} is not text in UTF-8.") from None
