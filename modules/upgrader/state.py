"""What the owner of this host sees of it, and what becomes of the owner's word; for an agent, and without one."""

import contextlib

from beehive.errors import BeehiveError
from beehive.messages.host import Decided, Ended, HostState, LogLines, OwnerDecides
from modules.upgrader import confirmation
from modules.upgrader.host.host import Host
from modules.upgrader.host.lock import who_holds
from modules.upgrader.host.service import Service, Status
from modules.upgrader.sentences import one_line, without_secrets
from modules.upgrader.tool.record import Record, all_records

_NOBODY_WAITS = "there are no valid upgrade tasks to execute"
"""KubeEdge's own words (spec/kubeedge.md 7.8)."""


def state_of(host: Host, now: float) -> HostState:
    """Blocking: it asks the program and the service manager."""
    status = Status()
    with contextlib.suppress(BeehiveError):
        status = host.services.status(host.service)
    holder = who_holds(host.layout.lock)
    return HostState(
        service=host.service.name,
        active=status.active,
        pid=status.pid,
        version=host.installed_or_none(),
        digest=host.program.digest(),
        waiting=confirmation.waiting(host.layout),
        holder=holder.phrase(now) if holder else "",
        last=_last(host),
    )


def decide(host: Host, word: OwnerDecides) -> Decided:
    """Write the owner's word down for the upgrade that waits. Raises OSError; without its answer nothing was said."""
    asked = confirmation.waiting(host.layout)
    if asked is None:
        return Decided(problem=_NOBODY_WAITS)
    if word.job and word.job != asked.job:
        return Decided(problem=f"job {one_line(word.job)[:64]} does not wait here; job {asked.job} does")
    stands = confirmation.say(host.files, host.layout, asked, confirmed=word.confirmed, reason=word.reason)
    if stands.confirmed != word.confirmed:
        before = "confirmed" if stands.confirmed else "rejected"
        problem = f"job {asked.job} was {before} before, and the first word stands"
        return Decided(job=asked.job, version=asked.version, confirmed=stands.confirmed, problem=problem)
    return Decided(job=asked.job, version=asked.version, confirmed=stands.confirmed)


def logs_of(host: Host, lines: int) -> LogLines:
    """The last lines of the last tool and of the target, in this order. Blocking."""
    found: list[str] = []
    records = list(all_records(host.layout).values())
    services = [host.service]
    if records:
        order = records[-1].order
        with contextlib.suppress(BeehiveError):
            services.insert(0, host.tool_unit(order.uid, order.attempt))
    for service in services:
        found += (f"{service.name}: {line}" for line in _tail(host, service, lines))
    return LogLines(tuple(without_secrets("\n".join(found)).split("\n")) if found else ())


def _tail(host: Host, service: Service, lines: int) -> list[str]:
    try:
        return [one_line(line) for line in host.services.log_tail(service, lines)]
    except BeehiveError as error:
        return [f"its log cannot be read: {error}"]


def _last(host: Host) -> Ended | None:
    ended = [(key, record) for key, record in all_records(host.layout).items() if record.verdict]
    if not ended:
        return None
    key, record = ended[-1]
    assert record.verdict
    at = record.began
    with contextlib.suppress(OSError):
        at = host.layout.record(key).stat().st_mtime
    return Ended(
        job=record.order.job,
        event=record.order.event,
        from_version=record.order.from_version,
        to_version=record.order.to_version,
        result=_result(record),
        reason=record.verdict.reason,
        at=at,
        seconds=max(0.0, at - record.began),
    )


def _result(record: Record) -> str:
    assert record.verdict
    if record.verdict.step == "Upgrade":
        return "upgrade_success"
    how = "success" if record.verdict.ok else "failed"
    return f"rollback_{how}" if record.order.event == "Rollback" else f"upgrade_failed_rollback_{how}"
