"""kubectl finds in the embedded API server what it finds in kube-apiserver."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import trustme

from tests.contracts.api import Api
from tests.contracts.kubernetes_kubectl import Kubectl, KubectlContract
from tests.contracts.rollout import CRD
from tests.modules.demo.embedded import TOKEN, subprocess_server
from tests.real.running.apiserver import ApiServer, remove_folder
from tests.real.running.build import KUBECTL
from tests.real.test_contract_kubernetes import installed


@dataclass(frozen=True)
class Served:
    """A running server, whichever it is."""

    url: str
    token: str
    tls: ssl.SSLContext
    kubeconfig: Path


@contextmanager
def _kube_apiserver(folder: Path) -> Iterator[Served]:
    server = ApiServer.started(folder)
    try:
        installed(server, CRD)
        yield Served(server.url, server.admin_token, server.tls(), server.kubeconfig)
    finally:
        server.remove()
        remove_folder(folder)


@contextmanager
def _embedded(folder: Path) -> Iterator[Served]:
    """Over TLS, for kubectl sends no token over plain HTTP."""
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / "serving.pem"))
    serving = folder / "serving.pem"
    with subprocess_server(folder, CRD, f"--certificate={serving}", f"--key={serving}") as address:
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        yield Served(address, TOKEN, tls, _kubeconfig(folder, address))


def _kubeconfig(folder: Path, address: str) -> Path:
    cluster = {"server": address, "certificate-authority": str(folder / "ca.crt")}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "embedded",
        "clusters": [{"name": "embedded", "cluster": cluster}],
        "users": [{"name": "embedded", "user": {"token": TOKEN}}],
        "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "embedded"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(kubeconfig))
    return path


@pytest.fixture(scope="module", params=[_kube_apiserver, _embedded], ids=["kube-apiserver", "embedded"])
def served(
    request: pytest.FixtureRequest, _programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Either server."""
    with request.param(tmp_path_factory.mktemp("kubectl")) as running:
        yield running


@pytest.fixture
def api(served: Served) -> Iterator[Api]:
    """A client of the server, beside kubectl."""
    headers = {"Authorization": f"Bearer {served.token}"}
    with httpx.Client(base_url=served.url, headers=headers, timeout=10, verify=served.tls) as client:
        made = Api(client, served.tls)
        yield made
        made.tidy()


@pytest.fixture
def kubectl(served: Served, tmp_path: Path) -> Kubectl:
    """The kubectl of the servers' version."""
    return Kubectl(KUBECTL.path(), served.kubeconfig, tmp_path)


class TestKubectl(KubectlContract):
    """On both."""
