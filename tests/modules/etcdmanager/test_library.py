"""What we lean on in aetcd 1.0.0, and that nobody pays for it who has no etcd."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
from aetcd import rpc

from beehive.journal import Journal
from beehive.messages.objects import LeadershipChanged
from beehive.world import World
from modules import etcdmanager
from modules.etcdmanager.channels import Channels, EtcdError
from modules.etcdmanager.config import Config
from modules.etcdmanager.module import EtcdManager
from modules.etcdmanager.resting import Resting
from tests.fakes.alone import alone

FIELDS = {
    "StatusResponse": {"header", "version", "dbSize", "leader", "raftIndex", "raftTerm", "raftAppliedIndex", "errors",
                       "dbSizeInUse", "isLearner"},
    "MemberListRequest": {"linearizable"},
    "MemberPromoteRequest": {"ID"},
    "MemberRemoveRequest": {"ID"},
    "MoveLeaderRequest": {"targetID"},
    "Member": {"ID", "name", "peerURLs", "clientURLs", "isLearner"},
    "ResponseHeader": {"cluster_id", "member_id"},
    "Compare": {"result", "target", "key", "mod_revision"},
}  # fmt: skip
CALLS = {
    "KVStub": ("Range", "Txn"), "ClusterStub": ("MemberList", "MemberPromote", "MemberRemove"),
    "MaintenanceStub": ("Status", "MoveLeader"),
}  # fmt: skip


class _Channel:
    """What a stub asks of a channel."""

    def __getattr__(self, _: str) -> object:
        return lambda path, **_: path


def test_it_is_pinned() -> None:
    assert importlib.metadata.version("aetcd") == "1.0.0"
    pyproject = (Path(__file__).resolve().parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert '"aetcd==1.0.0"' in pyproject


@pytest.mark.parametrize("name", FIELDS)
def test_its_messages_have_the_fields_that_we_read_and_write(name: str) -> None:
    assert FIELDS[name] <= {field.name for field in getattr(rpc, name).DESCRIPTOR.fields}


@pytest.mark.parametrize("name", CALLS)
def test_its_stubs_have_the_calls_that_we_make(name: str) -> None:
    stub = getattr(rpc, name)(_Channel())
    for call in CALLS[name]:
        assert getattr(stub, call) == f"/etcdserverpb.{name.removesuffix('Stub')}/{call}"


def test_who_has_no_endpoints_does_not_import_grpc() -> None:
    code = (
        "import sys; from beehive.journal import Journal; from beehive.world import World; from pathlib import Path;"
        "from modules import etcdmanager as e; e.make(e.Config(), World(), Journal(Path('/nonexistent')));"
        "print([one for one in ('grpc', 'aetcd') if one in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout == "[]\n"


def test_resting_and_working_hold_the_same_conversation() -> None:
    assert Resting.accepts == EtcdManager.accepts
    assert Resting.sends == EtcdManager.sends
    assert Resting.asks == EtcdManager.asks


@pytest.mark.virtual_time
async def test_resting_says_nothing(world: World, tmp_path: Path) -> None:
    async with alone(etcdmanager.make(Config(), world, Journal(tmp_path)), world=world) as peers:
        peers.publish(LeadershipChanged(until=1e9))
        assert peers.said == []


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://h:1", "https://h", "https://h:1/x", "https://u@h:1", "https://[::1:2", "//"]
)
async def test_what_is_no_client_url_is_refused_before_anything_is_sent(url: str) -> None:
    channels = Channels(Config(endpoints=(url,)))
    with pytest.raises(EtcdError) as refused:
        await channels.call(url, rpc.MaintenanceStub, "Status", rpc.StatusRequest(), 1)
    assert refused.value.ours
    assert refused.value.words == f"{url} is not a client URL of etcd; write one like https://10.0.0.1:2379"
    await channels.close()
