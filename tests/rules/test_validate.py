"""Which jobs are refused, with which words; and KubeEdge's own verdicts beside ours."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.api.nodeupgradejob import NodeUpgradeJob, NodeUpgradeJobSpec
from beehive.api.validate import problems
from beehive.api.version import numbers
from tests.vectors import vector

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def spec(**fields: Any) -> NodeUpgradeJobSpec:
    """A good job's spec, but for `fields` (JSON names; None takes one away)."""
    whole = {"version": "v1.23.1", "nodeNames": ["edge-a"], **fields}
    return msgspec.convert({k: v for k, v in whole.items() if v is not None}, NodeUpgradeJobSpec)


GOOD: list[dict[str, Any]] = [
    {},
    {"version": "1.12.1"},
    {"version": "v1.30.4+k3s1"},
    {"version": "v1.23.1-acme.5"},
    {"nodeNames": None, "labelSelector": {}},
    {"nodeNames": [], "labelSelector": {"matchLabels": {"region": "north", "example.com/line": ""}}},
    {"nodeNames": None, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
    {"nodeNames": None, "labelSelector": {"matchExpressions": [{"key": "a/b", "operator": "Exists"}]}},
    {"nodeNames": ["a", "a", "a.b-c.d"]},
    {"image": ""},
    {"image": "localhost:5000/kubeedge/installation-package:v1"},
    {"imageDigestGatter": None},
    {"imageDigestGatter": {"amd64": A, "arm64": "", "digests": {"arm/v7": B, "riscv64": A}}},
    {"imageDigestGatter": {"registryAPI": {"host": "registry.example.org:5000", "token": "t"}}},
    {"upgradeTool": "image-keadm"},
    {"timeoutSeconds": 0},
    {"timeoutSeconds": 2**31 - 1, "concurrency": 2**31 - 1, "retry": 5},
    *(
        {"failureTolerate": text}
        for text in ("", "0", "1", "0.1", ".5", "1.000", "0%", "10%", "99.9%", "100%", "100.0%")
    ),
    {"checkItems": ["cpu", "mem", "disk", "cpu"], "requireConfirmation": True},
    {"onOffline": "Wait", "allowDowngrade": True, "suspend": True, "abort": True},
]


@pytest.mark.parametrize("fields", GOOD, ids=str)
def test_a_good_job_has_no_problems(fields: dict[str, Any]) -> None:
    assert problems(spec(**fields)) == []


BAD: list[tuple[dict[str, Any], str]] = [
    ({"version": "v1.2"}, "invalid version v1.2"),
    ({"version": ""}, "invalid version "),
    ({"version": "latest"}, "invalid version latest"),
    ({"version": "v1.2.3\n"}, r"invalid version v1.2.3\n"),
    ({"version": "v١.٢.٣"}, "invalid version v١.٢.٣"),
    ({"version": "v1.2." + "3" * 300}, "invalid version v1.2." + "3" * 75 + "…"),
    ({"image": "installation-package"}, "invalid image repo installation-package"),
    ({"image": "https://r.io/a/b"}, "invalid image repo https://r.io/a/b"),
    ({"image": "me:secret@r.io/a/b"}, "invalid image repo me:secret@r.io/a/b"),
    ({"image": "a/b c"}, "invalid image repo a/b c"),
    ({"nodeNames": None}, "both NodeNames and LabelSelector are NOT specified"),
    ({"nodeNames": []}, "both NodeNames and LabelSelector are NOT specified"),
    ({"labelSelector": {}}, "both NodeNames and LabelSelector are specified"),
    ({"nodeNames": ["n"] * 5001}, "spec.nodeNames: 5001 nodes; a job has at most 5000, so make several jobs"),
    *(
        ({"nodeNames": [name]}, f'spec.nodeNames: "{said}" cannot be the name of a node')
        for name, said in (
            ("", ""), ("a/b", "a/b"), ("..", ".."), ("a\nb", r"a\nb"), ("A", "A"), ("-a", "-a"), ("a..b", "a..b"),
            ("x" * 254, "x" * 80 + "…"),
        )
    ),
    ({"nodeNames": None, "labelSelector": {"matchLabels": {"a b": "c"}}},
     'spec.labelSelector.matchLabels: "a b" cannot be the key of a label'),
    ({"nodeNames": None, "labelSelector": {"matchLabels": {"a": "-"}}},
     'spec.labelSelector.matchLabels: "-" cannot be the value of a label'),
    ({"nodeNames": None, "labelSelector": {"matchLabels": {"a" * 64: "b"}}},
     f'spec.labelSelector.matchLabels: "{"a" * 64}" cannot be the key of a label'),
    ({"nodeNames": None, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Equals"}]}},
     'spec.labelSelector.matchExpressions: "Equals" is no operator; there are In, NotIn, Exists and DoesNotExist'),
    ({"nodeNames": None, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
     "spec.labelSelector.matchExpressions: In needs values"),
    ({"nodeNames": None, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
     "spec.labelSelector.matchExpressions: Exists takes no values"),
    *(
        ({"imageDigestGatter": {"amd64": digest}},
         f'spec.imageDigestGatter: "{digest}" for amd64 is no digest; write sha256: and 64 digits of 0-9 and a-f')
        for digest in (A[:-1], A.upper(), "sha256:" + "A" * 64, "sha512:" + "a" * 64, "a" * 64)
    ),
    ({"imageDigestGatter": {"digests": {"../x": A}}},
     'spec.imageDigestGatter.digests: "../x" cannot be the name of an architecture'),
    ({"imageDigestGatter": {"registryAPI": {"host": "http://r.io", "token": "t"}}},
     'spec.imageDigestGatter.registryAPI.host: "http://r.io" is no host; write registry.io:5000'),
    ({"imageDigestGatter": {"registryAPI": {"host": "r.io", "token": "t\r\nX: y"}}},
     "spec.imageDigestGatter.registryAPI.token: it is too long or holds control characters"),
    ({"upgradeTool": "../keadm"},
     'spec.upgradeTool: "../keadm" cannot be the name of a provider; write one like keadm'),
    ({"timeoutSeconds": -1}, "spec.timeoutSeconds: -1 is out of range; give 0 to 2147483647"),
    *(({"concurrency": n}, f"spec.concurrency: {n} is out of range; give 1 to 2147483647") for n in (0, -1, 2**31)),
    *(
        ({"failureTolerate": text}, f'spec.failureTolerate: "{text}": it is neither a ratio from 0 to 1 nor a '
         "percentage; write one like 0.1 or 10%")
        for text in ("10", "-1%", "101%", "NaN", "Inf", "0.1%x", "1.1", "1e-1", " 0.1", "١", "0x1", "0." + "1" * 20)
    ),
    ({"checkItems": ["gpu"]}, 'spec.checkItems: "gpu" cannot be checked; there are cpu, mem and disk'),
    ({"checkItems": ["cpu"] * 17}, "spec.checkItems: at most 16 items; there are only cpu, mem and disk"),
    ({"onOffline": "skip"}, 'spec.onOffline: "skip" means nothing; write Skip, Wait or Fail'),
    ({"retry": -1}, "spec.retry: -1 is out of range; give 0 to 2147483647"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "problem"), BAD, ids=[problem[:60] for _, problem in BAD])
def test_a_bad_job_is_told_what_is_wrong(fields: dict[str, Any], problem: str) -> None:
    found = problems(spec(**fields))
    assert found == [problem]
    assert found[0].isprintable()


def test_all_problems_are_told_at_once_kubeedges_first_and_in_its_order() -> None:
    bad = spec(version="x", image="y", nodeNames=["a"], labelSelector={}, concurrency=0, failureTolerate="10")
    found = problems(bad)
    assert found[:3] == ["invalid version x", "invalid image repo y", "both NodeNames and LabelSelector are specified"]
    assert [one.partition(":")[0] for one in found[3:]] == ["spec.concurrency", "spec.failureTolerate"]


def test_a_thousand_wrong_names_make_a_short_answer() -> None:
    found = problems(spec(nodeNames=[f"_{i}" for i in range(1000)]))
    assert len(found) == 4
    assert found[-1] == "spec.nodeNames: 997 more cannot be names of nodes"


def test_a_real_users_first_try_an_image_alone() -> None:
    with pytest.raises(msgspec.ValidationError, match="missing required field `version`"):
        msgspec.convert({"image": "kubeedge/installation-package:v1.23.1"}, NodeUpgradeJobSpec)


@pytest.mark.parametrize("name", ["a" * 253, "a." * 126 + "a", "a" * 252 + "-", "." * 253, "a-" * 126 + "-"])
def test_five_thousand_hostile_names_are_judged_in_time(name: str) -> None:
    job = spec(nodeNames=[name] * 5000)
    began = time.process_time()
    assert problems(job)
    assert time.process_time() - began < 1.0


# ---- KubeEdge's vectors, theirs and ours -------------------------------------------------------------------------

OURS_DIFFER_VERSION = {
    "1.0.0": "read as v1.0.0 (product.md 3.1)",
    "v1.23.1+build": "K3s' versions have a build (product.md 3.1)",
    "v1.23.1-12+abc": "as git describe writes them",
}


@pytest.mark.parametrize(("version", "theirs"), vector("rule_version_regex").items())
def test_versions_as_kubeedge_but_where_we_say_why(version: str, theirs: bool) -> None:
    ours = f"invalid version {version}".rstrip("\n") not in (
        one.replace(r"\n", "") for one in problems(spec(version=version))
    )
    assert ours is (not theirs if version in OURS_DIFFER_VERSION else theirs)


OURS_DIFFER_IMAGE = {
    "a/B": "no registry has repositories in upper case: it would fail at every node",
    "[::1]:5000/a": "a registry may have an IPv6 address",
}


@pytest.mark.parametrize(("image", "theirs"), vector("rule_image_repo_regex").items())
def test_images_as_kubeedge_but_where_we_say_why(image: str, theirs: bool) -> None:
    if image == "":
        assert theirs is False
        assert problems(spec(image="")) == [], "like KubeEdge's webhook, which does not apply its pattern to no image"
        return
    ours = problems(spec(image=image)) == []
    assert ours is (not theirs if image in OURS_DIFFER_IMAGE else theirs)


@pytest.mark.parametrize("name", ["cr_v1alpha2_nodeupgradejob_failure", "cr_v1alpha2_nodeupgradejob_in_progress"])
def test_kubeedges_own_objects_are_good(name: str) -> None:
    job = msgspec.convert(vector(name), NodeUpgradeJob)
    assert problems(job.spec) == []
    assert job.status.node_status
    assert len(job.status.node_status) == 2


def test_kubeedges_own_history_of_a_job_is_good() -> None:
    for _, _, _, _, stored in vector("captured_nodeupgradejob_status_history"):
        assert problems(msgspec.convert(stored, NodeUpgradeJob).spec) == []


@given(st.text(min_size=0, max_size=40))
def test_no_version_makes_the_comparison_fail(text: str) -> None:
    assert numbers(text) is None or len(numbers(text) or ()) == 3


def test_a_version_of_a_million_digits_has_no_numbers() -> None:
    assert numbers("v" + "9" * 10**6 + ".1.1") is None
