"""What each command of the tool does."""

import argparse
import asyncio
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

from msgspec.structs import replace

from beehive.api.version import is_newer, same
from beehive.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, BeehiveError, Refused
from beehive.messages.host import Verdict
from modules.upgrader import checks
from modules.upgrader.config import Config
from modules.upgrader.host.host import Host
from modules.upgrader.host.lock import Holder, Lock, held
from modules.upgrader.host.names import attempt_key, checked_version
from modules.upgrader.host.process import boot_id
from modules.upgrader.room import rooms
from modules.upgrader.sentences import reason
from modules.upgrader.tool import orders, rehearsal
from modules.upgrader.tool.attempts import carry_out, settle
from modules.upgrader.tool.moving import carry_out_elsewhere, is_called_by_target
from modules.upgrader.tool.report import report, write_report
from modules.upgrader.tool.request import Request, read_request

_SCRIPT_LIMIT = 600.0


def upgrade(arguments: argparse.Namespace, config: Config | None) -> int:
    """`keadm upgrade edge`, asked for by the agent (a request file) or by a person."""
    if config is None:
        request, config = read_request(arguments.request)
        return _by_request(Host(config), request)
    if not arguments.to_version:
        print("Say to which version: keadm upgrade edge --toVersion v1.23.0", file=sys.stderr)
        return EXIT_USAGE
    version = checked_version(arguments.to_version)
    host = Host(config)
    if arguments.dry_run:
        return _rehearsed(rehearsal.upgrade(host, version, arguments.image, arguments.image_digest))
    if not (arguments.force or arguments.upgradeID or _agreed(host, version)):
        return EXIT_OK
    host.files.directory(host.layout.etc)
    with held(host.layout.lock, _holder("Upgrade")) as lock:
        settle(host)
        return _by_hand(host, arguments, version, lock)


def rollback(arguments: argparse.Namespace, config: Config | None) -> int:
    """`keadm rollback edge`."""
    assert config is not None
    host = Host(config)
    if arguments.dry_run:
        to = arguments.historical_version or orders.last_backup(host, host.installed_or_none() or "unknown")
        return _rehearsed(rehearsal.rollback(host, checked_version(to)))
    host.files.directory(host.layout.etc)
    with held(host.layout.lock, _holder("RollBack")) as lock:
        settle(host)
        installed = host.installed_or_none() or "unknown"
        if not arguments.historical_version and is_called_by_target(host) and orders.is_as_saved(host, installed):
            # EdgeCore answers every failed upgrade so, also one that had not begun; an older backup is not meant.
            print(f"{host.service.name} is at {installed}, as it was saved last; nothing to roll back.")
            write_report(host.files, host.layout, report("Rollback", installed, installed))
            return _after(arguments)
        try:
            to = arguments.historical_version or orders.last_backup(host, installed)
            order = orders.rollback(host, str(uuid.uuid4()), installed, checked_version(to))
            _run_script(arguments.pre_run)
        except BeehiveError as error:
            write_report(
                host.files, host.layout, report("Rollback", installed, arguments.historical_version, str(error))
            )
            raise
        return _finish(host, arguments, carry_out_elsewhere(host, order, lock))


def backup(arguments: argparse.Namespace, config: Config | None) -> int:
    """`keadm backup edge`."""
    assert config is not None
    host, installed = Host(config), "unknown"
    if arguments.dry_run:
        return _rehearsed(rehearsal.backup(host))
    host.files.directory(host.layout.etc)
    with held(host.layout.lock, _holder("BackUp")):
        settle(host)
        try:
            installed = host.installed()
            _run_script(arguments.pre_run)
            made = host.back_up(installed)
        except (BeehiveError, OSError) as error:
            write_report(host.files, host.layout, report("Backup", "", installed, reason(str(error))))
            raise
        write_report(host.files, host.layout, report("Backup", "", installed))
    print(f"Saved {made.version}: {made.summary()} in {host.layout.backup(installed)}")
    return _after(arguments)


def control(arguments: argparse.Namespace, config: Config | None) -> int:
    """`keadm ctl confirm|reject`: the owner's word for the upgrade that waits."""
    from modules.upgrader.confirmation import say, waiting  # noqa: PLC0415

    assert config is not None
    host = Host(config)
    found = waiting(host.layout)
    if found is None:
        raise Refused("there are no valid upgrade tasks to execute")
    say(host.files, host.layout, found, confirmed=arguments.word == "confirm", reason=arguments.reason)
    print(f"{'Confirmed' if arguments.word == 'confirm' else 'Rejected'}: job {found.job}, to {found.version}.")
    return EXIT_OK


