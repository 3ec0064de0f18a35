"""`docs/vectors.md`: every KubeEdge vector about the API, theirs and ours, and a reason for each difference."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rules.verdicts import TABLES, Row, objects, page

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "vectors.md"


@pytest.mark.parametrize("rows", [rows for _, _, rows in TABLES], ids=lambda rows: rows.__name__)
def test_each_difference_has_a_reason_and_no_reason_stands_without_one(rows: Callable[[], list[Row]]) -> None:
    for row in rows():
        if rows is objects:
            assert row.theirs.startswith("wrote")
            assert row.ours == "taken, and comes back unchanged from the other version", row
        else:
            assert bool(row.why) is (row.ours != row.theirs), row


def test_the_page_is_what_the_product_does(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite"):
        DOCUMENT.write_text(page(), encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == page(), "pytest tests/rules/test_verdicts.py --rewrite, and look"
