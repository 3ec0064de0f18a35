"""Each KubeEdge vector about the API beside our verdict on it: the rows of `docs/vectors.md`.

Ours is asked of the product's own rules each time; only the reasons for a difference are written down here, or beside
the tests that look into one vector more closely.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from beehive.api.convert import V1ALPHA1, V1ALPHA2, converted
from beehive.api.nodeupgradejob import JobStatus, NodeUpgradeJob, NodeUpgradeJobSpec
from beehive.api.tolerance import tolerance
from beehive.api.validate import problems
from beehive.api.version import agent_version, is_newer, same
from modules.admission import review
from modules.admission.envelope import Answered, Reply, closed, opened
from modules.admission.mutation import mutated
from modules.admission.server import KUBEEDGE_MUTATE, KUBEEDGE_VALIDATE
from modules.taskmanager.job import News, plan
from modules.upgrader.images.reference import parse_repository
from tests.fakes.jobs import START, a_job, an_entry, fleet, nodes, with_status
from tests.vectors import vector

TOP = Path(__file__).resolve().parents[2]


class Row(NamedTuple):
    """One case."""

    case: str
    theirs: str
    ours: str
    why: str = ""
    """Why ours is another; empty where it is the same."""


def _rows(cases: Iterable[tuple[str, str, str]], why: Mapping[str, str]) -> list[Row]:
    return [Row(case, theirs, ours, why.get(case, "")) for case, theirs, ours in cases]


# ---- values of single fields -------------------------------------------------------------------------------------


def _taken(**fields: Any) -> str:
    spec = {"version": "v1.23.1", "nodeNames": ["edge-a"], **fields}
    return "refused" if problems(msgspec.convert(spec, NodeUpgradeJobSpec)) else "taken"


def versions() -> list[Row]:
    cases = ((text, "taken" if good else "refused", _taken(version=text))
             for text, good in vector("rule_version_regex").items())  # fmt: skip
    return _rows(cases, {
        "1.0.0": "read as v1.0.0",
        "v1.23.1+build": "K3s' versions have a build: v1.30.4+k3s1",
        "v1.23.1-12+abc": "as git describe writes them",
    })  # fmt: skip


def images() -> list[Row]:
    cases = ((text, "taken" if good else "refused", _taken(image=text))
             for text, good in vector("rule_image_repo_regex").items())  # fmt: skip
    return _rows(cases, {
        "": "no image means the default one, as KubeEdge's webhook has it, which does not ask its pattern then",
        "a/B": "no registry has repositories in upper case: it would fail at every node",
        "[::1]:5000/a": "a registry may have an IPv6 address",
    })  # fmt: skip


def repositories() -> list[Row]:
    cases = ((text, theirs, parse_repository(text).name) for text, theirs in vector("rule_v1alpha1_image_repo").items())
    return _rows(cases, {})


def skips() -> list[Row]:
    def ours(node: str, wanted: str) -> bool:
        runs = agent_version(node)
        return same(runs, wanted) or is_newer(runs, wanted)

    cases = ((case, _skipped(theirs), _skipped(ours(*case.split(" | "))))
             for case, theirs in vector("rule_v1alpha1_filter_version_true_means_skip").items())  # fmt: skip
    return _rows(cases, {})


def _skipped(skips: bool) -> str:
    return "skipped" if skips else "upgraded"


# ---- the end of a job --------------------------------------------------------------------------------------------


def ends() -> list[Row]:
    cases = ((f"{one['Fail']} of {one['Total']} failed, {one['Proc']} under way, tolerate {one['Tolerate']!r}",
              one["Phase"], _phase(one["Total"], one["Proc"], one["Fail"], one["Tolerate"]))
             for one in vector("rule_job_phase_from_counts"))  # fmt: skip
    exact, bad = "counted exactly; theirs rounds to hundredths", "refused when the job is made"
    return _rows(cases, {
        "0 of 0 failed, 0 under way, tolerate ''": "a selector that matches nothing is nothing that failed; "
                                                   "the reason says NothingSelected",
        "1 of 10 failed, 0 under way, tolerate ''": "the documented default is 0.1; theirs reads none as 0",
        "1 of 3 failed, 0 under way, tolerate '0.33'": exact,
        "1 of 3 failed, 0 under way, tolerate '0.333'": exact,
        "1 of 1000 failed, 0 under way, tolerate '0'": exact,
        "4 of 1000 failed, 0 under way, tolerate '0'": exact,
        "5 of 1000 failed, 0 under way, tolerate '0.005'": exact,
        "10 of 10 failed, 0 under way, tolerate '2'": f"more than all is no share: {bad}",
        "1 of 10 failed, 0 under way, tolerate '10%'": "a percentage is a share, too",
        **{f"{failed} of 10 failed, 0 under way, tolerate {text!r}": f"no share: {bad}"
           for failed, text in ((1, "abc"), (0, "abc"), (1, "-1"))},
        **{f"1 of 10 failed, 0 under way, tolerate {text!r}": f"{bad}; their panic leaves the job in Init for ever"
           for text in ("NaN", "Inf")},
    })  # fmt: skip


def _phase(total: int, under_way: int, failed: int, tolerate: str) -> str:
    try:
        tolerance(tolerate)
    except ValueError:
        return "refused"
    names = [f"edge-{number}" for number in range(total)]
    phases = ["InProgress"] * under_way + ["Failure"] * failed
    phases += ["Successful"] * (total - len(phases))
    entries = tuple(an_entry(name, phase) for name, phase in zip(names, phases, strict=True))
    status = JobStatus(phase="InProgress", observed_generation=1, node_status=entries)
    job = with_status(a_job(*names, failure_tolerate=tolerate), status)
    planned = plan({job.metadata.uid: job}, nodes(*names), fleet(*names), News(), START).statuses
    return planned[job.metadata.uid].phase


# ---- whole objects -----------------------------------------------------------------------------------------------


def objects() -> list[Row]:
    names = ("v1alpha1_nodeupgradejob", "v1alpha2_nodeupgradejob_failure", "v1alpha2_nodeupgradejob_in_progress")
    rows = [_object(f"cr_{name}") for name in names]
    history = [state for _, _, _, _, state in vector("captured_nodeupgradejob_status_history")]
    found = {_read(state) for state in history}
    theirs = f"wrote {len(history)} states of one job"
    return [*rows, Row("captured_nodeupgradejob_status_history", theirs, " and ".join(sorted(found)))]


def _object(name: str) -> Row:
    return Row(name, "wrote it", _read(vector(name)))


def _read(theirs: dict[str, Any]) -> str:
    """A good job that the other version can hold without loss."""
    here = theirs["apiVersion"].rpartition("/")[2]
    there = V1ALPHA1 if here.endswith("2") else V1ALPHA2
    back = converted(converted(theirs, there), theirs["apiVersion"])
    stored = theirs if here.endswith("2") else converted(theirs, V1ALPHA2)
    wrong = problems(msgspec.convert(stored, NodeUpgradeJob).spec)
    if wrong:
        return f"refused: {wrong[0]}"
    return "taken, and comes back unchanged from the other version" if back == theirs else "changed by conversion"


# ---- reviews -----------------------------------------------------------------------------------------------------


def reviews() -> list[Row]:
    """Each as it was asked, of the webhook of the same kind."""
    cases = vector("admission_reviews_from_real_server")
    rows = ((name, _said(case["response"], case["http_status"]), _answer(name, case)) for name, case in cases.items())
    schema = "the others of the schema are filled in, too; what is written stays"
    return _rows(rows, {
        "validate_update_spec_changed": "names the fields",
        "validate_update_digest_amd64_changed_via_v1alpha2_is_allowed":
            "theirs compares in v1alpha1, which has no such field",
        "mutate_create_defaults": schema, "mutate_create_nothing_to_do": schema,
        "mutate_create_timeout_zero_stays_zero": schema,
        "mutate_create_negative_concurrency_stays": schema + "; our validating webhook and the schema refuse it",
        "mutate_wrong_type": "mutation refuses nothing; our validating webhook and the schema do",
        "wrong_content_type_empty_200": "an empty 200 is no answer",
        "not_json": "no review has an empty uid",
    })  # fmt: skip


def _answer(name: str, case: dict[str, Any]) -> str:
    kind = "text/plain" if name == "wrong_content_type_empty_200" else "application/json"
    request = case["request"]
    asked = opened(kind, request.encode() if isinstance(request, str) else json.dumps(request).encode())
    if isinstance(asked, Reply):
        return f"{asked.status}: {_short(asked.body.decode().strip())}"
    answer = mutated(asked) if name.startswith("mutate") else review.judge(asked)
    whole = msgspec.json.decode(closed(answer).body, type=Answered).response
    return _verdict(msgspec.to_builtins(whole))


def _said(answer: Any, status: int) -> str:
    return _verdict(answer["response"]) if answer else f"{status}, empty"


def _verdict(response: Mapping[str, Any]) -> str:
    if not response["allowed"]:
        return f"refused: {_short(response['status']['message'])}"
    added = [one["path"].removeprefix("/spec/") for one in _patch(response)]
    return f"allowed; adds {', '.join(sorted(added))}" if added else "allowed"


def _patch(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from msgspec.json.decode(msgspec.convert(response["patch"], bytes)) if response.get("patch") else ()


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= 110 else f"{sentence[:109]}…"


# ---- how the webhook is registered -------------------------------------------------------------------------------


def registrations() -> list[Row]:
    registered = vector("admission_webhook_configurations_registered")
    shipped = [one for one in yaml.safe_load_all((TOP / "configs/webhooks.yaml").read_text()) if "webhooks" in one]
    known = {KUBEEDGE_VALIDATE: "Validating", KUBEEDGE_MUTATE: "Mutating"}
    cases = []
    for path, kind in known.items():
        (theirs,) = [hook for one in registered for hook in one["webhooks"]
                     if hook["clientConfig"]["service"]["path"] == path]  # fmt: skip
        (ours,) = [hook for one in shipped for hook in one["webhooks"] if one["kind"].startswith(kind)]
        cases.append((path, _registered(theirs), _registered(ours)))
    judged = "the controller judges every job again, so a webhook that is away stops nobody"
    return _rows(cases, {
        KUBEEDGE_VALIDATE: f"v1alpha1 is asked of in v1alpha2 form; a DELETE has nothing to refuse; {judged}",
        KUBEEDGE_MUTATE: "the same, and an update is never rewritten (GitOps tools would fight it)",
    })  # fmt: skip


def _registered(hook: Mapping[str, Any]) -> str:
    (rule,) = hook["rules"]
    policy = hook.get("failurePolicy", "Fail")
    return f"{', '.join(rule['operations'])} of {', '.join(rule['apiVersions'])}; when away: {policy}"


TABLES = (
    ("Versions", "rule_version_regex", versions),
    ("Image repositories", "rule_image_repo_regex", images),
    ("What an image's name stands for", "rule_v1alpha1_image_repo", repositories),
    ("Which node is skipped (its version, the job's)", "rule_v1alpha1_filter_version_true_means_skip", skips),
    ("How a job ends", "rule_job_phase_from_counts", ends),
    ("Objects that KubeEdge wrote", "cr_*, captured_nodeupgradejob_status_history", objects),
    ("Reviews", "admission_reviews_from_real_server", reviews),
    ("How the webhook is registered", "admission_webhook_configurations_registered", registrations),
)


def page() -> str:
    """The whole document."""
    text = [
        "# What KubeEdge decides about a NodeUpgradeJob, and what Beehive does",
        "",
        "Made from `tests/vectors/kubeedge` and the product's own rules by",
        "`pytest tests/rules/test_verdicts.py --rewrite`.",
        "A row without a reason is the same on both sides.",
    ]
    for title, source, rows in TABLES:
        text += ["", f"## {title}", "", f"`{source}`", "", "| Case | KubeEdge | Beehive | Different because |",
                 "|---|---|---|---|", *(_line(row) for row in rows())]  # fmt: skip
    return "\n".join(text) + "\n"


def _line(row: Row) -> str:
    case = f"`{json.dumps(row.case, ensure_ascii=False)[1:-1] or ' '}`".replace("|", "\\|")
    ours = "the same" if row.ours == row.theirs else row.ours
    return f"| {case} | {_cell(row.theirs)} | {_cell(ours)} | {_cell(row.why)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
