"""Metrics in Prometheus' form, pulled from the inboxes and the modules when somebody asks.

prometheus-client is imported at the first scrape, not at the start of an edge agent.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from beehive.supervisor import Keeper, Supervisor
from beehive.watchdog import Watchdog

Table = dict[str, tuple[str, Callable[[Keeper], float]]]

_GAUGES: Table = {
    "beehive_inbox_depth": ("Messages that wait in a module's inbox.", lambda one: len(one.endpoint.inbox.queue)),
    "beehive_inbox_waiting": ("Senders that wait for a place.", lambda one: one.endpoint.inbox.statistics().waiting),
    "beehive_module_ready": ("1 while the module can do its work.", lambda one: 0 if one.endpoint.waits_for else 1),
}
_COUNTERS: Table = {
    "beehive_messages_taken": ("Messages that a module took in hand.", lambda one: one.endpoint.inbox.taken),
    "beehive_messages_stale": ("Questions whose asker had gone.", lambda one: one.endpoint.inbox.stale),
    "beehive_events_missed": ("Events that a full inbox missed.", lambda one: one.endpoint.inbox.missed),
    "beehive_module_failures": ("How often the module failed.", lambda one: one.failed),
    "beehive_module_restarts": ("How often it was started again.", lambda one: one.restarts),
}


class Collector:
    """Reads the state of a supervisor.

    A module's own numbers are its attributes `counters: dict[str, int]` (they only grow) and
    `gauges: dict[str, float]`.
    """

    def __init__(self, supervisor: Supervisor, watchdog: Watchdog | None = None) -> None:
        self._supervisor, self._watchdog = supervisor, watchdog

    def collect(self) -> Iterator[Any]:
        """What prometheus-client calls at each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

        for kind, table in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS)):
            for name, (text, read) in table.items():
                family = kind(name, text, labels=["module"])
                for keeper in self._supervisor.keepers:
                    family.add_metric([keeper.name], read(keeper))
                yield family
        counted = CounterMetricFamily("beehive_counted", "What a module counted.", labels=["module", "what"])
        gauges = GaugeMetricFamily("beehive_gauge", "What a module measured last.", labels=["module", "what"])
        for keeper in self._supervisor.keepers:
            for what, number in dict(getattr(keeper.module, "counters", {})).items():
                counted.add_metric([keeper.name, what], number)
            for what, measured in dict(getattr(keeper.module, "gauges", {})).items():
                gauges.add_metric([keeper.name, what], measured)
        yield from (counted, gauges)
        if self._watchdog:
            yield from _seen_by(self._watchdog)


def _seen_by(watchdog: Watchdog) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

    text = "Age of the oldest message that waits, short by up to a second."
    oldest = GaugeMetricFamily("beehive_inbox_oldest_seconds", text, labels=["module"])
    for name, age in watchdog.ages.oldest(time.monotonic()).items():
        oldest.add_metric([name], age)
    yield oldest
    yield GaugeMetricFamily("beehive_loop_delay_seconds", "What the event loop's last turn took.", watchdog.delay)
    yield CounterMetricFamily("beehive_loop_stalls", "How often the event loop stood still.", watchdog.stalls)
    yield CounterMetricFamily("beehive_loop_stalled_seconds", "For how long it stood still.", watchdog.stalled)


def exposition(supervisor: Supervisor, watchdog: Watchdog | None = None) -> tuple[str, bytes]:
    """Content type and body of `/metrics`."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(Collector(supervisor, watchdog))
    return CONTENT_TYPE_LATEST, generate_latest(registry)
