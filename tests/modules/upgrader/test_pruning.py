"""What a host keeps of attempts that ended: a bounded number, and nothing that one in flight needs."""

from pathlib import Path

import pytest

from beehive.messages.host import Verdict
from modules.upgrader.config import Config
from modules.upgrader.host.files import Files
from modules.upgrader.host.layout import Layout
from modules.upgrader.host.names import attempt_key, unit_key
from modules.upgrader.tool.record import Order, Record, prune_records, save_record

DONE = Verdict(ok=True, step="Upgrade", reason="", from_version="v1.22.0", to_version="v1.23.0")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(Config(root=str(tmp_path)))


def attempt(layout: Layout, uid: str, began: float, verdict: Verdict | None = DONE) -> None:
    order = Order(
        job="north", uid=uid, attempt=1, from_version="v1.22.0", to_version="v1.23.0", old_digest="", new_digest="",
        backup="v1.22.0",
    )  # fmt: skip
    save_record(Files(), layout, attempt_key(uid, 1), Record(order=order, began=began, verdict=verdict))
    layout.requests.mkdir(parents=True, exist_ok=True)
    layout.request(unit_key(uid, 1)).write_text("{}")


def left(layout: Layout) -> tuple[list[str], list[str]]:
    """Uids of records, and of requests."""
    return (
        sorted(path.stem[:8] for path in layout.records.glob("*.json")),
        sorted(path.stem[:8] for path in layout.requests.glob("*.json")),
    )


def test_the_request_goes_with_the_record(layout: Layout) -> None:
    for number in range(5):
        attempt(layout, f"0000000{number}-aaaa", float(number))
    attempt(layout, "99999999-aaaa", 0.5, verdict=None)
    prune_records(Files(), layout, keep=2)
    assert left(layout) == (["00000003", "00000004", "99999999"],) * 2


def test_a_request_whose_name_another_attempt_has_too_stays(layout: Layout) -> None:
    attempt(layout, "00000000-old", 1.0)
    attempt(layout, "00000000-new", 2.0, verdict=None)
    prune_records(Files(), layout, keep=0)
    assert left(layout) == (["00000000"], ["00000000"])
