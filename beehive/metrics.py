"""Metrics in Prometheus' form, pulled from the inboxes and the modules when somebody asks.

prometheus-client is imported at the first scrape, not at the start of an edge agent.
"""

from collections.abc import Iterator
from typing import Any

from beehive.supervisor import Supervisor


class Collector:
    """Reads the state of a supervisor; a module's own numbers are its attribute `counters: dict[str, int]`."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def collect(self) -> Iterator[Any]:
        """What prometheus-client calls at each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

        depth = GaugeMetricFamily("beehive_inbox_depth", "Messages that wait in a module's inbox.", labels=["module"])
        waiting = GaugeMetricFamily("beehive_inbox_waiting", "Senders that wait for a place.", labels=["module"])
        ready = GaugeMetricFamily("beehive_module_ready", "1 while the module can do its work.", labels=["module"])
        taken = CounterMetricFamily("beehive_messages_taken", "Messages that a module took in hand.", labels=["module"])
        missed = CounterMetricFamily("beehive_events_missed", "Events that a full inbox missed.", labels=["module"])
        counted = CounterMetricFamily("beehive_counted", "What a module counted.", labels=["module", "what"])
        for keeper in self._supervisor.keepers:
            seen, name = keeper.endpoint.inbox.statistics(), [keeper.name]
            depth.add_metric(name, seen.depth)
            waiting.add_metric(name, seen.waiting)
            ready.add_metric(name, 0 if keeper.endpoint.waits_for else 1)
            taken.add_metric(name, seen.taken)
            missed.add_metric(name, seen.missed)
            for what, number in dict(getattr(keeper.module, "counters", {})).items():
                counted.add_metric([keeper.name, what], number)
        yield from (depth, waiting, ready, taken, missed, counted)


def exposition(supervisor: Supervisor) -> tuple[str, bytes]:
    """Content type and body of `/metrics`."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(Collector(supervisor))
    return CONTENT_TYPE_LATEST, generate_latest(registry)
