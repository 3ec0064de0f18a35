"""kube-apiserver keeps the contract that the embedded API server is held to."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import httpx
import pytest

from beehive.api.crd import crd
from tests.contracts.api import BUILT_IN, Api, Forget
from tests.contracts.kubernetes import KubernetesContract
from tests.contracts.kubernetes_jobs import JOBS
from tests.contracts.rollout import CRD, ROLLOUTS
from tests.real.running.apiserver import ApiServer, remove_folder
from tests.real.running.processes import wait_until


@pytest.fixture(scope="module")
def real(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A kube-apiserver of this module alone, for it is made to forget; with the contract's CRD."""
    folder = tmp_path_factory.mktemp("contract-apiserver")
    server = ApiServer.started(folder)
    installed(server, CRD)
    installed(server, crd())
    yield server
    server.remove()
    remove_folder(folder)


@pytest.fixture(scope="module")
def _client(real: ApiServer) -> Iterator[Api]:
    headers = {"Authorization": f"Bearer {real.admin_token}"}
    with httpx.Client(base_url=real.url, headers=headers, timeout=10, verify=real.tls()) as client:
        yield Api(client, real.tls())


@pytest.fixture
def api(_client: Api) -> Iterator[Api]:
    """A client of it that tidies up."""
    yield _client
    _client.tidy()


@pytest.fixture
def forget(real: ApiServer) -> Forget:
    """Compact the store, restart, and wait until every kind is served again."""

    def forgotten() -> None:
        real.forget_history()
        for path in (ROLLOUTS, JOBS, *BUILT_IN):
            wait_until(partial(_served, real, path), 20, f"{path} is served again")

    return forgotten


def installed(server: ApiServer, crd: Mapping[str, Any]) -> None:
    """Install a CRD whose first version is stored, and wait until it and its schema are served."""
    assert server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).status == 201
    spec = crd["spec"]
    prefix = f"apis/{spec['group']}/{spec['versions'][0]['name']}"
    wait_until(partial(_served, server, f"/{prefix}/{spec['names']['plural']}"), 20, "the CRD is served")
    wait_until(lambda: prefix.encode() in server.request("GET", "/openapi/v3").body, 20, "its schema is published")


def _served(server: ApiServer, path: str) -> bool:
    return server.request("GET", path).status == 200


class TestKubeApiserver(KubernetesContract):
    """The real one."""
