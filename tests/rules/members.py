"""What the tests of etcdmanager's rules share: members, probes, looks."""

from modules.etcdmanager.learners import Clock, Patience
from modules.etcdmanager.members import Memory, Verdict, judge
from modules.etcdmanager.sight import SILENT, STARTING, Member, Probe, Seen

NOW = 1_000_000.0
PATIENCE = Patience()
NODES = {"server-1": "m-1", "server-2": "m-2", "server-3": "m-3"}
URL = ("https://x:2379",)


def member(number: int, *, learner: bool = False, urls: tuple[str, ...] = URL, name: str | None = None) -> Member:
    return Member(number, f"m-{number}" if name is None else name, urls, learner)


def answer(
    number: int, *, leads: int = 1, term: int = 2, learner: bool = False, errors: tuple[str, ...] = (), index: int = 100
) -> Probe:  # fmt: skip
    return Probe(
        member_id=number, leader=leads, term=term, is_learner=learner, errors=errors, index=index, applied=index,
        db_size=41_000_000, version="3.6.16",
    )  # fmt: skip


DEAD = Probe(trouble="failed to check etcd member status: https://x:2379 did not answer in 2 s", state=SILENT)
HUNG = Probe(trouble="failed to check etcd member status: https://x:2379 stays silent", state=STARTING)
THREE = tuple(member(number) for number in (1, 2, 3))
WELL = {number: answer(number) for number in (1, 2, 3)}


def seen(
    members: tuple[Member, ...] = THREE, probes: dict[int, Probe] | None = None, nodes: dict[str, str] | None = None,
    **more: object,
) -> Seen:  # fmt: skip
    """A look that a majority confirmed, unless said otherwise."""
    known = WELL if probes is None else probes
    return Seen(members, known, NODES if nodes is None else nodes, **{"fenced": True, **more})  # type: ignore[arg-type]


def judged(look: Seen, memory: Memory | None = None, now: float = NOW) -> Verdict:
    return judge(look, memory or Memory(), now, PATIENCE)


def idle(number: int, seconds: float, *, match: int = 0, applied: int = 0) -> Memory:
    """The memory of a learner that last moved so long ago."""
    return Memory(clocks={number: Clock(f"m-{number}", match, applied, NOW - seconds)})
