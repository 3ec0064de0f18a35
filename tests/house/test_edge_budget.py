"""What an edge process imports: it must start quickly and stay small (architecture.md 3, libraries.md 1)."""

import json
import subprocess
import sys

FORBIDDEN = {
    "kubernetes_asyncio",
    "aiohttp",
    "grpc",
    "aetcd",
    "starlette",
    "uvicorn",
    "picows",
    "prometheus_client",
    "rich",
}
_PROBE = """
import json, sys
from pathlib import Path
from beehive.journal import Journal
from beehive.world import World
from modules.registry import MODULES
made = [spec.edge(spec.config(), World(), Journal(Path("/nonexistent"))) for spec in MODULES if spec.edge]
print(json.dumps({"modules": sorted({name.partition(".")[0] for name in sys.modules}), "made": len(made)}))
"""


def test_an_edge_process_imports_nothing_that_belongs_to_the_cloud() -> None:
    done = subprocess.run((sys.executable, "-c", _PROBE), capture_output=True, text=True, check=True, timeout=60)
    seen = json.loads(done.stdout)
    assert seen["made"] == 4
    assert FORBIDDEN & set(seen["modules"]) == set()
