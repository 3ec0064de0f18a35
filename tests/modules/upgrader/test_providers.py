"""Other providers: the image's own keadm, and commands of the host's owner; our backup, proof and rollback around."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from beehive.config import Duration
from modules.upgrader import artefact
from modules.upgrader.checks import judge_tool
from modules.upgrader.config import Provider, from_json
from modules.upgrader.evidence import is_complete
from modules.upgrader.host.files import digest_of
from modules.upgrader.host.lock import Busy, Holder, held, lent, who_holds
from modules.upgrader.host.names import unit_key
from modules.upgrader.tool import main
from modules.upgrader.tool.phases import Phase
from modules.upgrader.tool.providers import argv_of
from modules.upgrader.tool.record import Record, load_record
from modules.upgrader.tool.recovery import at_boot
from modules.upgrader.tool.request import Request, settings_of, write_request
from modules.upgrader.tool.work import Tool
from tests.fakes.alone import alone
from tests.fakes.edge_host import IMAGE, NEW, OLD, EdgeHost, program, until
from tests.fakes.memory_host import Killed, MemoryHost
from tests.modules.upgrader.driving import UID, done, upgrader

Make = Callable[..., EdgeHost]
KEY = f"{UID}-0"
KEADM = """#!/bin/sh
echo "$@" >> {root}/called
if [ -e {root}/etc/kubeedge/idempotency_record ]; then
    echo "the mutually exclusive command is being executed"; exit 1
