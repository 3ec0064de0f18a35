"""Real servers for tests, started when the first test asks for one and ended with the session or the test.

===================  =======  ====================================================================================
fixture              lives    what it is
===================  =======  ====================================================================================
``apiserver``        session  ``running.apiserver.ApiServer``: kube-apiserver with RBAC on its own etcd, shared: give
                              your objects names of your own, delete what has no namespace
``own_apiserver``    test     another one (2 s), to pause, stop, restart or fill
``etcd_cluster``     test     ``running.etcd.EtcdCluster``: three members with mutual TLS (1 s)
``registry``         session  ``running.registry.Registry``: docker-registry over plain HTTP
``secure_registry``  session  the same with TLS and basic authentication
``standin``          session  the function ``running.standins.standin``: builds an upgradable program, good or bad
===================  =======  ====================================================================================

A test that starts processes by itself uses ``running.processes.Daemon``, or at least keeps the environment variable
``BEEHIVE_TEST_SESSION`` in theirs: by it the check at the end of the session finds what was left.
"""

import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.running import leftovers, standins
from tests.real.running.apiserver import ApiServer, remove_folder
from tests.real.running.build import PROGRAMS
from tests.real.running.etcd import EtcdCluster
from tests.real.running.processes import PORTS
from tests.real.running.registry import Registry
from tests.real.running.spilled import spilled


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Here servers are killed under open connections.

    What the garbage collector says of such a socket falls on whatever test runs at that moment, so it is no error of
    that test; processes, ports and files are looked at in the end.
    """
    for item in items:
        if "tests/real/" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session", autouse=True)
def _nothing_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the session if a process, a port or a temporary file of ours outlives it."""
    tmp_path_factory.getbasetemp()  # pytest's own folders stay where they are
    mark = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        temporary = Path(tempfile.mkdtemp(prefix="beehive-"))
        patch.setenv(leftovers.MARK, mark)
        patch.setenv("TMPDIR", str(temporary))
        patch.setattr(tempfile, "tempdir", str(temporary))
        yield
        left = leftovers.found(mark, PORTS, temporary, patience=3)
    if not left:
        temporary.rmdir()
    assert not left, "the tests left something behind:\n  " + "\n  ".join(left)


@pytest.fixture(scope="session", autouse=True)
def _nothing_spilled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the session if a token or a private key of its tests stands in a log that it left."""
    yield
    told = spilled(tmp_path_factory.getbasetemp())
    assert not told, "a secret got into a log:\n  " + "\n  ".join(told)


@pytest.fixture(scope="session")
def _programs() -> None:
    missing = [program.name for program in PROGRAMS if not program.path().exists()]
    if missing:
        pytest.fail(f"{', '.join(missing)} not built: run `make servers` (or `make test`) once on this machine.")


@pytest.fixture(scope="session")
def apiserver(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A kube-apiserver 1.34 with RBAC, shared by the session."""
    yield from _apiserver(tmp_path_factory.mktemp("apiserver"))


@pytest.fixture
def own_apiserver(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A kube-apiserver of this test alone."""
    yield from _apiserver(tmp_path_factory.mktemp("own-apiserver"))


def _apiserver(folder: Path) -> Iterator[ApiServer]:
    server = ApiServer.started(folder)
    yield server
    server.remove()
    remove_folder(folder)


@pytest.fixture
def etcd_cluster(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """Three etcd members with mutual TLS, of this test alone."""
    cluster = EtcdCluster.started(tmp_path_factory.mktemp("etcd") / "cluster")
    yield cluster
    cluster.remove()


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """An image registry over plain HTTP, shared by the session."""
    server = Registry.started(tmp_path_factory.mktemp("registry"))
    yield server
    server.remove()


@pytest.fixture(scope="session")
def secure_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """An image registry with TLS and basic authentication, shared by the session."""
    server = Registry.started(tmp_path_factory.mktemp("secure-registry"), secure=True)
    yield server
    server.remove()


@pytest.fixture(scope="session")
def standin() -> Callable[..., Path]:
    """Builds a program to be upgraded: ``standin("v1.23.0", Variant.CRASHING)``."""
    return standins.standin
