"""The service's own unit on a booted systemd: the program that it starts, its drop-ins, its enablement, its starts."""

import json
from collections.abc import Callable

import msgspec

from modules.upgrader.config import Provider
from modules.upgrader.host.files import Files, digest_of
from modules.upgrader.host.names import unit_key
from modules.upgrader.tool.request import read_request, settings_of, write_request
from tests.hosts.running.edge import NEW, OLD, UID, Edge
from tests.real.running.standins import Variant, standin

Make = Callable[..., Edge]
UNIT = "/etc/systemd/system/edgecore.service"
MEDDLE = """set -e
systemctl disable --quiet edgecore.service
sed -i 's/RestartSec=10/RestartSec=33/' /etc/systemd/system/edgecore.service
rm /etc/systemd/system/edgecore.service.d/10-old.conf
printf '[Service]\\nEnvironment=MEDDLED=1\\n' > /etc/systemd/system/edgecore.service.d/99-new.conf
systemctl daemon-reload
cp --remove-destination "$1" "$2"
"""
"""What KubeEdge's own keadm does to a unit, and worse."""


def drop_in(host: Edge, name: str, text: str) -> None:
    place = host.machine.path(f"{UNIT}.d/{name}")
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)
    host.machine.run("systemctl", "daemon-reload")


def shown(host: Edge) -> dict[str, str]:
    return host.machine.show("edgecore.service", "UnitFileState", "DropInPaths", "RestartUSec", "Environment")


def test_a_rollback_puts_back_what_a_provider_did_to_the_unit(edge: Make) -> None:
    host = edge(standin(NEW, Variant.CRASHING))
    drop_in(host, "10-old.conf", "[Service]\nEnvironment=OWN=1\n")
    before = shown(host)
    assert before["UnitFileState"] == "enabled"
    host.machine.path("/root/meddle.sh").write_text(MEDDLE)
    place = host.layout.request(unit_key(UID, 0))
    request, config = read_request(place)
    run = ("/bin/sh", "/root/meddle.sh", "{program}", "{executable}")
    config = msgspec.structs.replace(config, providers={"meddle": Provider(run=run, image=False)})
    write_request(Files(), host.layout, msgspec.structs.replace(request, tool="meddle", settings=settings_of(config)))
    host.upgrade()
    record = host.until_verdict()
    assert record.verdict
    assert (record.verdict.code, record.verdict.ok) == ("RolledBack", True), host.explain()
    assert NEW in host.starts(), "the provider had done its work"
    assert shown(host) == before
    assert host.machine.path(f"{UNIT}.d/99-new.conf.failed").exists()
    assert host.running() == OLD
    assert host.machine.run("systemctl", "--failed", "--plain", "--no-legend") == ""


def test_the_program_is_the_one_that_the_unit_starts_and_finds_its_report_at_each_start(edge: Make) -> None:
    """In /usr/bin, as some distributions have it. What a real EdgeCore would read when it connects is read here just
    before it runs, and taken away."""
    host = edge(standin(NEW, Variant.CRASHING), agent=True)
    host.machine.run("systemctl", "stop", "beehive-edge", "edgecore")
    host.machine.run("mv", "/usr/local/bin/edgecore", "/usr/bin/edgecore")
    host.machine.run("sed", "-i", "s,/usr/local/bin/edgecore,/usr/bin/edgecore,", UNIT)
    report, seen = "/etc/kubeedge/upgrade_report.json", "/var/lib/kubeedge/reports"
    script = f"cat {report} >> {seen} 2>/dev/null; echo >> {seen}; rm -f {report}"
    drop_in(host, "50-reports.conf", f"[Service]\nExecStartPre=/bin/sh -c '{script}'\n")
    host.machine.run("systemctl", "start", "edgecore")
    done = host.machine.say("/usr/local/bin/keadm", "upgrade", "edge", "--force", "--toVersion", NEW, timeout=90)
    assert done.returncode == 1, done.stderr + host.explain()
    assert "nil pointer" in done.stderr
    assert digest_of(host.machine.path("/usr/bin/edgecore")) == digest_of(standin(OLD))
    assert not host.machine.path("/usr/local/bin/edgecore").exists()
    assert host.running() == OLD
    first, second, third = [json.loads(line or "{}") for line in host.machine.path(seen).read_text().splitlines()]
    assert (first, second["event"], second["success"]) == ({}, "Upgrade", True)
    assert (third["event"], third["success"], third["toVersion"]) == ("Rollback", True, OLD)
    assert not host.machine.path(report).exists()
