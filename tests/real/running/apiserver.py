"""Real kube-apiserver on a real etcd, with RBAC, and kubectl for it."""

import json
import re
import secrets
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real.running.build import KUBE_APISERVER, KUBECTL
from tests.real.running.keys import serving_certificate, signing_key
from tests.real.running.processes import Daemon, with_free_ports
from tests.real.running.store import Etcd

_FLAGS = (
    "--bind-address=127.0.0.1",
    "--authorization-mode=RBAC",
    "--service-cluster-ip-range=10.0.0.0/24",
    "--service-account-issuer=https://kubernetes.default.svc",
    "--disable-admission-plugins=ServiceAccount",
    "--endpoint-reconciler-type=none",
    "--allow-privileged=true",
)


class KubectlError(AssertionError):
    """kubectl ended with an error; the text is its own."""


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


class ApiServer:
    """A kube-apiserver and its store.

    ``url``, ``ca_file`` and ``admin_token`` (group system:masters) reach it; ``kubeconfig`` is a file for the admin.
    No controller runs: namespaces and owned objects are not cleaned up, no ServiceAccount appears by itself.
    ``process`` pauses, resumes, stops and kills it; ``start`` starts it again.
    """

    def __init__(self, folder: Path, etcd: Etcd, port: int) -> None:
        self.etcd = etcd
        self.url = f"https://127.0.0.1:{port}"
        self.admin_token = secrets.token_hex(16)
        self._folder = folder
        self.ca_file, serving = folder / "ca.crt", serving_certificate(folder)
        tokens = folder / "tokens.csv"
        tokens.write_text(f'{self.admin_token},admin,admin,"system:masters"\n')
        key = signing_key(folder)
        argv: list[str | Path] = [
            KUBE_APISERVER.path(),
            *_FLAGS,
            f"--etcd-servers={etcd.url}",
            f"--secure-port={port}",
            f"--cert-dir={folder}",
        ]
        argv += [
            *serving,
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={tokens}",
        ]
        self.process = Daemon("kube-apiserver", argv, folder)
        self.kubeconfig = self.kubeconfig_for(self.admin_token, "admin")

    @classmethod
    def started(cls, folder: Path) -> "ApiServer":
        """A new API server on a new empty etcd, ready and with its default namespace."""
        etcd = Etcd.started(folder)

        def start(ports: list[int]) -> ApiServer:
            server = cls(folder, etcd, ports[0])
            server.start()
            return server

        try:
            return with_free_ports(start, 1)
        except BaseException:
            etcd.remove()
            raise

    def start(self) -> None:
        """Starts it, also again after ``process.stop()``, on the same port with the same objects."""
        self.process.start(self._ready)

    def forget_history(self) -> None:
        """Compacts the store and restarts the server: every resource version from before is answered with 410."""
        version = self.request("GET", "/api/v1/namespaces").json()["metadata"]["resourceVersion"]
        self.etcd.ctl("compact", version)
        self.process.stop(2)
        self.start()

    def _ready(self) -> bool:
        return all(self.request("GET", path).status == 200 for path in ("/readyz", "/api/v1/namespaces/default"))

    def remove(self) -> None:
        """Ends it and its store and deletes their data."""
        self.process.stop(2)
        self.etcd.remove()

    def request(
        self, method: str, path: str, body: object = None, *, token: str | None = None, kind: str = "application/json"
    ) -> Answer:
        """One HTTP request, the admin's unless ``token`` is given; ``kind`` is the content type. No status raises."""
        headers = {
            "Authorization": f"Bearer {token or self.admin_token}",
            "Content-Type": kind,
            "Accept": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.tls()) as answer:
                return Answer(answer.status, answer.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Answer(refusal.code, refusal.read())

    def tls(self) -> ssl.SSLContext:
        """A context that trusts this server alone."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def kubectl(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """What kubectl prints on stdout, run by the admin or by ``kubeconfig``; ``KubectlError`` with its stderr."""
        done = self.kubectl_result(*arguments, stdin=stdin, kubeconfig=kubeconfig)
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def kubectl_result(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """As ``kubectl``, with exit code, stdout and stderr for tests of refusals.

        ``kubectl wait`` fails at once on an object whose status has no conditions yet, as a CRD's in its first moment;
        it is asked again then.
        """
        end = time.monotonic() + 15
        while True:
            done = self._kubectl(*arguments, stdin=stdin, kubeconfig=kubeconfig)
            if "conditions accessor error" not in done.stderr or time.monotonic() > end:
                return done
            time.sleep(0.1)

    def _kubectl(self, *arguments: str, stdin: str | None, kubeconfig: Path | None) -> subprocess.CompletedProcess[str]:
        environment = {
            "HOME": str(self._folder),
            "PATH": "/usr/bin:/bin",
            "KUBECONFIG": str(kubeconfig or self.kubeconfig),
        }
        return subprocess.run(
            [KUBECTL.path(), *arguments],
            input=stdin or "",
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=90,
        )

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Applies objects by ``kubectl apply``, as the admin."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def kubeconfig_for(self, token: str, name: str) -> Path:
        """A kubeconfig file (JSON, which is YAML) for the holder of ``token``."""
        path = self._folder / f"{name}.kubeconfig"
        context = {"name": "test", "context": {"cluster": "test", "user": name}}
        cluster = {"name": "test", "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}}
        user = {"name": name, "user": {"token": token}}
        head = {"apiVersion": "v1", "kind": "Config", "current-context": "test"}
        path.write_text(json.dumps({**head, "clusters": [cluster], "contexts": [context], "users": [user]}))
        path.chmod(0o600)
        return path

    def service_account_token(self, name: str, namespace: str, *manifests: Path, seconds: int = 3600) -> str:
        """A token of a ServiceAccount, by the TokenRequest API.

        ``manifests`` (the shipped RBAC objects) are applied first; the namespace and the ServiceAccount are made if
        they don't contain them. The account may do what the manifests bind to it, and nothing else.
        """
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for manifest in manifests:
            self.kubectl("apply", "-f", str(manifest))
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
        return self.kubectl("create", "token", name, "-n", namespace, f"--duration={seconds}s").strip()

    def requests_total(self, **labels: str) -> int:
        """How many requests the server has answered, by its own count.

        ``labels`` are those of the metric: ``verb="PATCH", resource="nodes", subresource="status"``.
        """
        total = 0.0
        for line in self.request("GET", "/metrics").body.decode().splitlines():
            found = re.fullmatch(r"apiserver_request_total\{(.*)\} (\S+)", line)
            if found and all(f'{key}="{value}"' in found[1] for key, value in labels.items()):
                total += float(found[2])
        return int(total)


def remove_folder(folder: Path) -> None:
    """Deletes what a server left in its folder but its logs."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.suffix != ".log":
            path.unlink()
