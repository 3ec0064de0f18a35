"""Several candidates, one store that swaps by version, any pauses, losses and clocks: never two leaders."""

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beehive.api.lease import Lease
from modules.informer.lease import Acquire, Lost, Renew, Standing, Terms, decide, granted, released, seen


class Store:
    """Compare and swap, as the API server does it."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0

    def write(self, lease: Lease) -> Lease | None:
        """The lease as it stands now; None for a conflict."""
        current = self.lease.metadata.resource_version if self.lease else ""
        if lease.metadata.resource_version != current:
            return None
        self.version += 1
        metadata = msgspec.structs.replace(lease.metadata, resource_version=str(self.version))
        self.lease = msgspec.structs.replace(lease, metadata=metadata)
        return self.lease


class Candidate:
    """A process; its clock has an offset of its own, and its calls take as long as the test says."""

    def __init__(self, number: int, offset: float, terms: Terms) -> None:
        self.offset = offset
        self.terms = msgspec.structs.replace(terms, identity=f"candidate-{number}")
        self.standing = Standing()
        self.answer: tuple[float, Lease | None] | None = None

    def leads(self, now: float) -> bool:
        return self.standing.grant > now + self.offset

    def turn(self, store: Store, sent: float) -> None:
        """Look and act; the answer is under way until `hear`, and lost with the next turn."""
        if not self.standing.grant:
            self.standing = seen(self.standing, store.lease, sent + self.offset)
        decision = decide(self.standing, self.terms, sent + self.offset, sent)
        if isinstance(decision, Lost):
            self.standing = Standing(self.standing.lease, self.standing.since)
        if not isinstance(decision, Acquire | Renew):
            return
        self.answer = sent, store.write(decision.lease)

    def hear(self, store: Store, heard: float) -> None:
        """The answer to the last write comes."""
        answer, self.answer = self.answer, None
        if answer is None:
            return
        sent, lease = answer
        if lease is None:
            self.standing = seen(self.standing, store.lease, heard + self.offset)
            return
        standing = granted(self.standing, lease, sent + self.offset, heard + self.offset, self.terms)
        late = standing.grant <= heard + self.offset
        self.standing = Standing(standing.lease, standing.since) if late else standing

    def release(self, store: Store) -> None:
        lease, leading = self.standing.lease, self.standing.grant > 0
        self.standing = Standing(lease, self.standing.since)
        if leading and lease:
            store.write(released(lease, 0.0))


turns = st.tuples(
    st.sampled_from(["turn", "turn", "turn", "hear", "hear", "hear", "turn and hear", "release"]),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.1, 1.0, 4.9, 5.1, 9.9, 10.1, 14.9, 15.1, 60.0]),
)


@example([("turn", 0, 0.0), ("turn", 1, 0.0), ("hear", 0, 9.9), ("turn and hear", 1, 5.1)], [0.0] * 3, 10.0)
@settings(max_examples=500, deadline=None)
@given(st.lists(turns, max_size=40), st.lists(st.floats(0, 1e6), min_size=3, max_size=3), st.floats(0.1, 14.9))
def test_never_two_leaders(happenings: list[tuple[str, int, float]], offsets: list[float], deadline: float) -> None:
    """Writes are applied when they are sent and heard of any time later, or never; everybody looks in between."""
    terms = Terms(name="l", namespace="n", identity="", duration=15, deadline=deadline, retry=deadline / 2)
    store, now = Store(), 0.0
    candidates = [Candidate(number, offset, terms) for number, offset in enumerate(offsets)]
    for what, which, pause in happenings:
        now += pause
        if what == "release":
            candidates[which].release(store)
        if "turn" in what:
            candidates[which].turn(store, now)
        if "hear" in what:
            candidates[which].hear(store, now)
        # Times are large numbers with offsets: allow what a float loses.
        leaders = [one for one in candidates if one.leads(now + 1e-6)]
        assert len(leaders) <= 1, f"{[one.terms.identity for one in leaders]} lead at {now}"


@given(st.integers(0, 2), st.floats(0, 1))
def test_somebody_leads_again_after_a_death(dead: int, phase: float) -> None:
    """Within duration + one period after the last renewal, whoever has died."""
    terms = Terms(name="l", namespace="n", identity="", duration=15, deadline=10, retry=2)
    store = Store()
    candidates = [Candidate(number, 0, terms) for number in range(3)]
    candidates[dead].turn(store, 0)
    candidates[dead].hear(store, 0)
    assert candidates[dead].leads(0)
    now, living = phase * terms.retry, [one for index, one in enumerate(candidates) if index != dead]
    while not any(one.leads(now) for one in living):
        for one in living:
            one.turn(store, now)
            one.hear(store, now)
        now += terms.retry
        assert now <= terms.duration + 2 * terms.retry + phase
    assert now >= terms.deadline


def test_a_release_is_taken_over_at_the_next_look() -> None:
    terms = Terms(name="l", namespace="n", identity="")
    store = Store()
    first, second = Candidate(0, 0, terms), Candidate(1, 0, terms)
    first.turn(store, 0)
    first.hear(store, 0)
    second.turn(store, 1)
    second.hear(store, 1)
    assert not second.leads(1)
    first.release(store)
    assert not first.leads(1.5)
    second.turn(store, 2)
    second.hear(store, 2)
    assert second.leads(2)
