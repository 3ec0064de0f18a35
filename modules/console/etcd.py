"""`beehive etcd status`: the verdict that etcdmanager left in its ConfigMap, as a table. It needs no way to etcd."""

import re

import msgspec
from msgspec import Struct

from beehive.errors import Refused, Unavailable
from beehive.world import from_rfc3339
from modules.etcdmanager.report import KEY, MemberLine, Report
from modules.informer.answers import sentence, succeeded
from modules.informer.client import Client
from modules.informer.config import Config as ApiConfig
from modules.informer.connection import Connection

HEADER = ("NODE", "MEMBER", "ROLE", "VOTER", "LAG", "DB", "WHY")
WIDTH = 100
_PROBE = re.compile(r"failed to check etcd member status: https?://\S+ ")


class _ConfigMap(Struct, frozen=True):
    data: dict[str, str] | None = None


async def fetch(api: ApiConfig, where: str) -> Report:
    """The report in the ConfigMap NAMESPACE/NAME. Raises Refused and Unavailable with a sentence."""
    if not where:
        raise Refused("etcdmanager.report is empty, so no verdict is kept; give it a ConfigMap's NAMESPACE/NAME")
    namespace, _, name = where.partition("/")
    async with Connection(api) as connection:
        client = Client(connection, float(api.request_timeout))
        reply = await client.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    if reply.status == 404:
        raise Refused(f"there is no ConfigMap {where}; kubectl apply -f configs/rbac.yaml makes it")
    if not succeeded(reply):
        raise Unavailable(f"ConfigMap {where}: {sentence(reply)}")
    return read(reply.body, where)


def read(body: bytes, where: str) -> Report:
    """The report in a ConfigMap's JSON. Raises Refused."""
    try:
        text = (msgspec.json.decode(body, type=_ConfigMap).data or {}).get(KEY)
        if text is None:
            raise Refused(
                f"nobody has written to ConfigMap {where} yet; run the cloud with etcdmanager.endpoints set"
            )  # fmt: skip
        return msgspec.json.decode(text, type=Report)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refused(f"ConfigMap {where} holds no verdict on etcd: {error}") from None


def age(report: Report, now: float) -> float:
    """Seconds since it was written; 0 for one of the future."""
    return _since(report.as_of, now)


def _since(moment: str, now: float) -> float:
    try:
        return max(0.0, now - from_rfc3339(moment))
    except ValueError:
        return float("inf")


def stale(report: Report, now: float) -> str:
    """Why nobody should believe it any more; empty: it is fresh enough."""
    if age(report, now) <= report.heartbeat + 3 * report.period:
        return ""
    return (
        f"ObserverStale: nobody has confirmed this for {spoken(age(report, now))}; is the cloud running, and does it "
        "reach etcd?"
    )


def healthy(report: Report, now: float) -> bool:
    """What the exit code says."""
    return report.healthy and not stale(report, now)


def lines(report: Report, now: float) -> list[str]:
    """For people."""
    rows = [HEADER, *(_row(one, now) for one in report.members)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER) - 1)]
    table = [
        "  ".join([f"{text:<{size}}" for text, size in zip(row, widths, strict=False)] + [row[-1]]) for row in rows
    ]
    said = [_head(report, now), *(_cut(row.rstrip()) for row in table)]
    said += [f"Alarm: {one}" for one in report.alarms]
    said += [f"Trouble: {one}" for one in report.troubles]
    if why := stale(report, now):
        said.append(why)
    said.append(f"May a node go down now?  {report.may_go_down}")
    said.append(f"May a member be added?   {'Yes.' if report.may_add == 'yes' else f'No: {report.may_add}.'}")
    return [_plain(one) for one in said]


def _plain(text: str) -> str:
    """Names and texts come from members: nothing in them may move a cursor."""
    return "".join(one if one.isprintable() else "?" for one in text)


def _head(report: Report, now: float) -> str:
    members = f"{report.voters} voter{'s' * (report.voters != 1)}"
    if report.learners:
        members += f", {report.learners} learner{'s' * (report.learners != 1)}"
    leads = f"leader {report.leader}" if report.leader else "no leader"
    return (
        f"CLUSTER   {members}   quorum {report.needed} of {report.voters}   {leads}   term {report.term}   "
        f"as of {spoken(age(report, now))} ago (observer {report.observer})"
    )


def _row(one: MemberLine, now: float) -> tuple[str, ...]:
    why = _PROBE.sub("", one.why)
    if one.last_seen:
        why += f"; last seen {spoken(_since(one.last_seen, now))} ago"
    if one.reason not in ("", "MemberNotLearner", "MemberIsLearner"):
        why = f"{one.reason}: {why}"
    lag = "-" if one.lag is None else f"{one.lag:,}"
    return (one.node, one.member, one.role, one.status, lag, _size(one.db_size), why)


def _size(size: int | None) -> str:
    if size is None:
        return "-"
    return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def spoken(seconds: float) -> str:
    """`3 s`, `2m`, `5h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / 3600:.0f}h" if seconds < float("inf") else "a long time"


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
