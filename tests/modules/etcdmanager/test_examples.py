"""The shipped examples are settings that can be used, and both ways to run are among them."""

from pathlib import Path

import pytest

from beehive.config import Source, load
from beehive.runtime import sections
from modules.etcdmanager.config import OWN_NAME, checked
from modules.registry import MODULES

EXAMPLES = Path(__file__).resolve().parents[3] / "configs" / "examples" / "etcd"


@pytest.mark.parametrize("name", ["k3s", "cluster"])
@pytest.mark.parametrize("hints", [False, True])
def test_an_example_loads_also_with_its_hints(name: str, hints: bool) -> None:
    text = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")
    if hints:
        text = "\n".join(
            line.replace("# ", "", 1) if line.startswith("  # ") and not line.endswith(":") and ": " in line else line
            for line in text.splitlines() if not line.startswith("  # Only")
        )  # fmt: skip
    settings = load(sections(MODULES), Source(f"{name}.yaml", text))
    etcd = checked(settings["etcdmanager"])
    assert etcd.endpoints
    assert bool(etcd.local_endpoint) == (not settings["informer"].leader_election)
    if hints:
        assert (etcd.observe_only, etcd.name_annotation == OWN_NAME) == (name == "cluster", name == "cluster")
        assert etcd.annotations.startswith("etcd.rke2") == (name == "k3s")


def test_every_example_is_tried() -> None:
    assert {file.name for file in EXAMPLES.iterdir()} == {"k3s.yaml", "cluster.yaml"}
