"""Metrics in Prometheus' form, pulled from the inboxes and the modules when somebody asks.

prometheus-client is imported at the first scrape, not at the start of an edge agent. A module's own numbers are its
attribute `figures` (`beehive.figures`); what it merely counts, `counters: dict[str, int]`, is shown by name.
"""

import platform
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from beehive.figures import COUNTER, GAUGE, HISTOGRAM, Figures, Labels, Metric, Spread, Values
from beehive.supervisor import Keeper, Supervisor
from beehive.watchdog import Watchdog

_MODULE = ("module",)
_OF_MODULE: dict[Metric, Callable[[Keeper], float]] = {
    Metric("beehive_inbox_depth", GAUGE, "Messages that wait in a module's inbox", _MODULE): (
        lambda one: len(one.endpoint.inbox.queue)
    ),
    Metric("beehive_inbox_waiting", GAUGE, "Senders that wait for a place in it", _MODULE): (
        lambda one: one.endpoint.inbox.statistics().waiting
    ),
    Metric("beehive_module_ready", GAUGE, "1 while the module can do its work; `/readyz?verbose` says why not",
           _MODULE): lambda one: 0 if one.endpoint.waits_for else 1,
    Metric("beehive_messages_taken", COUNTER, "Messages that a module took in hand", _MODULE): (
        lambda one: one.endpoint.inbox.taken
    ),
    Metric("beehive_messages_stale", COUNTER, "Questions whose asker had gone before they were taken", _MODULE): (
        lambda one: one.endpoint.inbox.stale
    ),
    Metric("beehive_events_missed", COUNTER, "Events that a full inbox missed; the module asks for what it missed",
           _MODULE): lambda one: one.endpoint.inbox.missed,
    Metric("beehive_module_failures", COUNTER, "How often the module failed", _MODULE): lambda one: one.failed,
    Metric("beehive_module_restarts", COUNTER, "How often it was started again", _MODULE): lambda one: one.restarts,
}  # fmt: skip
_OLDEST = Metric(
    "beehive_inbox_oldest_seconds", GAUGE, "Age of the oldest message that waits, short by up to a second", _MODULE
)
_OF_LOOP: dict[Metric, Callable[[Watchdog], float]] = {
    Metric("beehive_loop_delay_seconds", GAUGE, "What the event loop's last turn took"): lambda one: one.delay,
    Metric("beehive_loop_stalls", COUNTER, "How often the event loop stood still"): lambda one: one.stalls,
    Metric("beehive_loop_stalled_seconds", COUNTER, "For how long it stood still"): lambda one: one.stalled,
}
_BUILD = Metric("beehive_build_info", GAUGE, "Always 1; the labels say what runs", ("version", "python"))
_COUNTED = Metric(
    "beehive_counted", COUNTER, "What a module counted, by its own name for it; appears with its first event",
    ("module", "what"),
)  # fmt: skip

KERNEL: tuple[Metric, ...] = (_BUILD, *_OF_MODULE, _OLDEST, *_OF_LOOP, _COUNTED)
"""What every process shows, whatever modules it has."""


class Collector:
    """Reads the state of a supervisor."""

    def __init__(self, supervisor: Supervisor, watchdog: Watchdog | None = None) -> None:
        self._supervisor, self._watchdog = supervisor, watchdog

    def collect(self) -> Iterator[Any]:
        """What prometheus-client calls at each scrape."""
        yield _family(_BUILD, {(_version(), platform.python_version()): 1})
        keepers = tuple(self._supervisor.keepers)
        for metric, read in _OF_MODULE.items():
            yield _family(metric, {(keeper.name,): read(keeper) for keeper in keepers})
        if self._watchdog:
            ages = self._watchdog.ages.oldest(time.monotonic())
            yield _family(_OLDEST, {(name,): age for name, age in ages.items()})
            for metric, seen in _OF_LOOP.items():
                yield _family(metric, {(): seen(self._watchdog)})
        yield _family(_COUNTED, dict(_counted(keepers)))
        found = (getattr(keeper.module, "figures", None) for keeper in keepers)
        yield from _own([figures for figures in found if figures is not None])


def _counted(keepers: Iterable[Keeper]) -> Iterator[tuple[Labels, float]]:
    for keeper in keepers:
        for what, number in dict(getattr(keeper.module, "counters", {})).items():
            yield (keeper.name, str(what)), number


def _own(modules: Iterable[Figures]) -> Iterator[Any]:
    """The modules' figures; a family that several have, such as the ends of certificates, is one family."""
    numbers: dict[Metric, dict[Labels, float]] = {}
    spreads: dict[Metric, dict[Labels, Spread]] = {}
    for figures in modules:
        for metric in figures.metrics:
            if metric.kind == HISTOGRAM:
                spreads.setdefault(metric, {}).update(figures.spreads(metric))
            else:
                numbers.setdefault(metric, {}).update(figures.numbers(metric))
    yield from (_family(metric, found) for metric, found in numbers.items())
    yield from (_histogram(metric, series) for metric, series in spreads.items())


def _family(metric: Metric, values: Values) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    family = kind(metric.name, f"{metric.text}.", labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, series: dict[Labels, Spread]) -> Any:
    from prometheus_client.core import HistogramMetricFamily  # noqa: PLC0415

    family = HistogramMetricFamily(metric.name, f"{metric.text}.", labels=metric.labels)
    for labels, spread in series.items():
        family.add_metric(labels, list(spread.buckets()), spread.sum)
    return family


def _version() -> str:
    try:
        return version("beehive")
    except PackageNotFoundError:
        return "unknown"


def exposition(supervisor: Supervisor, watchdog: Watchdog | None = None) -> tuple[str, bytes]:
    """Content type and body of `/metrics`."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(Collector(supervisor, watchdog))
    return CONTENT_TYPE_LATEST, generate_latest(registry)
