"""Is the service up, with the right program, and does it stay up? (product.md 6.2; spec/kubeedge.md K1)"""

import time

from beehive.api.version import same
from beehive.errors import Refused, Unavailable
from modules.upgrader.host.host import Host
from modules.upgrader.host.service import Status, ended
from modules.upgrader.sentences import with_last_words

_POLL = 0.05
_LINES = 20


def verify(host: Host, version: str) -> None:
    """Return when the service has run `version` for the soak time without a restart; else Refused with the reason."""
    first = _until_active(host, version)
    try:
        running = host.running(first)
    except Refused:
        _check(host, version, first)  # if it ended meanwhile, that is the better reason
        raise
    if not same(running, version):
        raise Refused(f"{host.service.name} runs {running}, not {version}")
    end = time.monotonic() + host.config.soak
    while time.monotonic() < end:
        time.sleep(min(_POLL, host.config.soak))
        _check(host, version, first)
    last = host.services.status(host.service)
    if not host.runs_installed(last):
        raise Refused(f"{host.service.name} does not run the program at {host.layout.executable}")
    if host.layout.control:  # one that hangs by now is no good version
        host.running(last)


def _until_active(host: Host, version: str) -> Status:
    deadline = time.monotonic() + host.config.start_timeout
    while True:
        status = host.services.status(host.service)
        if status.active and status.pid and not status.restarts:
            return status
        ended_by_itself = not status.pid and (status.exit_code is not None or status.signal)
        if not status.active or status.restarts or ended_by_itself:
            raise _gone(host, version, status)
        if time.monotonic() > deadline:
            raise Refused(f"{version} was not up within {host.config.start_timeout:g} s")
        time.sleep(_POLL)


def _check(host: Host, version: str, first: Status) -> None:
    status = host.services.status(host.service)
    if not status.active or status.pid != first.pid or status.restarts != first.restarts:
        raise _gone(host, version, status)


def _gone(host: Host, version: str, status: Status) -> Refused:
    try:
        log = host.services.log_tail(host.service, _LINES)
    except Unavailable:
        log = []
    what = f"was started again {status.restarts} times" if status.restarts else ended(status)
    return Refused(with_last_words(f"{version} {what}", log))
