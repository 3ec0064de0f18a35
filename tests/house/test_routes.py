"""The golden table of who says what to whom: a change of the conversation shows in the diff of `routes.txt`."""

import itertools
import re
from pathlib import Path

import pytest

from modules.console.routes import lines, mermaid, table
from modules.registry import MODULES

GOLDEN = Path(__file__).with_name("routes.txt")


def test_the_conversation_is_the_one_that_was_reviewed(pytestconfig: pytest.Config) -> None:
    now = "\n".join(table(MODULES, mode) for mode in ("cloud", "edge"))
    if pytestconfig.getoption("--rewrite"):
        GOLDEN.write_text(now, encoding="utf-8")
    assert now == GOLDEN.read_text(encoding="utf-8"), "run pytest tests/house --rewrite, and read the diff"


@pytest.mark.parametrize("mode", ["cloud", "edge"])
def test_the_diagram_has_every_module_and_every_arrow_of_the_table(mode: str) -> None:
    drawn, arrows = mermaid(MODULES, mode), 0
    for _, message, said, got in lines(MODULES, mode):
        for sender, receiver in itertools.product(said.split(", "), got.split(", ")):
            if sender not in ("kernel", "-", receiver) and receiver != "-":
                arrow = re.search(rf'^  {sender} --- \w+\["([^"]*)"\]:::words --> {receiver}$', drawn, re.MULTILINE)
                assert arrow is not None, (sender, message, receiver)
                assert message in [word.split()[-1] for word in arrow[1].split("<br>")]
                arrows += 1
    assert arrows > 8
    assert drawn.startswith(f"%% mode {mode}")


def test_start_order_is_that_of_the_architecture() -> None:
    assert [spec.name for spec in MODULES] == [
        "informer", "etcdmanager", "admission", "digests", "upgrader", "taskmanager", "cloudhub", "edgehub",
        "control",
    ]  # fmt: skip
