"""Runs the real tool in processes of their own and kills them with SIGKILL at a boundary between two phases.

`python -m tests.fakes.killed_tool REQUEST…`: the first request's tool is killed at boundary 0, the second's at 1, and
so on; there are two for each time that the tool writes its record, just before and just after. Prints a line of JSON
for each: how the first process ended, and the exit code of the second, which is not killed.
"""

import json
import os
import signal
import sys

from modules.upgrader.tool import attempts, main
from modules.upgrader.tool.work import Tool


class KilledTool(Tool):
    """A tool that ends itself, as no handler can prevent."""

    boundary = -1
    passed = 0

    def save(self) -> None:
        self._reach()
        super().save()
        self._reach()

    def _reach(self) -> None:
        if KilledTool.passed == KilledTool.boundary:
            os.kill(os.getpid(), signal.SIGKILL)
        KilledTool.passed += 1


def run(request: str, boundary: int) -> int:
    """One process of the tool; its exit code, negative for a signal."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        KilledTool.boundary = boundary
        vars(attempts)["Tool"] = KilledTool
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        os._exit(main(["upgrade", "edge", "--force", "--request", request]))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    for number, one in enumerate(sys.argv[1:]):
        first = run(one, number)
        second = run(one, -1) if first < 0 else first
        sys.stdout.write(json.dumps({"first": first, "second": second}) + "\n")
