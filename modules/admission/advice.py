"""Warnings about a new job that is not wrong but may not do what its author thinks. Pure; kubectl prints them."""

from collections.abc import Iterator, Mapping, Sequence

from beehive.api import v1alpha1
from beehive.api.node import Node, version_of
from beehive.api.nodeupgradejob import GROUP, NodeUpgradeJobSpec
from beehive.api.selection import selected
from beehive.api.version import is_newer, normalised, numbers
from modules.admission.known import Known

LONGEST = 250
"""Characters of a warning; the API server cuts longer ones at 256."""
_NAMED = 3


def advice(spec: NodeUpgradeJobSpec, known: Known, spoken_in: str = "") -> tuple[str, ...]:
    """What to think about again. `spoken_in`: the API version that the client wrote."""
    found = [*_spellings(spec, spoken_in), *(_nodes(spec, known.nodes, known.held) if known.nodes is not None else ())]
    return tuple(one if len(one) <= LONGEST else f"{one[: LONGEST - 1]}…" for one in found)


def _spellings(spec: NodeUpgradeJobSpec, spoken_in: str) -> Iterator[str]:
    if spoken_in == v1alpha1.VERSION:
        yield f"{GROUP}/v1alpha1 is kept for old clients and knows less; write {GROUP}/v1alpha2"
    if normalised(spec.version) != spec.version:
        yield f"spec.version: {spec.version} is read as {normalised(spec.version)}; write it so"
    if "@" in spec.image or ":" in spec.image.rpartition("/")[2]:
        yield "spec.image: its tag or digest is ignored, for the tag is made from spec.version; leave it out"
    if spec.timeout_seconds == 0:
        yield "spec.timeoutSeconds: 0 is read as 300; leave it out"
    names = spec.node_names or ()
    if len(set(names)) < len(names):
        twice = [name for name, count in _counts(names).items() if count > 1]
        yield f"spec.nodeNames: {_listed(twice)} more than once; each counts once"


def _counts(names: Sequence[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


def _nodes(spec: NodeUpgradeJobSpec, nodes: Mapping[str, Node], held: Mapping[str, str]) -> Iterator[str]:
    names = selected(spec, nodes)
    if not names:
        yield "spec.labelSelector: no node has these labels now; it is looked at once, when the job starts"
    if unknown := [name for name in names if name not in nodes]:
        yield f"spec.nodeNames: there is no Node {_listed(unknown)}; the job will count them as failed"
    if shared := [name for name in names if name in held]:
        job = held[shared[0]]
        yield f"job {job} is open and means {_listed(shared)} too; a node takes one upgrade at a time, this job waits"
    yield from _versions(spec, [(name, version_of(nodes[name])) for name in names if name in nodes])


def _versions(spec: NodeUpgradeJobSpec, running: Sequence[tuple[str, str]]) -> Iterator[str]:
    wanted = normalised(spec.version)
    there = [name for name, version in running if normalised(version) == wanted]
    if there:
        yield f"spec.version: {_listed(there)} at {wanted} already; skipped"
    newer = [name for name, version in running if numbers(version) and is_newer(version, wanted)]
    if newer and spec.allow_downgrade:
        yield f"spec.allowDowngrade: {_listed(newer)} newer than {wanted}; brought back to it"
    elif newer:
        yield f"spec.version: {_listed(newer)} newer than {wanted}; skipped, unless spec.allowDowngrade is true"


def _listed(names: Sequence[str]) -> str:
    """`edge-1, edge-2, edge-3 and 4 more`; long names are cut."""
    shown = [name if len(name) <= 30 else f"{name[:29]}…" for name in names[:_NAMED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
