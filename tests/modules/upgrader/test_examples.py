"""The settings that docs/host.md shows can be used as they stand there, and mean what the tests try."""

import re
from pathlib import Path
from typing import Any

import pytest

from beehive.config import Source, load
from beehive.runtime import sections
from modules.registry import MODULES
from tests.real.test_tool_k3s import TARGET

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "host.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


def loaded(text: str) -> Any:
    return load(sections(MODULES), Source("host.md", text))["upgrader"]


@pytest.mark.parametrize("block", BLOCKS)
def test_each_can_be_used(block: str) -> None:
    assert loaded(block)


def test_the_k3s_agent_is_the_one_that_is_tried() -> None:
    (shown,) = [loaded(block).target for block in BLOCKS if "k3s-agent" in block]
    for name in ("executable", "runs_from", "config", "database", "service"):
        assert getattr(shown, name) == getattr(TARGET, name), name


def test_a_provider_is_among_them() -> None:
    (shown,) = [loaded(block).providers for block in BLOCKS if "providers" in block]
    assert shown["k3s-installer"].run[0].startswith("/")
