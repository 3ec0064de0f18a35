"""A running Beehive is asked itself: a hang, a stranger, an answer of yesterday are noticed."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from beehive.config import Duration
from beehive.errors import Refused
from beehive.local import listen
from modules.upgrader.config import Config, Target
from modules.upgrader.host.asking import version_by_word
from modules.upgrader.host.host import Host
from modules.upgrader.host.service import Service, Status
from modules.upgrader.tool.verify import verify

Answerer = Callable[[dict[str, str]], bytes]


def honest(question: dict[str, str]) -> bytes:
    return json.dumps({"version": "0.2.0", "nonce": question["nonce"]}).encode() + b"\n"


class Speaking:
    """A process that answers at a place: this one."""

    def __init__(self, place: Path, how: Answerer, answers: int = 10**6) -> None:
        self._socket = listen(place)
        self._socket.setblocking(True)
        self._how, self._left = how, answers
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self._socket.accept()
            except OSError:
                return
            with one:
                question = json.loads(one.makefile().readline() or "{}")
                if self._left > 0 and question:
                    self._left -= 1
                    one.sendall(self._how(question))

    def end(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


@pytest.fixture
def speaking(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    made: list[Speaking] = []

    def make(how: Answerer = honest, **more: int) -> Path:
        made.append(Speaking(tmp_path / "control.sock", how, **more))
        return tmp_path / "control.sock"

    yield make
    for one in made:
        one.end()


def test_its_own_word_with_the_nonce_is_believed(speaking: Callable[..., Path]) -> None:
    assert version_by_word(speaking(), os.getpid(), 5) == "v0.2.0"


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (lambda _: b'{"version": "0.2.0", "nonce": "of yesterday"}\n', "does not answer what it is asked"),
        (lambda _: b"garbage\n", "does not answer what it is asked"),
        (lambda question: json.dumps({"nonce": question["nonce"]}).encode() + b"\n", "names no version"),
        (lambda _: b"", "gave no whole answer"),
        (lambda _: b"x" * 300_000, "gave no whole answer"),
    ],
)
def test_what_is_no_answer_is_refused(speaking: Callable[..., Path], how: Answerer, why: str) -> None:
    with pytest.raises(Refused, match=why):
        version_by_word(speaking(how), os.getpid(), 0.3)


def test_another_process_is_not_believed_whatever_it_says(speaking: Callable[..., Path]) -> None:
    with pytest.raises(Refused, match=f"pid {os.getpid()} answers at .*, not the service's own pid 4711"):
        version_by_word(speaking(), 4711, 5)


def test_it_is_given_time_to_open_its_socket_and_no_more(tmp_path: Path) -> None:
    place = tmp_path / "control.sock"
    began = time.monotonic()
    with pytest.raises(Refused, match="nobody answers"):
        version_by_word(place, os.getpid(), 0.3)
    assert time.monotonic() - began < 3
    late = threading.Timer(0.3, lambda: made.append(Speaking(place, honest)))
    made: list[Speaking] = []
    late.start()
    try:
        assert version_by_word(place, os.getpid(), 20) == "v0.2.0"
    finally:
        late.join()
        made[0].end()


# ---- in the verification -----------------------------------------------------------------------------------------


class Up:
    """A service manager whose one service is this process."""

    def status(self, service: Service) -> Status:
        del service
        return Status(active=True, pid=os.getpid())


def host(tmp_path: Path) -> Host:
    target = Target(executable=str(Path("/proc/self/exe").resolve()), control="/control.sock")
    config = Config(target=target, soak=Duration(0.2), start_timeout=Duration(0.5), version_timeout=Duration(0.5))
    made = Host(config, services=Up())  # type: ignore[arg-type]
    made.layout.control = tmp_path / "control.sock"
    return made


def test_a_new_version_is_good_when_it_says_so_at_the_beginning_and_at_the_end(
    tmp_path: Path, speaking: Callable[..., Path]
) -> None:
    speaking()
    verify(host(tmp_path), "v0.2.0")
    with pytest.raises(Refused, match=r"runs v0\.2\.0, not v0\.3\.0"):
        verify(host(tmp_path), "v0.3.0")


def test_one_that_hangs_in_the_soak_is_not_good(tmp_path: Path, speaking: Callable[..., Path]) -> None:
    speaking(answers=1)
    with pytest.raises(Refused, match="gave no whole answer"):
        verify(host(tmp_path), "v0.2.0")


def test_one_that_never_opens_its_socket_is_not_good(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="nobody answers"):
        verify(host(tmp_path), "v0.2.0")


def test_a_target_without_a_socket_is_asked_as_before() -> None:
    assert Host(msgspec.structs.replace(Config(), service_manager="process")).layout.control is None
