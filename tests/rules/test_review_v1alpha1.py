"""Reviews of v1alpha1, as a registration of KubeEdge's asks them: judged in v1alpha2, nothing slips past."""

import json
from typing import Any

import pytest

from tests.rules.test_review import job, request, said, verdict


def in_v1alpha1(operation: str, new: Any, old: Any = None) -> dict[str, Any]:
    def item(of: Any) -> Any:
        return of and of | {"apiVersion": "operations.kubeedge.io/v1alpha1"}

    resource = {"group": "operations.kubeedge.io", "version": "v1alpha1", "resource": "nodeupgradejobs"}
    return request(operation, item(new), item(old), resource=resource)


def only_v1alpha2(**fields: Any) -> dict[str, Any]:
    rest = {"onOffline": "Skip", "allowDowngrade": False, "suspend": False, "abort": False, "retry": 0, **fields}
    annotations = {"operations.kubeedge.io/only-in-v1alpha2": json.dumps(rest)}
    return job() | {"metadata": {"name": "j", "annotations": annotations}}


def test_an_abort_cannot_be_taken_back_through_v1alpha1() -> None:
    back = "spec.abort: an abort cannot be taken back; make a new job"
    assert said(in_v1alpha1("UPDATE", only_v1alpha2(abort=False), only_v1alpha2(abort=True))) == back
    assert said(in_v1alpha1("UPDATE", job(), only_v1alpha2(abort=True))) == back, "by leaving the annotation out"
    assert verdict(in_v1alpha1("UPDATE", only_v1alpha2(abort=True), only_v1alpha2())).allowed


@pytest.mark.parametrize(
    ("operation", "new", "old", "message"),
    [
        ("UPDATE", only_v1alpha2(retry=1), only_v1alpha2(retry=2), "spec.retry: it may only grow; it is 2"),
        ("UPDATE", only_v1alpha2(onOffline="Wait"), job(),
         "spec fields are not allowed to update once it's created: onOffline"),
        ("CREATE", only_v1alpha2(retry=3), None, "spec.retry: a new job has not been tried; leave it out instead of 3"),
        ("CREATE", only_v1alpha2(onOffline="x"), None, 'spec.onOffline: "x" means nothing; write Skip, Wait or Fail'),
        ("CREATE", only_v1alpha2(more=1), None,
         "operations.kubeedge.io/only-in-v1alpha2 is not what was read: Object contains unknown field `more`; "
         "leave it alone"),
        ("CREATE", job(imageDigestGatter={"value": "x"}), None,
         'spec.imageDigestGatter: "x" for amd64 is no digest; write sha256: and 64 digits of 0-9 and a-f; '
         'spec.imageDigestGatter: "x" for arm64 is no digest; write sha256: and 64 digits of 0-9 and a-f'),
    ],
)  # fmt: skip
def test_what_v1alpha1_cannot_smuggle_past(operation: str, new: Any, old: Any, message: str) -> None:
    assert said(in_v1alpha1(operation, new, old)) == message


def test_a_v1alpha1_object_that_is_being_deleted_loses_its_finalizer_whatever_it_holds() -> None:
    going = only_v1alpha2(more=1)
    going["metadata"]["deletionTimestamp"] = "2026-11-29T20:31:07Z"
    assert verdict(in_v1alpha1("UPDATE", going, only_v1alpha2(more=2))).allowed


def test_a_client_of_v1alpha1_is_told_whichever_version_we_are_asked_in() -> None:
    converted = request(new=job()) | {"requestKind": {"group": "", "version": "v1alpha1", "kind": "NodeUpgradeJob"}}
    for asked in (converted, in_v1alpha1("CREATE", job())):
        assert "v1alpha1 is kept for old clients" in verdict(asked).warnings[0]
    assert verdict(request(new=job())).warnings == ()