fi
echo > {root}/etc/kubeedge/idempotency_record
{manner}
cp {root}/etc/kubeedge/upgrade/{version}/edgecore {root}/usr/local/bin/edgecore
echo '{{"event":"Upgrade","success":true}}' > {root}/etc/kubeedge/upgrade_report.json
rm {root}/etc/kubeedge/idempotency_record
"""
"""As KubeEdge's: it looks for the lock's file, writes in place, writes its report."""


def offered(edge: Make, manner: str = ":", new: bytes = program(NEW), **settings: object) -> EdgeHost:
    """A host whose check has brought an image, whose keadm behaves so."""
    host = edge(new, **settings)
    script = KEADM.format(root=host.root, version=NEW, manner=manner).encode()
    host.images.add(NEW, [{"/usr/local/bin/edgecore": new, "/usr/local/bin/keadm": script}])
    return host


def bring(host: EdgeHost) -> artefact.Extracted:
    return asyncio.run(artefact.bring(host.host, artefact.image_request(IMAGE, NEW, None)))


def upgrade(host: EdgeHost, tool: str, digest: str, image: str = IMAGE) -> Record:
    """The tool's unit with this provider; the attempt's record."""
    request = Request(
        job="north", uid=UID, attempt=0, from_version=OLD, to_version=NEW, digest=digest, tool=tool, image=image,
        settings=settings_of(host.config),
    )  # fmt: skip
    write_request(host.host.files, host.layout, request)
    code = main(["upgrade", "edge", "--force", "--request", str(host.layout.request(unit_key(UID, 0)))])
    record = load_record(host.layout, KEY)
    assert record
    assert record.verdict
    assert code == (0 if record.verdict.step == "Upgrade" else 1)
    assert not host.layout.lock.exists()
    assert not list(host.layout.etc.glob("idempotency_record*"))
    return record


def reason_of(record: Record, host: EdgeHost) -> str:
    """Of an upgrade that was taken back."""
    assert record.verdict
    assert (record.verdict.ok, record.verdict.code) == (True, "RolledBack"), record
    assert host.runs() == OLD
    assert host.layout.executable.read_bytes() == program(OLD)
    return record.verdict.reason


def test_the_images_keadm_is_called_as_kubeedge_calls_it(edge: Make) -> None:
    host = offered(edge)
    record = upgrade(host, "image-keadm", bring(host).program)
    assert record.verdict
    assert record.verdict.step == "Upgrade"
    called = (host.root / "called").read_text()
    assert called == f"upgrade edge --force --toVersion {NEW} --image {IMAGE}\n"
    assert host.runs() == NEW
    assert host.report() == {"event": "Upgrade", "success": True, "fromVersion": OLD, "toVersion": NEW}, "ours"
    assert (host.layout.backup(OLD) / "edgecore").read_bytes() == program(OLD)


@pytest.mark.parametrize(
    ("manner", "new", "reason"),
    [
        ("echo token=hunter2 alas; exit 3", program(NEW), 'image-keadm exited with code 3: "token=[removed] alas"'),
        ("kill -9 $$", program(NEW), "image-keadm was ended by SIGKILL"),
        (":", program(NEW, suits="9"), f'{NEW} exited with code 1'),
        ("exit 0", program(NEW), "image-keadm ended well and replaced nothing"),
        ("echo else > {place}; exit 0", program(NEW), "is not the program of the image that was checked"),
    ],
)  # fmt: skip
def test_whatever_it_does_wrong_is_taken_back(edge: Make, manner: str, new: bytes, reason: str) -> None:
    host = offered(edge, new=new)
    manner = manner.replace("{place}", str(host.layout.executable))
    script = KEADM.format(root=host.root, version=NEW, manner=manner).encode()
    host.images.add(NEW, [{"/usr/local/bin/edgecore": new, "/usr/local/bin/keadm": script}])
    assert reason in reason_of(upgrade(host, "image-keadm", bring(host).program), host)


def test_a_keadm_that_was_exchanged_after_the_check_is_not_run(edge: Make) -> None:
    host = offered(edge)
    extracted = bring(host)
    keadm = host.layout.upgrade(NEW) / "keadm"
    assert extracted.keadm == digest_of(keadm)
    keadm.write_text(f"#!/bin/sh\ntouch {host.root}/called\n")
    assert "is not the keadm of the image that was checked" in reason_of(
        upgrade(host, "image-keadm", extracted.program), host
    )
    assert not (host.root / "called").exists()


def test_while_it_works_the_host_is_held(edge: Make, capsys: pytest.CaptureFixture[str]) -> None:
    go = "touch {0}/began; while [ ! -e {0}/go ]; do sleep 0.05; done"
    host = offered(edge)
    script = KEADM.format(root=host.root, version=NEW, manner=go.format(host.root)).encode()
    host.images.add(NEW, [{"/usr/local/bin/edgecore": program(NEW), "/usr/local/bin/keadm": script}])
    extracted = bring(host)
    tool = threading.Thread(target=upgrade, args=(host, "image-keadm", extracted.program))
    tool.start()
    try:
        until((host.root / "began").exists, "the image's keadm at work")
        holder = who_holds(host.layout.lock)
        assert holder
        assert (holder.job, holder.uid, holder.step) == ("north", UID, "Upgrade")
        with pytest.raises(Busy, match="job north, attempt 0"), held(host.layout.lock, Holder()):
            pass
    finally:
        (host.root / "go").touch()
        tool.join(20)
    assert host.runs() == NEW


def test_a_command_of_the_owner_that_brings_the_program_itself(edge: Make, tmp_path: Path) -> None:
    new = tmp_path / "elsewhere"
    new.write_bytes(program(NEW))
    new.chmod(0o755)
    mine = Provider(run=("/bin/cp", str(new), "{executable}"), image=False)
    host = edge(providers={"copy": mine})
    record = upgrade(host, "copy", "")
    assert record.verdict
    assert record.verdict.step == "Upgrade"
    assert record.order.new_digest == digest_of(new), "known as soon as it is there"
    assert host.runs() == NEW


def test_one_of_the_owner_that_hangs_is_ended(edge: Make) -> None:
    mine = Provider(run=("/bin/sh", "-c", "echo waiting for godot; sleep 60"), image=False, timeout=Duration(0.3))
    host = edge(providers={"wait": mine})
    assert reason_of(upgrade(host, "wait", ""), host) == 'wait had not ended after 0.3 s: "waiting for godot"'


@pytest.mark.parametrize("run", [("/nowhere/tool",), ("{keadm}", "x")])
def test_one_that_cannot_be_run(edge: Make, run: tuple[str, ...]) -> None:
    host = edge(providers={"mine": Provider(run=run, image=False)})
    assert "cannot be run: No such file or directory" in reason_of(upgrade(host, "mine", ""), host)


def test_one_that_is_configured_no_more(edge: Make) -> None:
    host = edge()
    assert "upgradeTool 'gone' is not known on this host any more" in reason_of(upgrade(host, "gone", ""), host)


async def test_the_agent_hands_the_provider_over(edge: Make, tmp_path: Path) -> None:
    """Without an image to fetch: the check asks no source for one."""
    new = tmp_path / "elsewhere"
    new.write_bytes(program(NEW))
    new.chmod(0o755)
    mine = Provider(run=("/bin/cp", str(new), "{executable}"), image=False)
    host = edge(providers={"copy": mine})
    async with alone(upgrader(host), name="upgrader") as peers:
        for step in ("Check", "BackUp", "Upgrade"):
            ended = await done(peers, step, upgrade_tool="copy", image="nowhere.example/none")
            assert ended.ok, ended
    assert host.runs() == NEW


async def test_the_agent_hands_the_images_keadm_over(edge: Make) -> None:
    host = offered(edge)
    async with alone(upgrader(host), name="upgrader") as peers:
        for step in ("Check", "BackUp", "Upgrade"):
            ended = await done(peers, step, upgrade_tool="image-keadm")
            assert ended.ok, ended
    assert (host.root / "called").read_text().startswith("upgrade edge --force --toVersion v1.23.0 --image ")
    assert host.runs() == NEW


def test_an_unknown_one_fails_the_check_with_those_that_are_known() -> None:
    objection = judge_tool("bash", ("mine",))
    assert objection
    assert objection.reason == "upgradeTool 'bash' is not known on this host; it knows keadm, image-keadm, mine"
    assert [judge_tool(known, ("mine",)) for known in ("keadm", "image-keadm", "mine")] == [None] * 3


@pytest.mark.parametrize(
    ("run", "argv"),
    [
        (("a", "--image", "{image}", "--v={version}"), ("a", "--image", "{version}; rm -rf /", "--v=v1.2.3")),
        (("a", "--empty", "{empty}", "b"), ("a", "b")),
        (("a", "{empty}", ""), ("a", "")),
        (("a", "{other}", "{", "}", "{version"), ("a", "{other}", "{", "}", "{version")),
    ],
)
def test_places_are_filled_in_once_and_word_by_word(run: tuple[str, ...], argv: tuple[str, ...]) -> None:
    places = {"version": "v1.2.3", "image": "{version}; rm -rf /", "empty": ""}
    assert argv_of(Provider(run=run), places) == argv


def test_what_is_lent_comes_back_and_blocks_nobody_afterwards(tmp_path: Path) -> None:
    lock = tmp_path / "idempotency_record"
    with held(lock, Holder(job="north", uid="a")):
        with lent(lock):
            assert not lock.exists()
            lock.write_text("a KubeEdge's keadm that was killed")
            assert (who_holds(lock) or Holder()).job == "north"
        assert (who_holds(lock) or Holder()).job == "north"
    assert who_holds(lock) is None
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "idempotency_record.lent").write_text("of a tool that was killed")
    with held(lock, Holder()):
        pass
    assert list(tmp_path.iterdir()) == []


def test_settings_of_providers_are_read(edge: Make) -> None:
    host = edge()
    config = msgspec.structs.replace(host.config, providers={"k3s": Provider(run=("/opt/k3s-up", "{version}"))})
    assert from_json(bytes(settings_of(config))).providers["k3s"].timeout == Duration(600)


def interrupted(root: Path, lies: str) -> tuple[MemoryHost, Path]:
    """A power cut while a command of the owner's replaces the program, of which this lies there; where it tells."""
    host, told = MemoryHost(root), root / "called"
    command = f"echo >> {told}; echo '{NEW} good' > {host.layout.executable}"
    mine = Provider(run=("/bin/sh", "-c", command), image=False)
    host.config = msgspec.structs.replace(host.config, providers={"mine": mine})
    host.files.directory(host.layout.etc)
    order = msgspec.structs.replace(host.order(), tool="mine", new_digest="")

    class Cut(Tool):
        def save(self) -> None:
            super().save()
            if self.record.phase is Phase.SWAP:
                raise Killed

    with pytest.raises(Killed):
        Cut(host, KEY, Record(order=order)).run()
    host.layout.executable.write_text(lies)
    host.memory.running = ""
    return host, told


