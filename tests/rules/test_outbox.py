"""What the cloud has not yet seen."""

from hypothesis import given
from hypothesis import strategies as st

from beehive.api.nodeupgradejob import ActionResult
from beehive.messages.tasks import ReportSeen, TaskReport
from modules.edgehub.outbox import Kept, Outbox, key, record


def report(revision: int, uid: str = "u", attempt: int = 0, results: int = 0, final: bool = False) -> TaskReport:
    done = tuple(ActionResult(action=f"a{number}", status="True") for number in range(results))
    return TaskReport(job="j", uid=uid, attempt=attempt, revision=revision, action="Check", results=done, final=final)


def seen(revision: int, uid: str = "u", attempt: int = 0) -> ReportSeen:
    return ReportSeen(job="j", uid=uid, attempt=attempt, revision=revision)


def test_a_later_snapshot_replaces_an_earlier_one_and_never_the_other_way() -> None:
    box = Outbox()
    assert box.put(report(2)) == Kept(report(2))
    assert box.put(report(1)) is None
    assert box.put(report(2)) is None
    assert box.put(report(3)) == Kept(report(3))
    assert box.all() == (report(3),)


def test_it_leaves_when_its_revision_or_a_later_one_was_seen() -> None:
    box = Outbox([Kept(report(3))])
    assert not box.seen(seen(2))
    assert not box.seen(seen(3, uid="other"))
    assert not box.seen(seen(3, attempt=1))
    assert box.all() == (report(3),)
    assert box.seen(seen(3))
    assert not box.seen(seen(3))
    assert len(box) == 0


def test_attempts_are_apart() -> None:
    box = Outbox()
    box.put(report(9, attempt=0))
    box.put(report(1, attempt=1))
    assert box.seen(seen(9, attempt=0))
    assert box.all() == (report(1, attempt=1),)


def test_its_record() -> None:
    assert record(key(report(1, uid="11111111-1111-4111-8111-111111111111"))) == (
        "report-11111111-1111-4111-8111-111111111111-0"
    )
    assert record(("m", -1)) == "report-m--1"


def test_to_a_cloud_that_acknowledges_nothing_each_result_goes_once() -> None:
    box = Outbox()
    box.put(report(1, results=1))
    (first,) = box.unsaid(("u", 0))
    assert first.action == "a0"
    assert box.said(("u", 0)) == Kept(report(1, results=1), 1)
    assert box.unsaid(("u", 0)) == ()
    assert box.put(report(2, results=3, final=True)) == Kept(report(2, results=3, final=True), 1)
    assert [one.action for one in box.unsaid(("u", 0))] == ["a1", "a2"]
    assert box.said(("u", 0)) == Kept(report(2, results=3, final=True), 2)
    assert box.said(("u", 0)) is None
    assert len(box) == 0
    assert box.unsaid(("u", 0)) == ()


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=40))
def test_what_is_kept_is_the_newest_that_was_not_seen(events: list[tuple[bool, int]]) -> None:
    box = Outbox()
    newest: int | None = None
    for puts, revision in events:
        if puts:
            box.put(report(revision))
            newest = max(newest or 0, revision)
        elif box.seen(seen(revision)):
            assert newest is not None
            assert revision >= newest
            newest = None
        assert [one.revision for one in box.all()] == ([] if newest is None else [newest])
