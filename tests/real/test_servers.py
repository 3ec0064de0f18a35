"""The real servers of the test set-up are what the other tests take them for."""

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.real.running.apiserver import ApiServer, KubectlError
from tests.real.running.etcd import EtcdCluster
from tests.real.running.images import OciLayout, installation_package
from tests.real.running.processes import wait_until
from tests.real.running.registry import Registry
from tests.real.running.store import EtcdctlError

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.servers.test"},
    "spec": {
        "group": "servers.test",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer", "maximum": 9, "default": 3}},
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
THINGS = "/apis/servers.test/v1/namespaces/default/things"
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "servers-test"},
    "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "servers-test"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "servers-test"},
    "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "servers-test"}],
}


def thing(name: str, size: int = 3) -> dict[str, object]:
    return {
        "apiVersion": "servers.test/v1",
        "kind": "Thing",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": size},
    }


@pytest.fixture
def things(apiserver: ApiServer) -> ApiServer:
    apiserver.apply(CRD)
    apiserver.kubectl("wait", "--for=condition=Established", "crd/things.servers.test", "--timeout=20s")
    wait_until(lambda: apiserver.request("GET", THINGS).status == 200, 20, "the new resource is served")
    return apiserver


class TestKubeApiserver:
    def test_client_and_server_have_the_version_that_the_lock_names(self, apiserver: ApiServer) -> None:
        versions = json.loads(apiserver.kubectl("version", "-o", "json"))
        assert versions["clientVersion"]["gitVersion"] == versions["serverVersion"]["gitVersion"] == "v1.34.4"

    def test_a_custom_resource_is_stored_defaulted_and_validated(self, things: ApiServer) -> None:
        things.apply({**thing("stored"), "spec": {}})
        assert things.kubectl("get", "thing", "stored", "-o", "jsonpath={.spec.size}") == "3"
        with pytest.raises(KubectlError, match=r"spec\.size"):
            things.apply(thing("too-large", 10))

    def test_the_status_has_its_own_door(self, things: ApiServer) -> None:
        things.apply(thing("status", 1))
        path, kind = f"{THINGS}/status", "application/merge-patch+json"
        assert things.request("PATCH", path, {"status": {"phase": "Init"}}, kind=kind).json().get("status") is None
        changed = things.request(
            "PATCH", f"{path}/status", {"spec": {"size": 2}, "status": {"phase": "Init"}}, kind=kind
        ).json()
        assert (changed["spec"]["size"], changed["status"]["phase"]) == (1, "Init")

    def test_a_watch_tells_what_changes_after_the_list(self, things: ApiServer) -> None:
        version = things.request("GET", THINGS).json()["metadata"]["resourceVersion"]
        request = urllib.request.Request(
            f"{things.url}{THINGS}?watch=true&resourceVersion={version}&timeoutSeconds=20",
            headers={"Authorization": f"Bearer {things.admin_token}"},
        )
        with urllib.request.urlopen(request, timeout=20, context=things.tls()) as stream:
            things.apply(thing("watched"))
            things.kubectl("delete", "thing", "watched")
            events = [json.loads(stream.readline()) for _ in range(2)]
        assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
            ("ADDED", "watched"),
            ("DELETED", "watched"),
        ]

    def test_a_compacted_version_is_gone(self, own_apiserver: ApiServer) -> None:
        watch = "/api/v1/nodes?watch=true&timeoutSeconds=1&resourceVersion=1"
        assert own_apiserver.request("GET", watch).status == 200
        own_apiserver.forget_history()
        answer = own_apiserver.request("GET", watch)
        assert 410 in {answer.status, answer.json()["object"]["code"]}, answer

    def test_a_service_account_may_do_what_its_role_says_and_no_more(
        self, apiserver: ApiServer, tmp_path: Path
    ) -> None:
        role = tmp_path / "role.json"
        role.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [ROLE, BINDING]}))
        token = apiserver.service_account_token("reader", "servers-test", role)
        assert apiserver.request("GET", "/api/v1/nodes", token=token).status == 200
        refused = apiserver.request("DELETE", "/api/v1/nodes/none", token=token)
        assert (refused.status, refused.json()["reason"]) == (403, "Forbidden")
        who = apiserver.kubectl(
            "auth",
            "whoami",
            "-o",
            "jsonpath={.status.userInfo.username}",
            kubeconfig=apiserver.kubeconfig_for(token, "reader"),
        )
        assert who == "system:serviceaccount:servers-test:reader"

    def test_a_stranger_is_refused(self, apiserver: ApiServer) -> None:
        assert apiserver.request("GET", "/api/v1/nodes", token="guessed").status == 401

    def test_it_counts_the_calls(self, things: ApiServer) -> None:
        labels = {"verb": "POST", "resource": "things"}
        before = things.requests_total(**labels)
        for number in range(3):
            assert things.request("POST", THINGS, thing(f"counted-{number}")).status in {201, 409}
        assert things.requests_total(**labels) == before + 3

    def test_it_comes_back_at_its_address_with_its_objects(self, own_apiserver: ApiServer) -> None:
        own_apiserver.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-1"}})
        own_apiserver.process.stop(1)
        with pytest.raises(urllib.error.URLError):
            own_apiserver.request("GET", "/readyz")
        own_apiserver.start()
        assert own_apiserver.kubectl("get", "nodes", "-o", "name") == "node/edge-1\n"


