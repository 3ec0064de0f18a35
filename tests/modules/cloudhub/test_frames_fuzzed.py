"""Recorded frames with faults in them, through the fleet: nothing trips it, and none leaves anything behind."""

import asyncio
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.messages import wire
from tests.modules.cloudhub.ends import report
from tests.modules.cloudhub.test_own_word import Connected, fleet
from tests.vectors import KUBEEDGE

FRAMES = [path.read_bytes() for path in sorted(KUBEEDGE.glob("ws_*.json"))]
FRAMES.append(wire.to_cloud(report(1), "edge-a", "m-1", 1.0))
PIECES = st.binary(max_size=6) | st.sampled_from(
    [b'"', b"{", b"}", b"null", b"[" * 2000, b"1e999", b"\\ud800", b"-1", b"edge-b", b"/", b"\xff", b"\\u0000", b'"":']
)
FAULTS = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 30), PIECES), max_size=5)


def spoiled(data: bytes, faults: list[tuple[int, int, bytes]]) -> bytes:
    """With pieces in the place of others."""
    for at, length, piece in faults:
        data = data[: at % (len(data) + 1)] + piece + data[at % (len(data) + 1) + length :]
    return data


@settings(max_examples=150)
@given(st.sampled_from(FRAMES), FAULTS, st.booleans())
def test_no_frame_trips_the_fleet(data: bytes, faults: list[tuple[int, int, bytes]], legacy: bool) -> None:
    async def say() -> None:
        made, node = fleet(), Connected("edge-a", legacy=legacy)
        made.frame(node, spoiled(data, faults))  # type: ignore[arg-type]
        assert made.counters["failed"] == 0
        assert {heard.node for heard in node.heard} <= {"edge-a"}
        assert len(node.heard) + len(node.told) <= 1
        if legacy:
            assert all(b'"ack"' in told for told in node.told)

    asyncio.run(say())


def test_ten_thousand_bad_frames_leave_nothing_behind() -> None:
    async def say() -> None:
        made, node = fleet(), Connected("edge-a", legacy=True)
        bad = [spoiled(data, [(number * 37, 5, b"%d" % number)]) for number, data in enumerate(FRAMES * 40)]
        bad += [data.replace(b"edge-a", b"edge-%d" % number) for number, data in enumerate(FRAMES * 40)]

        def all_of_them() -> int:
            for data in bad:
                made.frame(node, data)  # type: ignore[arg-type]
            node.heard.clear()
            node.told.clear()
            node.refused, node.closed = 0, ""
            return tracemalloc.get_traced_memory()[0]

        all_of_them()
        tracemalloc.start()
        try:
            first = all_of_them()
            assert [all_of_them() for _ in range(4)][-1] - first < 64 * 1024
        finally:
            tracemalloc.stop()
        assert made.counters["failed"] == 0
        assert len(made.counters) < 20

    asyncio.run(say())
