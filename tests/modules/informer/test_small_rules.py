"""Settings, addresses, paths and shapes: small rules, each with what must not pass."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import trustme

from beehive.config import Duration, Source, load
from beehive.errors import ConfigError, Unavailable
from beehive.journal import Journal
from beehive.messages.objects import PatchOperation
from beehive.world import World
from modules.informer import Config, make
from modules.informer.config import Lease, checked
from modules.informer.connection import Connection, explain
from modules.informer.kinds import JOBS, NODES, header, secrets_in
from modules.informer.others import is_api_path
from modules.informer.writes import guarded
from tests.fakes.alone import alone


def test_defaults_are_those_of_the_papers() -> None:
    config = checked(Config())
    assert (config.namespace, config.leader_election) == ("kubeedge", True)
    lease = config.lease
    assert [float(one) for one in (lease.duration, lease.renew_deadline, lease.retry_period)] == [15, 10, 2]


def test_settings_are_read_from_yaml() -> None:
    text = "informer:\n  server: http://127.0.0.1:1\n  lease: {duration: 3s, renewDeadline: 2s, retryPeriod: 200ms}\n"
    config = load({"informer": Config}, Source(text=text))["informer"]
    assert config.lease.retry_period == 0.2
    assert checked(config) is config


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (Config(lease=Lease(renew_deadline=Duration(15))), "retryPeriod must be less than renewDeadline"),
        (Config(lease=Lease(retry_period=Duration(0))), "retryPeriod"),
        (Config(lease=Lease(duration=Duration(0.5), renew_deadline=Duration(0.3), retry_period=Duration(0.1))), "1s"),
        (Config(server="http://a", kubeconfig="b"), "not both"),
        (Config(token_file="/t"), "give the URL"),
        (Config(writes=0), "informer.writes: must be at least 1"),
        (Config(request_timeout=Duration(0)), "informer.requestTimeout"),
        (Config(watch_timeout=Duration(0)), "informer.watchTimeout"),
    ],
)
def test_settings_that_do_not_fit_are_refused(config: Config, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        checked(config)


def test_all_problems_come_at_once() -> None:
    with pytest.raises(ConfigError, match="2 problems"):
        checked(Config(server="http://a", kubeconfig="b", writes=0))


# ---- where the API server is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://10.0.0.1:6443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1"}, "https://[fd00::1]:443"),
    ],
)
def test_in_a_pod_the_server_is_the_clusters(environment: dict[str, str], url: str) -> None:
    assert Connection(Config(), environment).url == url


def test_without_anything_it_says_what_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="give a kubeconfig file"):
        Connection(Config(), {})
    with pytest.raises(ConfigError, match="give a kubeconfig file"):
        Connection(Config(), {"KUBECONFIG": str(tmp_path / "none")})


async def test_a_kubeconfig_that_makes_no_sense_is_an_error_of_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config"
    for text in ("a: [", "apiVersion: v1\nkind: Config\n", "current-context: a\ncontexts: []\nclusters: []\n", ""):
        path.write_text(text)
        async with Connection(Config(kubeconfig=str(path)), {}) as connection:
            with pytest.raises(ConfigError, match="cannot be used"):
                await connection.session()


async def test_files_that_are_not_there_yet_are_waited_for(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    async with Connection(Config(kubeconfig=missing), {}) as connection:
        with pytest.raises(Unavailable, match="no such file"):
            await connection.session()
    async with Connection(Config(server="https://a", ca_file=missing), {}) as connection:
        with pytest.raises(Unavailable, match="CA file"):
            await connection.session()


async def test_a_token_is_stripped_and_read_again_when_it_changes(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    async with Connection(Config(server="http://a", token_file=str(token)), {}) as connection:
        assert await connection.headers() == {"Authorization": "Bearer one"}
        beside = tmp_path / "beside"
        beside.write_text("two")
        beside.rename(token)
        assert await connection.headers() == {"Authorization": "Bearer two"}


async def test_refused_credentials_are_read_again_and_calls_in_flight_go_on(tmp_path: Path) -> None:
    """Another token needs no new connection, another CA does; nothing that may be in use is closed."""
    ca, path = tmp_path / "ca.crt", tmp_path / "config"

    def write(token: str) -> None:
        trustme.CA().cert_pem.write_to_path(str(ca)) if token == "third" else None
        cluster = {"server": "https://127.0.0.1:1", "certificate-authority": str(ca)}
        path.write_text(
            msgspec.json.encode(
                {
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                    "clusters": [{"name": "k", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": token}}],
                }
            ).decode()
        )

    trustme.CA().cert_pem.write_to_path(str(ca))
    write("first")
    async with Connection(Config(kubeconfig=str(path)), {}) as connection:
        session = await connection.session()
        assert await connection.headers() == {"Authorization": "Bearer first"}
        write("second")
        connection.renew(connection.generation - 1)  # somebody else has seen to it
        assert (await connection.session(), connection.generation) == (session, 1)
        connection.renew(connection.generation)
        assert await connection.session() is session
        assert await connection.headers() == {"Authorization": "Bearer second"}
        write("third")
        connection.renew(connection.generation)
        newest = await connection.session()
        assert newest is not session
        assert [session.closed] == [False]
        for _ in range(6):
            write("third")
            connection.renew(connection.generation)
            newest = await connection.session()
        assert session.closed
    assert newest.closed


def test_errors_read_like_sentences() -> None:
    assert explain(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)")) == "connection refused"
    assert explain(TimeoutError()) == "no answer in time"
    assert explain(ValueError()) == "ValueError"
    assert explain(ValueError("two\nlines")) == "two lines"


# ---- shapes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "good"),
    [
        ("/api/v1/namespaces/kubeedge/pods/beehive-0", True),
        ("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/beehive", True),
        ("/api/v1/../../etc", False),
        ("/api/v1/nodes/a?dryRun=All", False),
        ("/api/v1/nodes/a#b", False),
        ("/api/v1//nodes", False),
        ("/api/v1/nodes/a%2fb", False),
        ("/api/v1/nodes/a b", False),
        ("/api/v1/nodes/a\n", False),
        ("/version", False),
        ("http://elsewhere/api/v1/nodes/a", False),
        ("", False),
    ],
)
def test_paths_of_single_objects(path: str, good: bool) -> None:
    assert is_api_path(path) is good


def test_a_guarded_patch_begins_with_its_guards() -> None:
    operations = (PatchOperation("remove", "/metadata/finalizers"), PatchOperation("add", "/spec/a", None))
    assert msgspec.json.decode(guarded(operations, "u", "7")) == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "remove", "path": "/metadata/finalizers"},
        {"op": "add", "path": "/spec/a", "value": None},
    ]
    assert len(msgspec.json.decode(guarded((), "u", ""))) == 1


@pytest.mark.parametrize("version", ["", "x", "-1", "1.5"])
def test_an_object_without_a_number_for_a_version_cannot_be_kept(version: str) -> None:
    raw = msgspec.json.encode({"metadata": {"name": "a", "resourceVersion": version}})
    with pytest.raises(ValueError, match="not a number"):
        NODES.read(raw)


def test_a_secret_leaves_only_a_mark() -> None:
    kind = secrets_in("kubeedge")
    body = {"metadata": {"name": "a", "resourceVersion": "7"}, "data": {"key": "c2VjcmV0"}}
    mark = kind.read(msgspec.json.encode(body))
    assert b"c2VjcmV0" not in msgspec.json.encode(mark)
    other = kind.read(msgspec.json.encode(body | {"data": {"key": "b3RoZXI="}}))
    assert not kind.alike(mark, other)


def test_a_job_is_read_with_all_that_rules_need() -> None:
    raw = b'{"metadata":{"name":"a","resourceVersion":"7"},"spec":{"version":"v1.23.0","nodeNames":["n"],"retry":2}}'
    job = JOBS.read(raw)
    assert (job.spec.node_names, job.spec.retry, job.status.phase) == (("n",), 2, "")


@pytest.mark.parametrize("raw", [b"", b"7", b"{", b'{"metadata":7}', b'{"metadata":{"name":7}}'])
def test_the_header_of_anything_is_at_worst_empty(raw: bytes) -> None:
    assert header(raw).name == ""


def test_the_package_does_not_import_the_kubernetes_client() -> None:
    """The registry imports it in every process; only making the module may cost a second and 70 MB."""
    code = "import sys, modules.informer; sys.exit('kubernetes_asyncio' in sys.modules or 'aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[3]).returncode == 0


async def test_it_can_be_made_without_a_cluster_and_says_at_its_start_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`beehive routes` makes every module only to see what it declares."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    module = make(Config(), World(), Journal(tmp_path))
    with pytest.raises(ExceptionGroup) as failed:
        async with alone(module):
            pass
    assert failed.group_contains(ConfigError, match="give a kubeconfig file", depth=1)