class TestEtcd:
    def test_three_members_name_each_other_and_one_leads(self, etcd_cluster: EtcdCluster) -> None:
        listed = json.loads(etcd_cluster.ctl("member", "list", "-w", "json"))["members"]
        assert sorted(member["name"] for member in listed) == ["server-1", "server-2", "server-3"]
        assert {url for member in listed for url in member["clientURLs"]} == {
            member.client_url for member in etcd_cluster.members
        }
        leaders = {
            json.loads(etcd_cluster.ctl("endpoint", "status", "-w", "json", through=m))[0]["Status"]["leader"]
            for m in etcd_cluster.members
        }
        assert len(leaders) == 1

    def test_only_a_certificate_of_the_cluster_gets_in(self, etcd_cluster: EtcdCluster) -> None:
        nobody = ssl.create_default_context(cafile=str(etcd_cluster.client.ca))
        for context in (nobody, etcd_cluster.stranger.context()):
            with pytest.raises((ssl.SSLError, OSError)):
                _get(f"{etcd_cluster.members[0].client_url}/health", context)
        assert b"true" in _get(f"{etcd_cluster.members[0].client_url}/health", etcd_cluster.client.context())

    def test_a_learner_joins_and_is_listed_as_one(self, etcd_cluster: EtcdCluster) -> None:
        learner = etcd_cluster.add_learner("server-4")
        wait_until(lambda: _started_learner(etcd_cluster, learner.name), 20, "server-4 is a started learner")
        assert len(json.loads(etcd_cluster.ctl("member", "list", "-w", "json"))["members"]) == 4

    def test_two_of_three_go_on_and_the_third_comes_back(self, etcd_cluster: EtcdCluster) -> None:
        leader = etcd_cluster.leader()
        assert leader is not None
        leader.process.kill()
        new = wait_until(etcd_cluster.leader, 20, "another member leads")
        assert new is not leader
        etcd_cluster.ctl("put", "key", "written by two", through=new)
        etcd_cluster.start(leader)
        assert etcd_cluster.ctl("get", "key", "--print-value-only", through=leader).strip() == "written by two"

    def test_a_paused_member_is_silent_but_connected(self, etcd_cluster: EtcdCluster) -> None:
        third = etcd_cluster.members[2]
        third.process.pause()
        with pytest.raises(EtcdctlError, match="deadline exceeded"):
            etcd_cluster.ctl("get", "key", "--command-timeout=1s", through=third)
        third.process.resume()
        etcd_cluster.wait_healthy(third)

    def test_a_member_has_a_certificate_of_its_own(self, etcd_cluster: EtcdCluster) -> None:
        other = etcd_cluster.issue("another")
        assert b"true" in _get(f"{etcd_cluster.members[1].client_url}/health", other.context())


def _get(url: str, context: ssl.SSLContext) -> bytes:
    with urllib.request.urlopen(url, timeout=5, context=context) as answer:
        return bytes(answer.read())


def _started_learner(cluster: EtcdCluster, name: str) -> bool:
    members = json.loads(cluster.ctl("member", "list", "-w", "json"))["members"]
    return any(member.get("name") == name and member.get("isLearner") for member in members)


class TestRegistry:
    def test_an_image_comes_back_as_it_was_pushed(self, registry: Registry, tmp_path: Path) -> None:
        digest = registry.push("servers/installation-package", "v1.23.0", installation_package(b"edgecore", b"keadm"))
        assert (
            registry.skopeo("inspect", "--tls-verify=false", "--format={{.Digest}}", _place(registry)).strip() == digest
        )
        registry.pull("servers/installation-package", "v1.23.0", tmp_path / "pulled")
        assert (tmp_path / "pulled" / "blobs" / "sha256" / digest.removeprefix("sha256:")).exists()

    def test_the_same_layers_make_the_same_digest(self, tmp_path: Path) -> None:
        one, two = (OciLayout(tmp_path / name).add("v1", installation_package(b"edgecore")) for name in ("one", "two"))
        assert one == two

    def test_an_index_of_two_architectures_is_kept_whole(self, registry: Registry, tmp_path: Path) -> None:
        layout = OciLayout(tmp_path)
        digest = layout.add_index("v2", {name: installation_package(name.encode()) for name in ("amd64", "arm64")})
        registry.push_layout(layout, "servers/index", "v2")
        raw = json.loads(
            registry.skopeo("inspect", "--raw", "--tls-verify=false", f"docker://{registry.address}/servers/index:v2")
        )
        assert [entry["platform"]["architecture"] for entry in raw["manifests"]] == ["amd64", "arm64"]
        assert json.loads(layout.blob_path(digest).read_bytes()) == raw

    def test_the_secure_one_wants_name_password_and_its_ca(self, secure_registry: Registry) -> None:
        secure_registry.push("servers/secret", "v1", installation_package(b"edgecore"))
        url = f"https://{secure_registry.address}/v2/servers/secret/manifests/v1"
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            _get(url, ssl.create_default_context(cafile=str(secure_registry.ca_file)))
        refused.value.close()
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            _get(url, ssl.create_default_context())


def _place(registry: Registry) -> str:
    return f"docker://{registry.address}/servers/installation-package:v1.23.0"
