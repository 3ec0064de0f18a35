"""Delays between tries, as iterators: who waits takes the next one, who succeeded takes a new iterator."""

from collections.abc import Callable, Iterator


def doubling(first: float, cap: float) -> Iterator[float]:
    """`first`, twice that, … up to `cap` seconds, for ever."""
    delay = first
    while True:
        yield delay
        delay = min(cap, delay * 2)


def full_jitter(first: float, cap: float, random: Callable[[], float]) -> Iterator[float]:
    """Evenly between 0 and the doubling delay, so that a fleet that lost its hub does not come back in one blow."""
    for ceiling in doubling(first, cap):
        yield ceiling * random()
