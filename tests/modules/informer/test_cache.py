"""What is a change, and that nothing ever goes back: by example, and by law against a store that knows the truth."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.api.meta import ObjectMeta
from beehive.api.node import Node, NodeCondition, NodeInfo, NodeSpec, NodeStatus
from beehive.api.nodeupgradejob import JobStatus, NodeUpgradeJob, NodeUpgradeJobSpec
from modules.informer.cache import Cache, Change, Changed, Gone
from modules.informer.kinds import same_job, same_node


def node(name: str, version: int, uid: str = "u", *, cordoned: bool = False, beat: str = "") -> Node:
    return Node(
        metadata=ObjectMeta(name=name, uid=uid, resource_version=str(version)),
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(conditions=(NodeCondition(type="Ready", status="True", last_heartbeat_time=beat or None),)),
    )


def cache() -> Cache[Node]:
    return Cache(same_node)


def test_a_list_tells_what_is_new_changed_and_gone() -> None:
    kept = cache()
    first = [node("a", 1), node("b", 2), node("c", 3)]
    assert kept.replace(first, "5") == [Changed(one) for one in first]
    changed = node("b", 7, cordoned=True)
    assert kept.replace([node("a", 1), changed], "9") == [Gone("c", "u"), Changed(changed)]
    assert set(kept.objects()) == {node("a", 1), changed}


def test_a_heartbeat_is_kept_and_not_told() -> None:
    kept = cache()
    kept.put(node("a", 1, beat="08:00"))
    assert kept.put(node("a", 2, beat="08:05")) == []
    assert kept.get("a") == node("a", 2, beat="08:05")


def test_old_news_are_dropped() -> None:
    kept = cache()
    kept.replace([node("a", 5)], "10")
    assert kept.put(node("a", 9, cordoned=True)) == []
    assert kept.put(node("b", 10)) == []
    assert kept.remove("a", "10") == []
    assert kept.put(node("b", 11)) == [Changed(node("b", 11))]


def test_an_answer_never_adds_what_is_not_there() -> None:
    """It may have been deleted while the answer was under way, and nobody would say so again."""
    kept = cache()
    assert kept.learn(node("a", 5)) == []
    kept.put(node("a", 5))
    kept.remove("a", "6")
    assert kept.learn(node("a", 5)) == []
    assert len(kept) == 0


def test_an_answer_is_not_taken_back_by_a_late_event() -> None:
    kept = cache()
    kept.put(node("a", 5))
    assert kept.learn(node("a", 8, cordoned=True)) == [Changed(node("a", 8, cordoned=True))]
    assert kept.put(node("a", 6)) == []
    assert kept.put(node("a", 8, cordoned=True)) == []
    assert kept.get("a") == node("a", 8, cordoned=True)


def test_one_that_was_made_again_is_gone_and_new() -> None:
    kept = cache()
    kept.put(node("a", 5, "old"))
    assert kept.put(node("a", 9, "new")) == [Gone("a", "old"), Changed(node("a", 9, "new"))]
    assert kept.remove("a", "7") == []  # that was the old one


def test_a_list_that_was_read_before_a_deletion_does_not_revive() -> None:
    kept = cache()
    kept.replace([node("a", 1)], "1")
    kept.remove("a", "7")
    assert kept.replace([node("a", 1)], "6") == []
    assert kept.objects() == ()
    assert kept.put(node("a", 9)) == [Changed(node("a", 9))]


def test_a_list_that_was_read_before_a_creation_does_not_remove() -> None:
    kept = cache()
    kept.put(node("a", 7))
    assert kept.replace([], "6") == []
    assert kept.get("a") == node("a", 7)


def test_a_store_that_was_set_back_rules() -> None:
    """etcd restored from a backup: versions begin again lower, and what they say is the truth."""
    kept = cache()
    kept.replace([node("a", 900), node("b", 800)], "1000")
    kept.put(node("c", 1001))
    kept.remove("b", "1002")
    changes = kept.replace([node("a", 40, cordoned=True), node("b", 30)], "50")
    assert changes == [Gone("c", "u"), Changed(node("a", 40, cordoned=True)), Changed(node("b", 30))]
    assert kept.put(node("a", 51)) == [Changed(node("a", 51))]


def test_the_guard_moves_over_heartbeats_and_over_nothing_else() -> None:
    kept = cache()
    kept.put(node("a", 5))
    kept.put(node("a", 6, beat="08:05"))
    kept.put(node("a", 7, beat="08:10"))
    assert kept.guard("a", "u", "5") == "7"
    assert kept.guard("a", "u", "4") == "4"  # decided on something that we did not see
    assert kept.guard("a", "u", "9") == "9"  # on something newer than what we saw
    assert kept.guard("a", "other", "5") == "5"
    assert kept.guard("b", "u", "5") == "5"
    assert kept.guard("a", "u", "") == ""
    kept.put(node("a", 8, cordoned=True))
    assert kept.guard("a", "u", "7") == "7"
    assert kept.guard("a", "u", "8") == "8"


def test_what_counts_as_the_same_node() -> None:
    base = node("a", 1, beat="08:00")
    meta = base.metadata

    def but(**changes: object) -> Node:
        return msgspec.structs.replace(base, metadata=msgspec.structs.replace(meta, **changes))

    assert same_node(base, node("a", 2, beat="09:00"))
    assert same_node(base, but(creation_timestamp="x"))
    for other in (
        but(uid="v"),
        but(labels={"a": "b"}),
        but(annotations={"a": "b"}),
        but(deletion_timestamp="now"),
        but(finalizers=("a",)),
        node("a", 1, cordoned=True),
        msgspec.structs.replace(
            base, status=NodeStatus(conditions=base.status.conditions, node_info=NodeInfo(architecture="arm64"))
        ),
        msgspec.structs.replace(base, status=NodeStatus()),
        msgspec.structs.replace(base, status=NodeStatus(conditions=(NodeCondition(type="Ready", status="Unknown"),))),
        msgspec.structs.replace(
            base, status=NodeStatus(conditions=(NodeCondition(type="Ready", status="True", message="m"),))
        ),
    ):
        assert not same_node(base, other), other


def test_what_counts_as_the_same_job() -> None:
    spec = NodeUpgradeJobSpec(version="v1.23.0", node_names=("a",))
    base = NodeUpgradeJob(metadata=ObjectMeta(name="j", uid="u", resource_version="1"), spec=spec)
    later = msgspec.structs.replace(base, metadata=ObjectMeta(name="j", uid="u", resource_version="2"))
    assert same_job(base, later)
    assert not same_job(base, msgspec.structs.replace(base, status=JobStatus(phase="Init")))
    assert not same_job(base, msgspec.structs.replace(base, spec=msgspec.structs.replace(spec, suspend=True)))


# ---- laws ----------------------------------------------------------------------------------------------------------


class Store:
    """The truth: objects with versions, and the history that a watch would bring."""

    def __init__(self) -> None:
        self.version = 1
        self.objects: dict[str, Node] = {}
        self.history: list[tuple[str, Node]] = []

    def happen(self, what: str, name: str) -> None:
        self.version += 1
        old = self.objects.get(name)
        if what == "delete":
            if old:
                del self.objects[name]
                gone = msgspec.structs.replace(old.metadata, resource_version=str(self.version))
                self.history.append(("DELETED", msgspec.structs.replace(old, metadata=gone)))
            return
        uid = old.metadata.uid if old else f"uid-{self.version}"
        cordoned = old is not None and (old.spec.unschedulable != (what == "change"))
        new = node(name, self.version, uid, cordoned=cordoned, beat=str(self.version))
        self.objects[name] = new
        self.history.append(("MODIFIED", new))


steps = st.tuples(
    st.sampled_from(["create", "change", "beat", "delete", "watch", "watch", "list", "finish", "read", "answer"]),
    st.sampled_from("abc"),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=60))
def test_however_news_arrive_the_cache_ends_at_the_truth_and_tells_it(happenings: list[tuple[str, str]]) -> None:
    """A watch that lags, lists that finish late, answers that come late: versions never fall, and at the end of the
    history cache, truth and what was told agree."""
    store, kept = Store(), cache()
    told: dict[str, Node] = {}
    versions: dict[str, int] = {}
    position = 0
    listing: tuple[list[Node], str] | None = None
    answers: list[Node] = []

    def tell(changes: list[Change[Node]]) -> None:
        for change in changes:
            if isinstance(change, Gone):
                assert told.pop(change.name).metadata.uid == change.uid
            else:
                told[change.object.metadata.name] = change.object
        for one in kept.objects():
            version = int(one.metadata.resource_version)
            assert version >= versions.get(one.metadata.uid, 0)
            versions[one.metadata.uid] = version

    def bring(to: int) -> None:
        nonlocal position
        for what, one in store.history[position:to]:
            if what == "DELETED":
                tell(kept.remove(one.metadata.name, one.metadata.resource_version))
            else:
                tell(kept.put(one))
        position = max(position, min(to, len(store.history)))

    tell(kept.replace([], "1"))
    for what, name in happenings:
        match what:
            case "watch":
                bring(position + 1)
            case "list":
                listing = list(store.objects.values()), str(store.version)
            case "finish" if listing and int(listing[1]) >= kept.floor:
                tell(kept.replace(*listing))
                listing = None
            case "read" if name in store.objects:
                answers.append(store.objects[name])
            case "answer" if answers:
                tell(kept.learn(answers.pop(0)))
            case "create" | "change" | "beat" | "delete":
                store.happen(what, name)
    bring(len(store.history))
    assert {one.metadata.name: one for one in kept.objects()} == store.objects
    assert told.keys() == store.objects.keys()
    assert all(same_node(told[name], one) for name, one in store.objects.items())
    for name, one in store.objects.items():
        assert kept.guard(name, one.metadata.uid, told[name].metadata.resource_version) == one.metadata.resource_version
