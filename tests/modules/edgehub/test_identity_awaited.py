"""A host that has not joined says so, once for each reason, and goes on looking."""

import asyncio
import logging
from pathlib import Path

import pytest

from beehive.journal import Journal
from beehive.world import World
from modules.edgehub.config import Config
from modules.edgehub.module import EdgeHub
from tests.fakes.alone import alone

pytestmark = pytest.mark.virtual_time


async def test_a_host_that_has_not_joined_logs_it_once(
    tmp_path: Path, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "beehive.edgehub")
    made = EdgeHub(Config(identity=str(tmp_path / "pki")), world, Journal(tmp_path / "journal"))
    async with alone(made) as peers:
        await asyncio.sleep(600)
        assert "beehive edge join" in peers.module.waits_for
    told = [one for one in caplog.records if one.message == "this host cannot speak to the cloud"]
    assert len(told) == 1
    assert "beehive edge join" in told[0].reason  # type: ignore[attr-defined]
