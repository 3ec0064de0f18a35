"""Writes configs/install.yaml, the plain manifest, from the Helm chart: `python shipping/manifests.py --helm HELM`."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
CHART = SOURCE / "configs" / "helm" / "beehive"
INSTALL = SOURCE / "configs" / "install.yaml"
KUBERNETES = "1.34.4"
"""Rendered for this version; the chart says which it allows."""

_HEAD = """\
# All of Beehive's cloud side, made from configs/helm/beehive by `make manifests`; change that, not this.
#   kubectl apply --server-side -f configs/install.yaml
# Put your image and the names by which edge hosts reach the hub in place first; the chart has more to choose from.
apiVersion: v1
kind: Namespace
metadata:
  name: kubeedge
"""


def render(helm: Path, *options: str) -> str:
    """What `helm template` makes of the chart. Raises SystemExit with helm's complaint."""
    where = ("--namespace", "kubeedge", "--kube-version", KUBERNETES)
    command: list[str | Path] = [helm, "template", "beehive", CHART, *where, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"helm template: {done.stderr.strip()}")
    text: str = done.stdout
    return text


def install(helm: Path) -> str:
    """The whole file."""
    rendered = render(helm, "--include-crds")
    lines = (line for line in rendered.splitlines() if "managed-by:" not in line and "helm.sh/chart:" not in line)
    return f"{_HEAD}{chr(10).join(lines)}\n"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="shipping/manifests.py", description="Write configs/install.yaml.")
    parser.add_argument("--helm", type=Path, required=True, help="the helm to use")
    INSTALL.write_text(install(parser.parse_args(arguments).helm), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