def _rehearsed(would: list[str]) -> int:
    print("Nothing is changed (--dry-run). This would be done:")
    for line in would:
        print(f"  {line}")
    return EXIT_OK


def _by_request(host: Host, request: Request) -> int:
    host.files.directory(host.layout.etc)
    with held(host.layout.lock, _holder("RollBack" if request.undo else "Upgrade", request)):
        settle(host, but=attempt_key(request.uid, request.attempt))
        order = orders.by_request(host, request)
        verdict = carry_out(host, order, undo=request.undo)
    code = _say(verdict, host)
    if order.job:  # a person who asked has no job to tell about
        from modules.upgrader.tool.telling import tell  # noqa: PLC0415 - brings an HTTP client

        tell(host, order, verdict)  # nobody waits for this: the host is free, and the verdict stands
    return code


def _by_hand(host: Host, arguments: argparse.Namespace, version: str, lock: Lock) -> int:
    installed = "unknown"
    try:
        host.check_unit()
        installed = host.installed()
        if same(installed, version):
            print(f"{host.service.name} is at {version} already; nothing to do.")
            write_report(host.files, host.layout, report("Upgrade", installed, version))
            return EXIT_OK
        _run_script(arguments.pre_run)
        digest = asyncio.run(_brought(host, version, arguments.image, arguments.image_digest))
    except (BeehiveError, OSError) as error:
        write_report(host.files, host.layout, report("Upgrade", installed, version, reason(str(error))))
        raise
    order = orders.upgrade_by_hand(host, str(uuid.uuid4()), installed, version, digest)
    return _finish(host, arguments, carry_out_elsewhere(host, order, lock))


async def _brought(host: Host, version: str, image: str, pin: str) -> str:
    """The verified program's digest; the image is asked only when it is not here already."""
    from modules.upgrader import artefact  # noqa: PLC0415 - brings the image client
    from modules.upgrader.images import check_digest  # noqa: PLC0415

    found = artefact.load_extracted(host.layout, version)
    request = artefact.image_request(image, version, None)
    request = replace(request, pin=check_digest(pin) if pin else "")
    artefact.check_policy(host.config.images, request)
    if found is None or (pin and found.manifest_digest != request.pin):
        resolved = await artefact.look_up(host, request)
        objection = checks.judge_room(await asyncio.to_thread(rooms, host, resolved.size))
        if objection:
            raise Refused(objection.reason)
        found = await artefact.bring(host, request)
    await asyncio.to_thread(artefact.check_program, host, version)
    return found.program


def _agreed(host: Host, version: str) -> bool:
    installed = host.installed_or_none()
    older = " (older than what is installed)" if installed and is_newer(installed, version) else ""
    change = f"{installed or 'unknown version'} → {version}{older}"
    print(f"{host.service.name} on this host: {change}. It is stopped for a moment.")
    print("Are you sure you want to proceed? [y/N]: ", end="", flush=True)
    return sys.stdin.readline().strip() in ("y", "Y")


def _finish(host: Host, arguments: argparse.Namespace, verdict: Verdict) -> int:
    code = _say(verdict, host)
    return _after(arguments) if code == EXIT_OK else code


def _say(verdict: Verdict, host: Host) -> int:
    name = host.service.name
    if verdict.step == "Upgrade":
        print(f"{name} is upgraded: {verdict.from_version} → {verdict.to_version}.")
        return EXIT_OK
    if verdict.ok and not verdict.reason:
        print(f"{name} is rolled back: {verdict.from_version} → {verdict.to_version}.")
        return EXIT_OK
    if verdict.ok:
        print(f"Rolled back; {name} {verdict.to_version} runs again. {verdict.reason}", file=sys.stderr)
    else:
        print(verdict.reason, file=sys.stderr)
    return EXIT_FAILED


def _after(arguments: argparse.Namespace) -> int:
    try:
        _run_script(arguments.post_run)
    except BeehiveError as error:
        print(f"{error} (after success; nothing is undone)", file=sys.stderr)
    return EXIT_OK


def _run_script(program: Path | None) -> None:
    """Executed directly, never through a shell."""
    if program is None:
        return
    try:
        done = subprocess.run([program.absolute()], stdin=subprocess.DEVNULL, timeout=_SCRIPT_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"{program} did not run: {error}") from error
    if done.returncode:
        raise Refused(f"{program} ended with code {done.returncode}")


def _holder(step: str, request: Request | None = None) -> Holder:
    who = Holder(step=step, pid=os.getpid(), boot=boot_id(), since=time.time())
    return replace(who, job=request.job, uid=request.uid, attempt=request.attempt) if request else who
