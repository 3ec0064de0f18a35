"""Attempts from their orders to their verdicts; whoever calls this holds the host's lock."""

import contextlib
import logging

from msgspec.structs import replace

from beehive.messages.host import Verdict
from modules.upgrader.host.host import Host
from modules.upgrader.host.names import attempt_key
from modules.upgrader.tool import diary
from modules.upgrader.tool.announcing import is_announced
from modules.upgrader.tool.outdated import forget_outdated
from modules.upgrader.tool.record import (
    Order,
    Record,
    load_record,
    open_records,
    prune_records,
    save_record,
    untold_records,
)
from modules.upgrader.tool.report import of_verdict, write_report
from modules.upgrader.tool.work import Tool

_log = logging.getLogger("beehive.tool")
KEPT = 20
"""Records of attempts that have ended."""


def settle(host: Host, *, but: str = "") -> None:
    """Finish or undo what killed tools left behind, `but` the attempt at hand; only then may anything else begin."""
    for key, record in (untold_records(host.layout) | open_records(host.layout)).items():
        if key != but:
            conclude(host, Tool(host, key, record))


def carry_out(host: Host, order: Order, *, undo: bool = False) -> Verdict:
    """Run an attempt to its verdict, from where its record stands; `undo` rolls back whatever is done already."""
    key = attempt_key(order.uid, order.attempt)
    record = load_record(host.layout, key)
    return conclude(host, Tool(host, key, record or Record(order=order)), undo=undo and record is not None)


def conclude(host: Host, tool: Tool, *, undo: bool = False) -> Verdict:
    """Run it, then tell EdgeCore's way: the report file, once (EdgeCore takes it away when it has read it)."""
    with diary.kept(host):
        _log.info("%s begins: %s", tool.key, _what(tool.record.order))
        verdict = tool.run(undo=undo)
        _log.info("%s ends: %s", tool.key, _how(verdict))
    if not tool.record.told:
        said = of_verdict(tool.record.order, verdict)
        if not is_announced(tool.record, said):
            write_report(host.files, host.layout, said)
        if verdict.ok:
            host.program.trust()
        tool.record = replace(tool.record, told=True)
        with contextlib.suppress(OSError):  # then it is told once more
            save_record(host.files, host.layout, tool.key, tool.record)
    prune_records(host.files, host.layout, KEPT)
    forget_outdated(host, tool.record.order)
    return verdict


def _what(order: Order) -> str:
    whose = f"job {order.job}, attempt {order.attempt}" if order.job else "by hand"
    return f"{order.event} {order.from_version} -> {order.to_version}, {whose}"


def _how(verdict: Verdict) -> str:
    if verdict.step == "Upgrade":
        return f"{verdict.to_version} runs"
    return f"{'rolled back' if verdict.ok else 'not rolled back'}: {verdict.reason or verdict.to_version}"
