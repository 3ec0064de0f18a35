"""Commands that show what this program is: `routes`, `crd`, `config`."""

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


@config.command()
@click.argument("file", required=False)
def check(file: str | None) -> None:
    """Say all that is wrong with FILE, the environment included."""
    load(sections(MODULES), read(file, {}))
    click.echo(f"{file or 'The configuration'} is good.")


@config.command()
@click.argument("file", required=False)
def show(file: str | None) -> None:
    """Print every setting as it is in force: FILE, the environment, the defaults."""
    settings = load(sections(MODULES), read(file, {}))
    plain = {name: msgspec.to_builtins(section, enc_hook=_spoken) for name, section in settings.items()}
    click.echo(yaml.safe_dump(plain, sort_keys=False), nl=False)


def _spoken(value: object) -> object:
    """Durations as they are written in a file."""
    if isinstance(value, Duration):
        return value.spoken()
    raise TypeError(f"a setting cannot have the type {type(value).__name__}")
