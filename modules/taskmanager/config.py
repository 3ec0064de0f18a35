"""Settings of the section `taskmanager`: `cloud` counts in mode cloud, `edge` in mode edge."""

from typing import Annotated

from msgspec import Meta, Struct

from beehive.config import Duration


class CloudConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """How patiently the planner looks on."""

    offline_after: Duration = Duration(90)
    """A node without a session for this long counts as offline when its turn comes; default 90s."""
    flush: Duration = Duration(1)
    """The shortest time in which a job earns one more status write, and the longest that reports are gathered;
    default 1s."""
    burst: Annotated[int, Meta(ge=1, title="a number of writes; give 1 or more")] = 3
    """Status writes that a job may make in quick succession before it must earn them; default 3."""
    retry_first: Duration = Duration(1)
    """Pause after the API server was away; doubles up to `retryCap`; default 1s."""
    retry_cap: Duration = Duration(30)
    """The longest pause between tries while the API server is away; default 30s."""
    ask_timeout: Duration = Duration(30)
    """How long an answer from the API server is waited for; default 30s."""
    cordons_at_once: Annotated[int, Meta(ge=1, title="a number of patches; give 1 or more")] = 64
    """Node patches under way at the same time; default 64."""


class EdgeConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the node's runner waits and repeats."""

    confirmation_limit: Duration = Duration(3600)
    """How long the node's owner may take to confirm before the upgrade is given up; default 1h. It ends with
    `ConfirmationExpired`."""
    ask_again: Duration = Duration(30)
    """Pause between two questions whether an upgrade may begin whose lease has ended; default 30s."""
    stop_again: Duration = Duration(10)
    """Pause after which a cancelled action that has not ended is told again; default 10s."""
    inspect_timeout: Duration = Duration(60)
    """How long the evidence after a restart is waited for; default 60s."""
    save_again: Duration = Duration(5)
    """Pause after the journal could not be written (disk full); default 5s."""


class Config(Struct, frozen=True, kw_only=True, rename="camel"):
    """The section `taskmanager`."""

    cloud: CloudConfig = CloudConfig()
    """The planner, in mode cloud."""
    edge: EdgeConfig = EdgeConfig()
    """The node's runner, in mode edge."""
