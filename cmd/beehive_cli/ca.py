"""`beehive ca show|rotate|retire`."""

import hashlib

import click

from beehive_cli.token import at_the_desk, on_cluster


@click.group()
def ca() -> None:
    """See and replace the certificate authority of the hub."""


@ca.command()
@on_cluster
def show(file: str | None) -> None:
    """Print the digest of the CA, and of earlier ones that are still believed."""
    found = at_the_desk(file, lambda desk: desk.authority())
    click.echo(f"{'SHA-256':<64}  ROLE")
    click.echo(f"{hashlib.sha256(found.ca.certificate).hexdigest()}  signs")
    for one in found.trusted:
        click.echo(f"{hashlib.sha256(one).hexdigest()}  believed until: beehive ca retire")


@ca.command()
@on_cluster
def rotate(file: str | None) -> None:
    """Make a new CA. Nobody is locked out: the old one is believed until it is retired.

    Hosts whose agent is connected have a certificate of the new CA within ten minutes; others renew when they are back.
    Join tokens that were made before are of no more use.
    """
    made = at_the_desk(file, lambda desk: desk.rotate())
    click.echo(
        f"The CA is {hashlib.sha256(made.ca.certificate).hexdigest()} now. When all hosts are back: beehive ca retire"
    )


@ca.command()
@on_cluster
@click.confirmation_option(prompt="Hosts that still have a certificate of the old CA must join again. Go on?")
def retire(file: str | None) -> None:
    """Believe the earlier CAs no more; every session begins anew."""
    at_the_desk(file, lambda desk: desk.retire())
    click.echo("Only certificates of the present CA are believed.")
