"""The module alone on a real bus, on a host in a directory, with the real tool in processes of its own."""

import re

import msgspec
import pytest

from beehive.messages.host import Inspect
from modules.upgrader.config import Images, Limits
from modules.upgrader.host.lock import Holder, held
from tests.fakes.alone import alone
from tests.fakes.edge_host import NEW, OLD, program
from tests.modules.upgrader.driving import CRASHING, Make, at_rest, done, look, upgrader

# ---- the whole way --------------------------------------------------------------------------------------------------


async def test_a_good_version_goes_through_all_steps(edge: Make) -> None:
    host = edge()
    async with alone(upgrader(host)) as peers:
        checked = await done(peers, "Check")
        assert (checked.ok, checked.code, checked.from_version, checked.to_version) == (True, "", OLD, NEW)
        assert host.starts() == [OLD]
        assert (await done(peers, "WaitingConfirmation")).ok
        saved = await done(peers, "BackUp")
        assert saved.ok
        assert saved.reason.startswith("backed up 3 files")
        upgraded = await done(peers, "Upgrade")
        assert (upgraded.ok, upgraded.code) == (True, "")
        down = re.fullmatch(r"edgecore was down for ([0-9]\.[0-9]) s", upgraded.reason)
        assert down
        assert float(down[1]) < 3
        assert (upgraded.from_version, upgraded.to_version) == (OLD, NEW)
        evidence = await at_rest(peers)
        assert (evidence.installed, evidence.healthy, evidence.complete) == (NEW, True, True)
        assert evidence.busy_with == ""
        assert evidence.verdict
        assert (evidence.verdict.step, evidence.verdict.ok) == ("Upgrade", True)
        again = await done(peers, "Upgrade")
        assert again == upgraded, "a step that is said again has its outcome, and happens once"
        late = await done(peers, "Check", attempt=1)
        assert (late.ok, late.code) == (False, "AlreadyAtVersion")
    assert host.starts() == [OLD, NEW]


async def test_a_crashing_version_is_rolled_back_with_its_last_words(edge: Make) -> None:
    host = edge(CRASHING)
    async with alone(upgrader(host)) as peers:
        assert (await done(peers, "Check")).ok
        assert (await done(peers, "BackUp")).ok
        failed = await done(peers, "Upgrade")
        assert (failed.ok, failed.code) == (False, "RolledBack")
        assert failed.reason.startswith("v1.23.0 exited with code 1 after 0.")
        assert failed.reason.endswith(': "cannot open database: schema 7"')
        back = await done(peers, "RollBack")
        assert (back.ok, back.code, back.reason) == (True, "RolledBack", failed.reason)
        assert (back.from_version, back.to_version) == (OLD, OLD)
        evidence = await look(peers)
        assert (evidence.installed, evidence.healthy, evidence.complete) == (OLD, True, True)
    assert host.starts() == [OLD, NEW, OLD]


# ---- the check ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "code", "reason"),
    [
        ({"version": OLD}, "AlreadyAtVersion", "already at v1.22.0"),
        ({"version": "v1.21.0"}, "Newer", "v1.22.0 is installed, newer than v1.21.0"),
        ({"version": "v1.21.0", "allow_downgrade": True}, "CheckFailed", "v1.21.0"),
        ({"version": "../../etc"}, "CheckFailed", "is not a version"),
        ({"version": "v1.99.0"}, "CheckFailed", "v1.99.0"),
        ({"image": "evil/image"}, "CheckFailed", "does not allow images from docker.io/evil/image"),
        ({"image": "not an image;rm -rf"}, "CheckFailed", "is not the name of an image"),
        ({"upgrade_tool": "bash"}, "CheckFailed", "upgradeTool 'bash' is not known"),
        ({"check_items": ("gpu",)}, "CheckFailed", "check item 'gpu' is not known"),
        ({"digests": {"mips": "sha256:" + "0" * 64}}, "CheckFailed", "pins image digests for mips but none for"),
        ({"digests": {"amd64": "latest", "arm64": "latest"}}, "CheckFailed", "is not a digest"),
        ({"digests": {"amd64": "sha256:" + "0" * 64, "arm64": "sha256:" + "0" * 64}}, "CheckFailed", "pinned"),
    ],
)
async def test_the_check_refuses_with_a_sentence(edge: Make, spec: dict[str, object], code: str, reason: str) -> None:
    host = edge()
    async with alone(upgrader(host)) as peers:
        checked = await done(peers, "Check", **spec)
        assert (checked.ok, checked.code) == (False, code)
        assert reason in checked.reason
        assert len(checked.reason) <= 256
    assert host.starts() == [OLD]
    assert not host.layout.artefact(NEW).exists()


