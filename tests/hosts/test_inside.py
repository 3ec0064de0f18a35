"""Runs inside a booted host what can only be tried there."""

import re

from tests.hosts.running.edge import PYTHON
from tests.hosts.running.forge import Forge
from tests.real.running.standins import standin

_PASSED = re.compile(r"(\d+) passed")


def test_systemd_keeps_the_contract_of_a_service_manager(forge: Forge) -> None:
    host = forge.edge(standin("v1.23.0"))
    host.machine.boot()
    try:
        options = (
            "-q",
            "-p",
            "no:cacheprovider",
            "--import-mode=importlib",
            "--rootdir=/opt/beehive",
            "-o",
            "addopts=",
        )
        done = host.machine.say(
            *(
                "env",
                "--chdir=/opt/beehive",
                PYTHON,
                "-m",
                "pytest",
                *options,
                "tests/hosts/inside/contract_systemd.py",
            ),
            timeout=180,
        )
        passed = _PASSED.search(done.stdout)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert passed
        assert int(passed[1]) >= 12, "the whole contract ran"
    finally:
        host.machine.remove()


def test_systemd_has_nothing_to_say_against_the_shipped_units(forge: Forge) -> None:
    host = forge.edge(standin("v1.23.0"))
    host.machine.boot()
    try:
        units = [f"/etc/systemd/system/{name}.service" for name in ("beehive-edge", "beehive-recover")]
        done = host.machine.say("systemd-analyze", "verify", "--man=no", *units, "beehive-tool@6b1f2c34-0.service")
        assert (done.returncode, done.stderr) == (0, "")
        security = host.machine.say("systemd-analyze", "security", "--threshold=26", "beehive-edge.service")
        assert security.returncode == 0, "the agent is exposed more than 2.6: " + security.stdout[-500:]
    finally:
        host.machine.remove()
