"""Papers that are made from the code: docs/metrics.md, reasons.md and settings.md. `make docs` writes them.

A test fails when a paper differs from what the code says.
"""

import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from beehive.api.reasons import REASONS
from beehive.figures import COUNTER, HISTOGRAM, Metric
from beehive.metrics import KERNEL
from beehive.module import ModuleSpec
from beehive.runtime import sections
from modules.console import settings

_METRICS = """\
# Metrics

Every process answers `/metrics` on its admin port (`runtime.admin`, 10350) in Prometheus' form; the edge agent too.
Made from the code by `make docs`; a test scrapes a real process by a real Prometheus and compares. Times are in
seconds. Labels have few values: nothing is labelled by node, and by job only the budget of the 20 oldest open ones.
What each alert (`configs/prometheus/alerts.yaml`) means and what to do stands in [operations](operations.md);
`configs/grafana/beehive.json` is a dashboard.
"""
_COUNTED = """
## `beehive_counted_total{what=…}`

For who looks closer; names may change with the code. The hub: `sessions`, `replaced`, `frames_in`, `frames_out`,
`certificates`, `cut_slow`, `cut_mute`, `cut_expired`, `cut_revoked`, `throttled`, `undeliverable`, `refused_frames`,
`about_another_node`. The uplink: `dial_failures`, `renewals`, `renewal_failures`, `superseded`. etcdmanager: `passes`,
`passes_failed`, `conditions_written`. admission: answers by HTTP status.
"""
_REASONS = """\
# Reason codes

Every entry of a job's `status.nodeStatus` has a phase, and a code that says why (but for Pending and Successful, which
may have none). Made from the code by `make docs`. `beehive job describe NAME` shows the sentence of each node.

| Code | Phase | Meaning | What to do |
|---|---|---|---|
"""


def metrics(registry: Sequence[ModuleSpec]) -> str:
    """docs/metrics.md."""
    parts = [_METRICS, "\n## Every process\n", *_table(KERNEL)]
    for spec in registry:
        found = declared(spec)
        if found:
            parts += [f"\n## {spec.name} ({'cloud' if spec.cloud else 'edge'})\n", *_table(found)]
    return "\n".join(parts) + "\n" + _COUNTED


def declared(spec: ModuleSpec) -> tuple[Metric, ...]:
    """The metrics of a module, from its `figures.ALL`; none where it has no such file."""
    try:
        found: tuple[Metric, ...] = importlib.import_module(f"modules.{spec.name}.figures").ALL
    except ModuleNotFoundError:
        return ()
    return found


def names(metric: Metric) -> tuple[str, ...]:
    """The series of a family, as they are scraped."""
    if metric.kind == HISTOGRAM:
        return tuple(f"{metric.name}_{part}" for part in ("bucket", "sum", "count"))
    return (f"{metric.name}_total" if metric.kind == COUNTER else metric.name,)


def _table(found: Sequence[Metric]) -> Iterator[str]:
    yield "| Metric | Kind | Labels | Meaning |"
    yield "|---|---|---|---|"
    for one in found:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        shown = one.name if one.kind == HISTOGRAM else names(one)[0]
        yield f"| `{shown}` | {one.kind} | {labels} | {one.text} |"


def reasons() -> str:
    """docs/reasons.md."""
    lines = []
    for code, one in sorted(REASONS.items()):
        remedy = one.remedy.format(job="NAME", node="NODE")
        lines.append(f"| `{code}` | {one.phase} | {one.meaning} | {remedy} |")
    return _REASONS + "\n".join(lines) + "\n"


def papers(registry: Sequence[ModuleSpec]) -> dict[str, str]:
    """File name in docs/ -> its text."""
    return {"metrics.md": metrics(registry), "reasons.md": reasons(), "settings.md": settings.paper(sections(registry))}


if __name__ == "__main__":
    from modules.registry import MODULES

    for name, text in papers(MODULES).items():
        Path(sys.argv[1], name).write_text(text, encoding="utf-8")
