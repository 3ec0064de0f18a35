"""kube-apiserver keeps the contract that the embedded API server is held to."""

from collections.abc import Iterator

import httpx
import pytest

from tests.contracts.api import BUILT_IN, Api, Forget
from tests.contracts.kubernetes import KubernetesContract
from tests.contracts.rollout import CRD, ROLLOUTS
from tests.real.running.apiserver import ApiServer, remove_folder
from tests.real.running.processes import wait_until


@pytest.fixture(scope="module")
def real(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A kube-apiserver of this module alone, for it is made to forget; with the contract's CRD."""
    folder = tmp_path_factory.mktemp("contract-apiserver")
    server = ApiServer.started(folder)
    server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    wait_until(lambda: server.request("GET", ROLLOUTS).status == 200, 20, "the contract's CRD is served")
    wait_until(
        lambda: b"apis/contract.test/v1" in server.request("GET", "/openapi/v3").body, 20, "its schema is published"
    )
    yield server
    server.remove()
    remove_folder(folder)


@pytest.fixture
def api(real: ApiServer) -> Iterator[Api]:
    """A client of it that tidies up."""
    headers = {"Authorization": f"Bearer {real.admin_token}"}
    with httpx.Client(base_url=real.url, headers=headers, timeout=10, verify=real.tls()) as client:
        made = Api(client, real.tls())
        yield made
        made.tidy()


@pytest.fixture
def forget(real: ApiServer) -> Forget:
    """Compact the store, restart, and wait until every kind is served again."""

    def forgotten() -> None:
        real.forget_history()
        for path in (ROLLOUTS, *BUILT_IN):
            wait_until(lambda path=path: real.request("GET", path).status == 200, 20, f"{path} is served again")

    return forgotten


class TestKubeApiserver(KubernetesContract):
    """The real one."""