async def test_a_pinned_digest_is_carried_to_the_image(edge: Make) -> None:
    host = edge()
    pin = host.offer(program(NEW))
    async with alone(upgrader(host, images=msgspec.structs.replace(host.config.images, require_digest=True))) as peers:
        assert "only by digest" in (await done(peers, "Check")).reason
        assert (await done(peers, "Check", digests={"amd64": pin, "arm64": pin})).ok


@pytest.mark.parametrize(
    ("limits", "items", "reason"),
    [
        (Limits(mem_percent=0.0), ("mem",), "% used, 0 % allowed"),
        (Limits(disk_percent=0.0), ("disk",), "disk /: "),
        (Limits(cpu_percent=-1.0), ("cpu",), "cpu: "),
        (Limits(reserve_bytes=1 << 60), (), "needed: image 0.0, backup 0.0, program 0.0, reserve 1073741824.0"),
    ],
)
async def test_a_host_that_is_busy_or_full_says_so_with_numbers(
    edge: Make, limits: Limits, items: tuple[str, ...], reason: str
) -> None:
    host = edge()
    async with alone(upgrader(host, limits=limits)) as peers:
        checked = await done(peers, "Check", check_items=items)
        assert (checked.ok, checked.code) == (False, "CheckFailed")
        assert reason in checked.reason
    assert not host.layout.artefact(NEW).exists()


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (program(NEW, says="v9.9.9"), "says that it is v9.9.9, not v1.23.0"),
        (b"#!/bin/sh\nexit 4\n", "ended with code 4 and named no version"),
        (b"just words", "Exec format error"),
    ],
)
async def test_a_program_that_does_not_prove_itself_is_never_installed(edge: Make, new: bytes, reason: str) -> None:
    host = edge(new)
    async with alone(upgrader(host)) as peers:
        checked = await done(peers, "Check")
        assert (checked.ok, checked.code) == (False, "CheckFailed")
        assert reason in checked.reason
    assert host.starts() == [OLD]


async def test_a_script_is_refused_where_only_machine_code_may_run(edge: Make) -> None:
    host = edge()
    target = msgspec.structs.replace(host.config.target, format="elf")
    async with alone(upgrader(host, target=target)) as peers:
        checked = await done(peers, "Check")
        assert (checked.ok, checked.code) == (False, "CheckFailed")
        assert "is not an ELF executable" in checked.reason
    assert not host.layout.artefact(NEW).exists()


async def test_a_held_host_answers_busy_and_says_with_whom(edge: Make) -> None:
    host = edge()
    async with alone(upgrader(host)) as peers:
        assert (await done(peers, "Check")).ok
        with held(host.layout.lock, Holder(job="south", uid="other", attempt=2, pid=4021, step="Upgrade")):
            for step in ("Check", "BackUp", "Upgrade"):
                busy = await done(peers, step)
                assert (busy.ok, busy.code) == (False, "Busy"), busy
                assert busy.reason.startswith("job south, attempt 2, pid 4021, step Upgrade")
            assert (await look(peers)).busy_with.startswith("job south, attempt 2")
        assert (await done(peers, "Upgrade")).ok
    assert host.starts() == [OLD, NEW]


async def test_hostile_names_are_refused_and_leave_no_file(edge: Make) -> None:
    host = edge()
    before = sorted(host.root.rglob("*"))
    async with alone(upgrader(host)) as peers:
        for step in ("Check", "BackUp", "Upgrade", "RollBack"):
            refused = await done(peers, step, uid="../../../tmp/x")
            assert not refused.ok
            assert "cannot be the name of a file" in refused.reason
        assert "is not a step" in (await done(peers, "Dance")).reason
        evidence = await peers.ask(Inspect(uid="../..", attempt=0, version="../.."))
        assert (evidence.installed, evidence.verdict, evidence.unit_runs) == (OLD, None, False)
    assert sorted(host.root.rglob("*")) == before


async def test_images_come_only_from_where_the_owner_says(edge: Make) -> None:
    host = edge()
    async with alone(upgrader(host, images=Images(registry=False))) as peers:
        checked = await done(peers, "Check")
        assert (checked.ok, checked.code) == (False, "CheckFailed")
        assert "no source for images" in checked.reason
