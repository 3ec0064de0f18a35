"""`beehive ready`: the probe of a container that has no curl."""

import http.client

import click

from beehive.config import load
from beehive.errors import Refused
from beehive.runtime import sections
from beehive_cli.serve import read
from modules.registry import MODULES


@click.command()
@click.option("--config", "file", metavar="FILE", help="The configuration of the process: it says which port.")
@click.option("--live", is_flag=True, help="Ask only whether it lives.")
def ready(file: str | None, live: bool) -> None:
    """Ask the process on this machine whether it can do its work: exit code 0 if so, else 1 and what it waits for."""
    runtime = load(sections(MODULES), read(file, {}))["runtime"]
    admin = runtime.admin
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.address, admin.address)  # noqa: S104 - not bound, asked
    try:
        connection = http.client.HTTPConnection(host, admin.port, timeout=8)
        connection.request("GET", "/livez" if live else "/readyz?verbose")
        answer = connection.getresponse()
        said = answer.read(65536).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise Refused(f"Nobody answers at {host}:{admin.port}: {error}. Is the process running?") from None
    click.echo(said, nl=False, err=answer.status != 200)
    if answer.status != 200:
        raise Refused(f"It is not {'alive' if live else 'ready'}.")
