"""Commands that show what this program is: `routes`, `crd`, `config`, `version`, `completion`."""

import platform
from importlib.metadata import version as version_of
from typing import Any

import click
import msgspec
import yaml

from beehive.config import Duration, load
from beehive.runtime import sections
from beehive_cli.serve import read
from modules.console.routes import mermaid, table
from modules.registry import MODULES


@click.command()
@click.option("--mermaid", "diagram", is_flag=True, help="As a Mermaid diagram.")
@click.option("--mode", type=click.Choice(["cloud", "edge"]), help="One mode only.")
def routes(diagram: bool, mode: str | None) -> None:
    """Print which module says what to which."""
    for one in [mode] if mode else ["cloud", "edge"]:
        click.echo(mermaid(MODULES, one) if diagram else table(MODULES, one))


@click.command()
def crd() -> None:
    """Print the CustomResourceDefinition: beehive crd | kubectl apply -f -"""
    from beehive.api.crd import crd as definition  # noqa: PLC0415

    click.echo(yaml.safe_dump(definition(), sort_keys=False, width=120), nl=False)


@click.group()
def config() -> None:
    """Check or show the configuration."""


def _file(command: Any) -> Any:
    """FILE, or --config FILE as all other commands have it."""
    command = click.option("--config", "option", metavar="FILE", help="The same as FILE.")(command)
    return click.argument("file", required=False)(command)


def _one(file: str | None, option: str | None) -> str | None:
    if file and option:
        raise click.UsageError("give the file once: FILE, or --config FILE")
    return file or option


@config.command()
@_file
def check(file: str | None, option: str | None) -> None:
    """Say all that is wrong with FILE, the environment included."""
    file = _one(file, option)
    load(sections(MODULES), read(file, {}))
    click.echo(f"{file or 'The configuration'} is good.")


@config.command()
@_file
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def show(file: str | None, option: str | None, output: str) -> None:
    """Print every setting as it is in force: FILE, the environment, the defaults."""
    settings = load(sections(MODULES), read(_one(file, option), {}))
    plain = {name: msgspec.to_builtins(section, enc_hook=_spoken) for name, section in settings.items()}
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
    else:
        click.echo(yaml.safe_dump(plain, sort_keys=False), nl=False)


@click.command()
@click.option("-o", "--output", type=click.Choice(["json"]), help="For programs.")
def version(output: str | None) -> None:
    """Print what runs here."""
    told = {"version": version_of("beehive"), "python": platform.python_version(), "platform": platform.platform()}
    if output:
        click.echo(msgspec.json.encode(told).decode())
    else:
        click.echo(f"beehive {told['version']} (Python {told['python']}, {told['platform']})")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that lets a shell complete commands, options, and the names of jobs.

    \b
    bash:  beehive completion bash > ~/.local/share/bash-completion/completions/beehive
    zsh:   beehive completion zsh > ~/.zfunc/_beehive       (and fpath+=~/.zfunc before compinit)
    fish:  beehive completion fish > ~/.config/fish/completions/beehive.fish
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    from beehive_cli.root import beehive  # noqa: PLC0415 - it imports us

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(beehive, {}, "beehive", "_BEEHIVE_COMPLETE").source())


def _spoken(value: object) -> object:
    """Durations as they are written in a file."""
    if isinstance(value, Duration):
        return value.spoken()
    raise TypeError(f"a setting cannot have the type {type(value).__name__}")
