"""Whatever a node hears, in whatever order: what never happens."""

from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.api.nodeupgradejob import BACK_UP, CHECK, ROLL_BACK, UPGRADE, WAITING_CONFIRMATION
from beehive.messages.host import OwnerSaid, RunStep, StepDone, StopStep
from beehive.messages.tasks import CancelTask, ReportSeen, SendSnapshot, StartTask, TaskReport
from beehive.messages.uplink import CloudReached, Say
from modules.taskmanager.hearing import pause, step
from modules.taskmanager.record import Moment, Policy, Record
from tests.rules.playing import done, start

POLICY = Policy()

actions = st.sampled_from([CHECK, WAITING_CONFIRMATION, BACK_UP, UPGRADE, ROLL_BACK])
uids, attempts = st.sampled_from(["u1", "u2"]), st.integers(1, 2)
codes_ = st.sampled_from(["", "CheckFailed", "AlreadyAtVersion", "Busy", "RolledBack", "RollbackFailed"])
messages = st.one_of(
    st.none(),
    st.builds(
        lambda u, a, lease, ask: start(u, a, lease, require_confirmation=ask),
        uids, attempts, st.sampled_from([0.0, 5.0, 1e6]), st.booleans(),
    ),
    st.builds(lambda u, a: CancelTask(job="j", uid=u, attempt=a), uids, attempts),
    st.builds(lambda u, a: SendSnapshot(job="j", uid=u, attempt=a), uids, attempts),
    st.builds(
        lambda u, a, r, lease: ReportSeen(job="j", uid=u, attempt=a, revision=r, lease_seconds=lease),
        uids, attempts, st.integers(0, 9), st.sampled_from([0.0, 50.0]),
    ),
    st.builds(
        lambda u, a, s, ok, c: done(s, ok=ok, code=c, uid=u, attempt=a), uids, attempts, actions, st.booleans(), codes_
    ),
    st.builds(lambda u, a, ok: OwnerSaid(uid=u, attempt=a, confirmed=ok), uids, attempts, st.booleans()),
    st.just("it goes well"),
    st.just("it goes well"),
    st.just("it goes badly"),
    st.just(CloudReached(url="x")),
)  # fmt: skip


def in_hand_ends(record: Record, ok: bool) -> StepDone | None:
    """The action in hand ends, whichever it is."""
    attempt = record.attempt
    return done(attempt.step, ok=ok, uid=attempt.uid, attempt=attempt.attempt) if attempt else None


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(messages, st.floats(0, 100)), max_size=40))
def test_whatever_is_heard_in_whatever_order(heard: list[tuple[object, float]]) -> None:
    record, uptime = Record(), 0.0
    revisions: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], TaskReport] = {}
    began: list[tuple[str, int]] = []
    for word, seconds in heard:
        uptime += seconds
        now = Moment(1e9, "boot", uptime)
        message = in_hand_ends(record, word == "it goes well") if isinstance(word, str) else word
        decision = step(record, message, now, POLICY)  # type: ignore[arg-type]
        for effect in decision.effects:
            if isinstance(effect, RunStep):
                attempt = decision.record.attempt
                assert attempt is not None
                assert attempt.is_of(effect.uid, effect.attempt), "only the attempt in the record runs"
                assert attempt.step == effect.step
                if effect.step == UPGRADE:
                    assert attempt.lease is not None
                    assert attempt.lease.left(now) > 0, "no upgrade begins after the lease"
                    began.append((effect.uid, effect.attempt))
            if isinstance(effect, StopStep) and record.attempt is not None:
                assert record.attempt.step not in (UPGRADE, ROLL_BACK), "nothing stops a swap"
            if isinstance(effect, Say) and isinstance(effect.body, TaskReport):
                key = (effect.body.uid, effect.body.attempt)
                assert effect.body.revision >= revisions.get(key, 0) or effect.body in ends.values()
                revisions[key] = max(revisions.get(key, 0), effect.body.revision)
                if effect.body.final:
                    assert ends.setdefault(key, effect.body) == effect.body, "an end stays what it was"
        assert len(began) == len(set(began)), "no attempt upgrades twice without a restart"
        left = pause(decision.record, now, POLICY)
        assert left is None or left >= 0
        record = decision.record


def test_the_start_of_another_never_takes_the_place_of_the_first() -> None:
    record = step(Record(), start("u1"), Moment(0, "b", 0), POLICY).record
    for uid, attempt in (("u2", 1), ("u1", 2)):
        other = StartTask(job="x", uid=uid, attempt=attempt, spec=start().spec, lease_seconds=1)
        record = step(record, other, Moment(0, "b", 0), POLICY).record
        assert record.attempt is not None
        assert record.attempt.is_of("u1", 1)
