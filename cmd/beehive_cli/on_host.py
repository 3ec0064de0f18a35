"""What the owner of an edge host asks and says there: `beehive edge status|confirm|reject|logs`, `keadm ctl`."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from beehive.config import load
from beehive.errors import Refused, Unavailable
from beehive.journal import Journal
from beehive.messages.host import Decided, OwnerDecides
from beehive.runtime import sections
from beehive.world import World
from beehive_cli.serve import read
from modules import control, edgehub, taskmanager, upgrader
from modules.control.client import asked
from modules.control.requests import Answer, Decide, Logs, Question, Status
from modules.registry import MODULES

_SETTINGS = Path("/etc/beehive/edge.yaml")

on_this_host: Callable[[Any], Any] = click.option(
    "--config", "file", metavar="FILE",
    help=f"The agent's configuration: it says where this host keeps its things. Default: {_SETTINGS}, if it is there.",
)  # fmt: skip
by_socket: Callable[[Any], Any] = click.option(
    "--socket", metavar="FILE", type=click.Path(path_type=Path),
    help="The agent's socket (control.socket), for who may not read its configuration.",
)  # fmt: skip


class Desk(NamedTuple):
    """Where this host's agent is asked, and where it keeps its things."""

    place: Path
    settings: dict[str, Any] | None
    """None: only the socket is known."""

    @classmethod
    def of(cls, file: str | None, socket: Path | None) -> "Desk":
        if socket:
            return cls(socket, None)
        found = file or (str(_SETTINGS) if _SETTINGS.exists() else None)
        settings = load(sections(MODULES), read(found, {}))
        return cls(control.place_of(settings["control"], Path(settings["runtime"].data)), settings)

    def ask(self, question: Question) -> Answer:
        """Raises Unavailable where no agent runs."""
        return asked(self.place, question)

    def journal(self, module: str) -> Journal:
        """Of the agent's module."""
        assert self.settings
        return Journal(Path(self.settings["runtime"].data) / "journal" / module)


def status(file: str | None, socket: Path | None, output: str | None) -> None:
    """From the agent, or without one from what it wrote down."""
    from modules.console.host import Seen, lines  # noqa: PLC0415 - only where it is printed

    desk, now = Desk.of(file, socket), time.time()
    try:
        answer = desk.ask(Status())
    except Unavailable as error:
        answer = _from_disk(desk, error, now)
    if answer.problem and not (answer.node or answer.attempts or answer.link):
        raise Refused(answer.problem)
    seen = Seen(
        agent=answer.version, trouble=answer.problem, node=answer.node, attempts=answer.attempts, link=answer.link
    )
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(seen), indent=2).decode())
        return
    for line in lines(seen, now):
        click.echo(line)


def decide(file: str | None, socket: Path | None, *, confirmed: bool, job: str, reason: str) -> None:
    """The owner's word; without an agent it is written down for the next one."""
    desk = Desk.of(file, socket)
    try:
        answer = desk.ask(Decide(confirmed=confirmed, job=job, reason=reason))
        decided, note = answer.decided or Decided(problem=answer.problem), ""
    except Unavailable:
        if desk.settings is None:
            raise
        decided = upgrader.decide_on(
            desk.settings["upgrader"], OwnerDecides(confirmed=confirmed, job=job, reason=reason)
        )
        note = " The agent does not run now; it acts when it does."
    if decided.problem:
        raise Refused(decided.problem)
    click.echo(f"{'Confirmed' if confirmed else 'Rejected'}: job {decided.job}, to {decided.version}.{note}")


def logs(file: str | None, socket: Path | None, count: int) -> None:
    """What the tool and the target wrote last."""
    desk = Desk.of(file, socket)
    try:
        answer = desk.ask(Logs(lines=count))
    except Unavailable:
        if desk.settings is None:
            raise
        answer = Answer(lines=upgrader.logs_on(desk.settings["upgrader"], count).lines)
    if answer.problem:
        raise Refused(answer.problem)
    for line in answer.lines:
        click.echo(line)
    if not answer.lines:
        click.echo("No upgrade was tried on this host, and its program wrote nothing.", err=True)


def _from_disk(desk: Desk, why: Unavailable, now: float) -> Answer:
    if desk.settings is None:
        raise why
    return Answer(
        problem=why.reason,
        node=upgrader.state_on(desk.settings["upgrader"], now),
        attempts=taskmanager.remembered_in(desk.journal("taskmanager"), World()),
        link=edgehub.link_in(desk.settings["edgehub"], desk.journal("edgehub")),
    )