@pytest.mark.parametrize(("lies", "step"), [(f"{OLD} good", "Upgrade"), (f"{NEW} go", "RollBack"), ("", "RollBack")])
def test_a_power_cut_while_it_works_leaves_no_half_program_to_the_boot(
    tmp_path: Path, lies: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is never run before the host is up: it may need what is not there yet."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    host, told = interrupted(tmp_path, lies)
    assert at_boot(host) == 0
    assert not told.exists()
    assert host.layout.executable.read_text() == f"{OLD} good", "whole, before the boot starts it"
    host.memory.boot()
    record = load_record(host.layout, KEY)
    assert record
    with held(host.layout.lock, Holder()):
        verdict = Tool(host, KEY, record).run()
    assert (verdict.step, verdict.ok) == (step, True)
    assert told.exists() == (step == "Upgrade")
    assert host.memory.running == (NEW if step == "Upgrade" else OLD)


def test_a_program_that_is_gone_is_not_taken_for_a_known_one(tmp_path: Path) -> None:
    host, _ = interrupted(tmp_path, f"{OLD} good")
    record = load_record(host.layout, KEY)
    assert is_complete(host, record)
    host.layout.executable.unlink()
    assert not is_complete(host, record)


async def test_an_image_without_a_keadm_is_enough_for_ours_only(edge: Make) -> None:
    host = edge()
    host.images.add(NEW, [{"/usr/local/bin/edgecore": program(NEW)}])
    async with alone(upgrader(host), name="upgrader") as peers:
        refused = await done(peers, "Check", upgrade_tool="image-keadm")
        assert (refused.ok, refused.code) == (False, "CheckFailed")
        assert refused.reason == "upgradeTool is image-keadm, and the image has no /usr/local/bin/keadm"
        assert (await done(peers, "Check")).ok


def test_the_keadm_of_an_earlier_image_is_not_left_for_one_that_has_none(edge: Make) -> None:
    host = offered(edge)
    assert bring(host).keadm
    host.images.add(NEW, [{"/usr/local/bin/edgecore": program(NEW)}])
    assert bring(host).keadm == ""
    assert not (host.layout.upgrade(NEW) / "keadm").exists()
