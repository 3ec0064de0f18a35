"""A module's own numbers: declared once, counted where they arise, read at each scrape.

A number that is only true at the moment (how many are connected, seconds until a certificate ends) is `derived`: a
function that the scrape calls, in a thread of its own, so it may read what the loop writes and must change nothing.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

Labels: TypeAlias = tuple[str, ...]
Values: TypeAlias = Mapping[Labels, float]
"""Values of the labels, in the order in which the metric names them -> the number."""

GAUGE: Literal["gauge"] = "gauge"
COUNTER: Literal["counter"] = "counter"
HISTOGRAM: Literal["histogram"] = "histogram"


class Metric(Struct, frozen=True):
    """A family as an operator reads of it (docs/metrics.md is made of these)."""

    name: str
    """As it is scraped, but for the suffix of a counter (`_total`) or of a histogram's series."""
    kind: Literal["gauge", "counter", "histogram"]
    text: str
    """What it says, as a phrase; with its unit."""
    labels: Labels = ()
    bounds: tuple[float, ...] = ()
    """Of a histogram: the upper bounds of its buckets, but for +Inf."""


class Spread:
    """One series of a histogram."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> Iterator[tuple[str, int]]:
        """(upper bound, observations up to it)."""
        total = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), tuple(self.counts), strict=True):
            total += count
            yield bound, total


class Figures:
    """The numbers of one module, from its start to its next."""

    def __init__(self, *metrics: Metric) -> None:
        self.metrics = metrics
        self._numbers: dict[str, dict[Labels, float]] = {one.name: {} for one in metrics}
        self._spreads: dict[str, dict[Labels, Spread]] = {one.name: {} for one in metrics}
        self._derived: dict[str, Callable[[], Values | float]] = {}

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """A gauge as it is from now on."""
        self._numbers[metric.name][labels] = value

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Count."""
        numbers = self._numbers[metric.name]
        numbers[labels] = numbers.get(labels, 0) + by

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """One observation of a histogram."""
        spreads = self._spreads[metric.name]
        spread = spreads.get(labels)
        if spread is None:
            spread = spreads[labels] = Spread(metric.bounds)
        spread.add(value)

    def begin(self, metric: Metric, *labels: str) -> None:
        """Show a counter or a histogram from the start: the first event of a series that is new counts for no rate."""
        if metric.kind == HISTOGRAM:
            self._spreads[metric.name].setdefault(labels, Spread(metric.bounds))
        else:
            self._numbers[metric.name].setdefault(labels, 0)

    def derived(self, metric: Metric, read: Callable[[], Values | float]) -> None:
        """A number that is found out when somebody asks."""
        self._numbers[metric.name] = {}
        self._derived[metric.name] = read

    def numbers(self, metric: Metric) -> Values:
        """What a gauge or a counter says now."""
        read = self._derived.get(metric.name)
        if read is None:
            return dict(self._numbers[metric.name])
        found = read()
        return found if isinstance(found, Mapping) else {(): found}

    def spreads(self, metric: Metric) -> Mapping[Labels, Spread]:
        """What a histogram says now."""
        return dict(self._spreads[metric.name])


CERTIFICATE_ENDS = Metric(
    "beehive_certificate_expiry_seconds", GAUGE,
    "Seconds until a certificate ends; below 0 it has. `hub_ca` and `hub` (cloudhub), `node` (the edge's own)",
    ("certificate",),
)  # fmt: skip
"""Of whoever holds one."""
