"""`failureTolerate`: which share of a job's nodes may fail, in exact arithmetic (product.md 2.5, 3.1)."""

import re
from decimal import Decimal
from typing import NamedTuple

from beehive.api.limits import LONGEST_TOLERANCE, PERCENT, RATIO

DEFAULT_TOLERANCE = "0.1"

_RATIO, _PERCENT = re.compile(RATIO), re.compile(PERCENT)


class Tolerance(NamedTuple):
    """A share as a fraction of whole numbers."""

    num: int
    den: int

    def exceeded(self, failed: int, total: int) -> bool:
        """More failed than may fail. Never rounded: 1 of 1000 exceeds 0 (KubeEdge rounds to 1 %, its defect R5)."""
        return failed * self.den > self.num * total

    def most(self, total: int) -> int:
        """How many of `total` nodes may fail."""
        return self.num * total // self.den


def tolerance(text: str) -> Tolerance:
    """Read `0.1` or `10%`; an empty text is the default. Raises ValueError for anything else."""
    text = text or DEFAULT_TOLERANCE
    if len(text) <= LONGEST_TOLERANCE:
        if _RATIO.fullmatch(text):
            return Tolerance(*Decimal(text).as_integer_ratio())
        if _PERCENT.fullmatch(text):
            return Tolerance(*(Decimal(text[:-1]) / 100).as_integer_ratio())
    raise ValueError("it is neither a ratio from 0 to 1 nor a percentage; write one like 0.1 or 10%")
