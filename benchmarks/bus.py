"""`make bench NAME=bus`: the bus beside what Python programs use in its place; writes `.bench/bus.json`."""

import asyncio
import platform
import sys
from typing import Any

import uvloop

from benchmarks import bus_cases as cases
from benchmarks.bus_sizes import bytes_per_inbox, bytes_per_message, outcomes
from benchmarks.measure import Case, Goal, interleaved, ratio, spread, table, write

ROUNDS = 7
ASKS = 1_000_000
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}

GROUPS = (
    (
        Case("send -> messages", cases.send_to_messages, 100_000),
        Case("sender -> batches", cases.sender_to_batches, 100_000),
        Case("asyncio.Queue", cases.queue, 100_000),
        Case("Queue of envelopes", cases.queue_of_envelopes, 100_000),
        Case("send -> messages, traced", cases.traced, 50_000),
        Case("janus", cases.janus_queue, 20_000),
        Case("anyio stream", cases.anyio_stream, 20_000),
    ),
    (
        Case("ask, reply", cases.ask_and_reply, 64_000),
        Case("Queue, bare future", cases.future_alone, 64_000),
        Case("Queue, asyncio.timeout", cases.asyncio_timeout, 32_000),
        Case("Queue, anyio.fail_after", cases.anyio_fail_after, 16_000),
    ),
    (
        Case("publish to 8", cases.publish_to_eight, 32_000),
        Case("eight Queues", cases.eight_queues, 32_000),
    ),
)

GOALS = (
    Goal("send is quicker than asyncio.Queue", "asyncio.Queue", "send -> messages", 1.7),
    Goal("sender is quicker than asyncio.Queue", "asyncio.Queue", "sender -> batches", 2.6),
    Goal("sender, than a Queue of envelopes", "Queue of envelopes", "sender -> batches", 3.0),
    Goal("ask is quicker than anyio.fail_after", "Queue, anyio.fail_after", "ask, reply", 6.0),
    Goal("ask is quicker than asyncio.timeout", "Queue, asyncio.timeout", "ask, reply", 3.0),
    Goal("ask costs no more than no deadline", "ask, reply", "Queue, bare future", 1.15, at_least=False),
    Goal("publish is quicker than eight Queues", "eight Queues", "publish to 8", 2.2),
    Goal("an idle tracer costs no more than", "send -> messages, traced", "send -> messages", 2.6, at_least=False),
)


def main() -> None:
    """Measure, print, write."""
    figures = {name: _measure(loop) for name, loop in LOOPS.items()}
    print(_figures(figures))
    print()
    print(_ratios(figures))
    sizes = {
        "bytes of a message beside its body (at most 72)": asyncio.run(bytes_per_message()),
        "bytes of an empty inbox with its endpoint (at most 2048)": asyncio.run(bytes_per_inbox()),
    }
    for text, size in sizes.items():
        print(f"{text}: {size:.0f}")
    ended = {name: dict(sorted(_count(loop).items())) for name, loop in LOOPS.items()}
    for name, counted in ended.items():
        print(f"{ASKS:,} asks on {name}: " + ", ".join(f"{number:,} {what}" for what, number in counted.items()))
    path = write("bus", {"python": platform.python_version(), "rounds": ROUNDS, "microseconds": figures,
                         "ratios": _ratio_rows(figures), "bytes": sizes, "outcomes": ended})  # fmt: skip
    print(f"\nwritten: {path}", file=sys.stderr)


def _measure(loop: Any) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for group in GROUPS:
        found |= interleaved(group, ROUNDS, loop)
    return found


def _count(loop: Any) -> dict[str, int]:
    with asyncio.Runner(loop_factory=loop) as runner:
        ended = runner.run(outcomes(ASKS))
    if ended.total() != ASKS or set(ended) - {"answer", "NoAnswer", "PeerFailed", "cancelled"}:
        raise AssertionError(f"of {ASKS} asks {ended.total()} ended: {ended}")
    return ended


def _figures(figures: dict[str, dict[str, list[float]]]) -> str:
    rows = [
        [case.name, *(str(spread(figures[loop][case.name])) for loop in LOOPS)] for group in GROUPS for case in group
    ]
    return table([f"CPU µs, median of {ROUNDS} [range]", *LOOPS], rows)


def _ratio_rows(figures: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    return [
        {"goal": goal.text, "loop": loop, "bound": goal.bound, "ratio": ratio(goal, figures[loop])}
        for goal in GOALS
        for loop in LOOPS
    ]


def _ratios(figures: dict[str, dict[str, list[float]]]) -> str:
    rows = []
    for goal in GOALS:
        found = [ratio(goal, figures[loop]) for loop in LOOPS]
        verdict = ["yes" if goal.reached(one.median) else "NO" for one in found]
        sign = "≥" if goal.at_least else "≤"
        rows.append([goal.text, f"{sign} {goal.bound:g}", *map(str, found), " / ".join(verdict)])
    return table(["ratio", "goal", *LOOPS, "reached"], rows)


if __name__ == "__main__":
    main()
