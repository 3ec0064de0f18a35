"""Log lines: one each, for people or programs, whatever is in them."""

import json
import logging

import pytest

from beehive.log import JsonFormatter, TextFormatter


def record(
    message: str, name: str = "modules.taskmanager.cloud", level: int = logging.INFO, **extra: object
) -> logging.LogRecord:
    made = logging.LogRecord(name, level, __file__, 1, message, (), None)
    made.created = 1_764_448_267.9
    vars(made).update(extra)
    return made


def test_text_has_time_level_module_message_and_pairs() -> None:
    line = TextFormatter().format(record("node dispatched", job="north", node="edge-8", attempt=1))
    assert line == "2025-11-29T20:31:07Z  INFO  taskmanager  node dispatched          job=north node=edge-8 attempt=1"


def test_values_with_spaces_are_quoted() -> None:
    line = TextFormatter().format(record("x", level=logging.WARNING, reason='exited with "1"'))
    assert line.split("  ")[1].strip() == "WARN"
    assert line.endswith('reason="exited with "1""')


@pytest.mark.parametrize("hostile", ["edge\n2026-01-01T00:00:00Z INFO forged", "\x1b[31mred", "a\rb", "\u2028"])
def test_no_value_can_begin_a_line_or_steer_a_terminal(hostile: str) -> None:
    line = TextFormatter().format(record(f"message {hostile}", node=hostile))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line


def test_json_is_one_object_a_line() -> None:
    line = JsonFormatter().format(
        record("node\ndispatched", name="beehive.kernel", node="edge-8", attempt=1, odd={1: 2})
    )
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2025-11-29T20:31:07Z", "level": "info", "module": "kernel", "message": "node\ndispatched",
        "node": "edge-8", "attempt": 1, "odd": "{1: 2}",
    }  # fmt: skip
