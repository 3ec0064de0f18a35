"""The scenes of the demo: who takes part, what happens to them, and how each must end."""

from typing import Any

from msgspec import Struct

from beehive.api import nodeupgradejob as api

OLD, NEW = "v1.22.0", "v1.23.0"
NEWEST_SCHEMA = 8
"""Of the new program; data of a newer schema does not suit it."""


class Plan(Struct, frozen=True):
    """One host's part in a scene."""

    name: str
    schema: int = NEWEST_SCHEMA
    offline: bool = False
    returns: bool = False
    """It is offline, and comes back when the others are done."""
    cut: bool = False
    """Its power is cut while the program is swapped."""
    ends: tuple[str, ...] = ("Successful",)
    """How it may end: phase, and after a slash the reason code."""


class Scene(Struct, frozen=True):
    """Who takes part, and how careful the job is."""

    title: str
    hosts: tuple[Plan, ...]
    concurrency: int = 2
    tolerate: str = "40%"
    on_offline: str = "Skip"
    aborted: bool = False
    """Somebody aborts the job when its second host is being swapped."""
    phase: str = api.COMPLETED
    """How the job ends."""


def _host(number: int, **part: Any) -> Plan:
    return Plan(f"edge-{number}", **part)


def _bad(number: int, *ends: str) -> Plan:
    """Its data does not suit the new program."""
    return _host(number, schema=NEWEST_SCHEMA + 1, ends=ends or ("Failure/RolledBack",))


_SPENT, _ABORTED = "Skipped/BudgetExceeded", "Skipped/Aborted"
SCENES = {
    "rollout": Scene(
        "a rollout with a rollback, a host that is offline, and a power cut",
        (_host(1), _bad(2), _host(3, cut=True), _host(4, offline=True, ends=("Skipped/NotConnected",)), _host(5)),
    ),
    "upgrade": Scene("all goes well, two at a time", tuple(_host(number) for number in range(1, 5))),
    "rollback": Scene("one host cannot run the new version, and runs the old one again", (_host(1), _bad(2), _host(3))),
    "powercut": Scene(
        "the power of one host is cut in the middle of its swap", (_host(1), _host(2, cut=True), _host(3))
    ),
    "offline": Scene(
        "one host is away; the job waits for it, and it comes back",
        (_host(1), _host(2, offline=True, returns=True), _host(3)),
        on_offline="Wait",
    ),
    "budget": Scene(
        "a bad rollout that stops itself",
        (_bad(1), _bad(2), *(_bad(number, _SPENT) for number in range(3, 6))),
        concurrency=1,
        tolerate="20%",
        phase=api.FAILURE,
    ),
    "abort": Scene(
        "somebody aborts the job: who swaps finishes, the others are left alone",
        (
            _host(1), _host(2, ends=("Successful", _ABORTED)), _host(3, ends=("Successful", _ABORTED)),
            _host(4, ends=(_ABORTED,)), _host(5, ends=(_ABORTED,)),
        ),
        concurrency=1,
        aborted=True,
        phase=api.FAILURE,
    ),
}  # fmt: skip
