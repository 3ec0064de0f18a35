"""A parent process for one service on a host without systemd: it waits for its child and writes down how it ended.

Run as a file (`python -I -S keeper.py SPEC`), with the standard library only: small, quick to start, independent of
the installation that it outlives. SPEC is JSON: `argv`, `log`, `state` (a file that this process keeps up to date),
`restarts` (how often to start it again after it was killed or failed) and `no_restart` (exit codes that mean: enough).
It returns as soon as the child runs, or says on stderr why it cannot.
"""

import json
import os
import signal
import sys
import time
from types import FrameType
from typing import Any

_PAUSE = 0.2
_stopping = False


def start_ticks(pid: int) -> int:
    """When a process started, in ticks since boot: with the pid it names one process for ever; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - light
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123
        spec = json.load(file)
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        with os.fdopen(reader) as result:
            problem = result.read()
        print(problem, file=sys.stderr, end="")  # noqa: T201 - its whole interface
        return 1 if problem else 0
    os.close(reader)
    os.setsid()
    signal.signal(signal.SIGTERM, _stop)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    _keep(spec, writer)
    os._exit(0)


def _stop(_number: int, _frame: FrameType | None) -> None:
    global _stopping  # noqa: PLW0603 - a signal handler has nothing else to write to
    _stopping = True


def _keep(spec: dict[str, Any], writer: int) -> None:
    restarts = 0
    while True:
        state = {"keeper": os.getpid(), "keeper_ticks": start_ticks(os.getpid()), "restarts": restarts}
        began = time.monotonic()
        try:
            log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            state["offset"] = os.lseek(log, 0, os.SEEK_END)
            pid = _spawn(spec["argv"], log)
            os.close(log)
            _save(spec["state"], {**state, "pid": pid, "ticks": start_ticks(pid), "boot": _boot()})
        except OSError as error:
            os.write(writer, f"{spec['argv'][0]} cannot be started: {error.strerror}".encode())
            return
        if not restarts:
            os.close(writer)
        status = os.waitpid(pid, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        lasted = time.monotonic() - began
        again = not (_stopping or code in spec["no_restart"] or restarts >= spec["restarts"])
        ended = {"exit_code": code if code >= 0 else None, "signal": max(-code, 0), "lasted": lasted, "again": again}
        _save(spec["state"], {**state, **ended, "boot": _boot()})
        if not again:
            return
        time.sleep(_PAUSE)
        if _stopping:
            return
        restarts += 1


def _spawn(argv: list[str], log: int) -> int:
    files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), *((os.POSIX_SPAWN_DUP2, log, n) for n in (1, 2))]
    unblocked = (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGHUP)
    return os.posix_spawn(argv[0], argv, os.environ, file_actions=files, setpgroup=0, setsigdef=unblocked)


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
        return file.read().strip()


def _save(path: str, state: dict[str, Any]) -> None:
    beside = f"{path}.{os.getpid()}.new"
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:  # noqa: PTH123
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)  # noqa: PTH105


if __name__ == "__main__":
    sys.exit(main())
