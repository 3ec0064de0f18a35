"""The embedded API server as a process: its start, its address, its end."""

import json
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import trustme
import yaml

from modules.demo.apiserver.__main__ import main
from modules.demo.apiserver.server import Config
from tests.contracts.rollout import CRD, ROLLOUTS
from tests.modules.demo.embedded import TOKEN, embedded, subprocess_server


def test_it_ends_with_its_standard_input_though_watches_are_open(tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(headers=headers, timeout=10) as client:
        with subprocess_server(tmp_path, CRD) as address:
            stream = client.stream("GET", f"{address}{ROLLOUTS}", params={"watch": "true"})
            answer = stream.__enter__()
            began = time.monotonic()
        assert time.monotonic() - began < 3
        assert list(answer.iter_lines()) == []
        stream.__exit__(None, None, None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_well_at_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "crd.json").write_text(json.dumps(CRD))
    command = [sys.executable, "-m", "modules.demo.apiserver", f"--crd={tmp_path / 'crd.json'}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (0, "", "")


def test_the_crd_may_be_yaml_with_several_documents(tmp_path: Path) -> None:
    other = json.loads(json.dumps(CRD).replace("rollout", "rolldown").replace("Rollout", "Rolldown"))
    (tmp_path / "crd.yaml").write_text(f"---\n{yaml.safe_dump(CRD)}---\n{yaml.safe_dump(other)}---\n")
    command = [sys.executable, "-m", "modules.demo.apiserver", f"--crd={tmp_path / 'crd.yaml'}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        for path in (ROLLOUTS, ROLLOUTS.replace("rollout", "rolldown")):
            assert httpx.get(address + path).status_code == 200, path
        process.terminate()
        process.communicate(timeout=10)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "not YAML or JSON: line 1: "),
        ("- 1\n", "not a CustomResourceDefinition: "),
        ("", "not a CustomResourceDefinition: it is empty"),
        ("kind: ConfigMap\n", "not a CustomResourceDefinition: its kind is ConfigMap"),
        ("kind: CustomResourceDefinition\n", "not a CustomResourceDefinition: "),
    ],
)
def test_a_file_that_is_no_crd_is_named(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "crd.yaml"
    file.write_text(text)
    assert main([f"--crd={file}"]) == 78
    said = capsys.readouterr().err
    assert said.startswith(f"The embedded API server cannot start: {file}: {why}")
    assert said.count("\n") == 1


def test_over_tls_with_a_token(tmp_path: Path) -> None:
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "serving.pem"))
    serving = str(tmp_path / "serving.pem")
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    with embedded(Config(crds=[CRD], token=TOKEN, certificate=serving, key=serving)) as running:
        address = running.server.address
        assert address.startswith("https://127.0.0.1:")
        for given, code in ((f"Bearer {TOKEN}", 200), (f"Bearer {TOKEN}x", 401), ("", 401), (f"Basic {TOKEN}", 401)):
            answer = httpx.get(f"{address}{ROLLOUTS}", headers={"Authorization": given}, verify=trust)
            assert answer.status_code == code, given
        assert httpx.get(f"{address}/readyz", verify=trust).status_code == 200


def test_a_taken_port_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "crd.json").write_text(json.dumps(CRD))
    with embedded(Config(crds=[CRD])) as running:
        port = running.server.address.rpartition(":")[2]
        assert main([f"--crd={tmp_path / 'crd.json'}", f"--port={port}"]) == 70
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"The embedded API server cannot listen on 127.0.0.1:{port}: Address already in use.\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "No such file or directory"),
        ("{", "crd.json: not YAML or JSON: line 1"),
        (json.dumps({**CRD, "spec": {**CRD["spec"], "versions": []}}), "no version that is stored"),
        (json.dumps(CRD).replace("self == oldSelf", "self.frobnicate()"), "frobnicate"),
        (json.dumps(CRD).replace(".status.phase", ".status..phase"), "JSONPath"),
    ],
)
def test_a_crd_that_cannot_be_served_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, told: str
) -> None:
    path = tmp_path / "crd.json"
    if text is not None:
        path.write_text(text)
    assert main([f"--crd={path}"]) == 78
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("The embedded API server cannot start: ")
    assert told in said.err
    assert len(said.err.splitlines()) == 1


def test_hostile_bodies_get_an_answer() -> None:
    deep = b'{"apiVersion":"contract.test/v1","kind":"Rollout","spec":{"nested":{"free":%s}}}'
    bodies = [deep % (b'{"a":' * n + b"1" + b"}" * n) for n in (300, 900, 5000, 100_000)]
    bodies += [b'{"kind":"Rollout","apiVersion":"contract.test/v1","metadata":"text"}']
    bodies += [b'{"kind":"Other","apiVersion":"contract.test/v1","metadata":[1]}', b"\xff\xfe", b'{"a":"\\ud800"}']
    with embedded(Config(crds=[CRD])) as running, httpx.Client(base_url=running.server.address) as client:
        for body in bodies:
            answer = client.post(ROLLOUTS, content=body, headers={"Content-Type": "application/json"})
            assert 400 <= answer.status_code < 500, (body[:60], answer.text)
        assert client.get(ROLLOUTS).json()["items"] == []
