"""No token and no key gets into a log, a status, an Event or an answer, also at level debug."""

import base64
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from modules.demo.children import COMMAND, command, wait_until
from modules.demo.cluster import NAMESPACE, Cluster, running
from modules.demo.scene import Stage
from modules.demo.scenes import SCENES
from tests.real.running.spilled import secrets, spilled


def test_a_secret_in_a_log_would_be_found(tmp_path: Path) -> None:
    token = "sha256-of-a-ca.eyJhbGciOiJIUzI1NiJ9.eyJqdGkiOiIxMjM0NTYifQ.c2lnbmF0dXJlLW9mLWl0"
    (tmp_path / "join.token").write_text(f"{token}\n")
    (tmp_path / "a.key").write_text(
        "-----BEGIN EC PRIVATE KEY-----\nAAAA\nMIddleOfTheKeyMIddleOfTheKey\nBBBB\n-----END"
    )
    (tmp_path / "kubeconfig").write_text(json.dumps({"users": [{"user": {"token": "abcdefghijklmnopqrstuvwxyz"}}]}))
    assert len(secrets(tmp_path)) == 4
    for word in (token, token.partition(".")[2], "MIddleOfTheKeyMIddleOfTheKey", "abcdefghijklmnopqrstuvwxyz"):
        (tmp_path / "cloud.log").write_text(f"INFO a line\nWARN this was said: {word}\n")
        assert spilled(tmp_path) != [], word
    (tmp_path / "cloud.log").write_text("INFO a line\n")
    assert spilled(tmp_path) == []


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Cluster]]:
    """Three hosts were upgraded, all processes at level debug; the cluster still runs."""
    folder = tmp_path_factory.mktemp("logs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEEHIVE_RUNTIME_LOGLEVEL", "debug")
        with running(folder) as cluster:
            stage = Stage(SCENES["rollback"], folder, cluster)
            try:
                stage.set_up()
                assert stage.play(lambda job, seconds: None).wrong() == []
                yield folder, cluster
            finally:
                stage.end()


def api(cluster: Cluster, path: str) -> Any:
    headers = {"Authorization": f"Bearer {cluster.token}"}
    answer = httpx.get(
        cluster.url + path,
        headers=headers,
        verify=ssl.create_default_context(cafile=cluster.ca),
        timeout=10,
        trust_env=False,
    )
    answer.raise_for_status()
    return answer.json()


def test_no_log_of_cloud_or_host_holds_a_token_or_a_key(played: tuple[Path, Cluster]) -> None:
    folder, cluster = played
    kept = api(cluster, f"/api/v1/namespaces/{NAMESPACE}/secrets")["items"]
    held = {key: base64.b64decode(value) for item in kept for key, value in item["data"].items()}
    assert len(held) >= 4, "the CA, the hub's key, the tokens' key"
    logs = {path: path.read_bytes() for path in folder.rglob("*.log")}
    assert len(logs) >= 5
    assert any(b"node upgraded" in text for text in logs.values()), "they are the logs of this upgrade"
    assert len(secrets(folder)) >= 5, "the API's token, the join token, the hosts' and the server's keys"
    assert spilled(folder) == []
    for name, value in held.items():
        for form in (value, base64.b64encode(value), value.hex().encode()):
            assert [str(path) for path, text in logs.items() if len(form) > 20 and form in text] == [], name


def test_no_status_event_or_answer_holds_one(played: tuple[Path, Cluster]) -> None:
    folder, cluster = played
    config = str(cluster.cloud.config)
    told = [
        json.dumps(api(cluster, "/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs")),
        json.dumps(api(cluster, "/api/v1/nodes")), json.dumps(api(cluster, "/api/v1/events")),
        cluster.cloud.readyz(), command("config", "show", "--config", config),
        command("token", "list", "--config", config),
        command("job", "describe", "demo", "--all", "--kubeconfig", str(folder / "kubeconfig")),
        httpx.get(f"http://{(folder / 'cloud/data/admin.address').read_text().strip()}/metrics", trust_env=False).text,
    ]  # fmt: skip
    assert all(told)
    for word, path in secrets(folder).items():
        assert [text[:80] for text in told if word.decode() in text] == [], path


def test_a_wrong_token_is_refused_without_being_repeated(played: tuple[Path, Cluster], tmp_path: Path) -> None:
    folder, cluster = played
    wrong = (folder / "join.token").read_text().strip()[:-6] + "AAAAAA"
    (tmp_path / "wrong.token").write_text(wrong)
    url = f"https://127.0.0.1:{cluster.cloud.https_port}"
    words = ("edge", "join", "--cloud", url, "--node", "edge-9", "--token-file", str(tmp_path / "wrong.token"))
    config = tmp_path / "edge.yaml"
    config.write_text(json.dumps({"edgehub": {"identity": str(tmp_path / "pki")}}))
    done = subprocess.run(
        (*COMMAND, *words, "--config", str(config)), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    log = folder / "cloud" / "cloud.log"
    wait_until(log.exists, 5, "the cloud's log")
    for said in (done.stdout, done.stderr, log.read_text()):
        assert wrong not in said
        assert wrong.rpartition(".")[2] not in said
