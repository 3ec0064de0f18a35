"""KubeEdge's report file: `/etc/kubeedge/upgrade_report.json`, five keys (spec/kubeedge.md 8.2)."""

import msgspec
from msgspec import Struct

from beehive.messages.host import Verdict
from modules.upgrader.host.files import Files
from modules.upgrader.host.layout import Layout
from modules.upgrader.tool.record import Order


class Report(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the file says."""

    event: str
    """`Backup`, `Upgrade` or `Rollback`."""
    success: bool
    from_version: str
    to_version: str
    error_message: str | msgspec.UnsetType = msgspec.UNSET


def report(event: str, from_version: str, to_version: str, problem: str = "") -> Report:
    """A failure has a problem, a success has none."""
    return Report(
        event=event,
        success=not problem,
        from_version=from_version,
        to_version=to_version,
        error_message=problem or msgspec.UNSET,
    )


def of_verdict(order: Order, verdict: Verdict) -> Report:
    """A rolled back upgrade is reported as the rollback that it was: EdgeCore answers a failed `Upgrade` by starting a
    rollback of its own (spec/kubeedge.md 7.7), and there is nothing left to roll back."""
    if verdict.step == "Upgrade":
        return report("Upgrade", order.from_version, order.to_version)
    left = order.to_version if order.event == "Upgrade" else order.from_version
    done = report("Rollback", left, order.backup, "" if verdict.ok else verdict.reason or "it failed")
    return msgspec.structs.replace(done, error_message=verdict.reason or msgspec.UNSET)


def encode(what: Report) -> bytes:
    """The file's bytes."""
    return msgspec.json.encode(what)


def write_report(files: Files, layout: Layout, what: Report) -> None:
    """Replace the file atomically; root's alone, where KubeEdge's is 0755."""
    files.directory(layout.etc)
    files.replace(layout.report, encode(what))
