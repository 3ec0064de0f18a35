"""The Prometheus operator's CustomResourceDefinitions, as its Go module publishes them."""

import json
import subprocess
from pathlib import Path

from tests.real.running.build import SERVERS
from tests.real.running.go import find_go, go_environment, install_go

_MODULE = "github.com/prometheus-operator/prometheus-operator"
_FOLDER = "example/prometheus-operator-crd"


def definition(plural: str) -> Path:
    """The file of one kind, such as `servicemonitors`; fetched now (4 MB) unless it is here."""
    install_go()
    command: list[str | Path] = [find_go(), "mod", "download", "-json", _MODULE]
    where = SERVERS / "prometheus-operator"
    done = subprocess.run(command, cwd=where, env=go_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(json.loads(done.stdout)["Dir"]) / _FOLDER / f"monitoring.coreos.com_{plural}.yaml"
