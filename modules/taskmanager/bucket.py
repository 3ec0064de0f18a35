"""How often a job's status may be written: a few at once, then one each so often (product.md 3.4.4)."""

_DUTY = 10
"""A job keeps the API server busy for at most one part in so many of the time."""


class Bucket:
    """Tokens of one job. All times in seconds on one monotonic clock."""

    def __init__(self, burst: int, period: float, now: float) -> None:
        self._burst = float(max(1, burst))
        self._shortest = max(period, 0.001)
        self._period = self._shortest
        self._tokens = self._burst
        self._at = now

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        self._refill(now)
        if self._tokens < 1.0 - 1e-6:
            return False
        self._tokens = max(0.0, self._tokens - 1.0)
        return True

    def next_at(self, now: float) -> float:
        """When there is a token (again)."""
        self._refill(now)
        return now + max(0.0, 1.0 - self._tokens) * self._period

    def wrote(self, took: float) -> None:
        """The last write took this long: the slower the server, the rarer the writes."""
        self._period = max(self._shortest, _DUTY * took)

    def _refill(self, now: float) -> None:
        earned = max(0.0, now - self._at) / self._period
        self._tokens = min(self._burst, self._tokens + earned)
        self._at = now
