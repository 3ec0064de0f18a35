"""The verdict as numbers, for `/metrics`. Pure."""

from beehive.figures import GAUGE, Metric
from modules.etcdmanager.learners import lag
from modules.etcdmanager.members import Verdict
from modules.etcdmanager.quorum import ghosts
from modules.etcdmanager.sight import Seen, alarms

_SAID = {
    "etcd_voters": "Voters in the member list",
    "etcd_voters_living": "Voters that answered in the last pass",
    "etcd_voters_needed": "Voters that a quorum needs",
    "etcd_learners": "Learners in the member list",
    "etcd_members_unhealthy": "Members, voters and learners, that did not answer in the last pass",
    "etcd_learner_lag_entries": "Log entries by which the last learner is behind the leader",
    "etcd_learner_idle_seconds": "For how long a learner has made no progress",
    "etcd_ghosts": "Members that no Node claims",
    "etcd_alarms": "Alarms that are raised",
    "etcd_has_quorum": "1 while a majority of the voters answers and names one leader",
    "etcd_may_add_member": "1 while a member may be added",
    "etcd_critical_nodes": "Nodes whose loss now would cost the quorum",
    "etcd_term": "The raft term",
    "etcd_last_success_timestamp_seconds": "When the members were last seen, since the epoch",
}
METRICS = {name: Metric(f"beehive_{name}", GAUGE, text) for name, text in _SAID.items()}
"""By the name that `figures` gives; shown by the process that looks at etcd and leads, else absent."""
ALL = tuple(METRICS.values())


def figures(seen: Seen, verdict: Verdict, now: float) -> dict[str, float]:
    """Gauges of one pass; times in seconds."""
    learners = [one for one in seen.members if one.is_learner]
    lags = [found for one in learners if (found := lag(one, seen, verdict.facts)) is not None]
    return {
        "etcd_voters": verdict.quorum.voters,
        "etcd_voters_living": verdict.quorum.living,
        "etcd_voters_needed": verdict.quorum.needed,
        "etcd_learners": len(learners),
        "etcd_members_unhealthy": len(seen.members) - len(verdict.facts.alive),
        "etcd_learner_lag_entries": max(lags, default=0),
        "etcd_learner_idle_seconds": max((now - one.since for one in verdict.memory.clocks.values()), default=0.0),
        "etcd_ghosts": len(ghosts(seen)),
        "etcd_alarms": len(alarms(seen)),
        "etcd_has_quorum": float(verdict.facts.has_quorum),
        "etcd_may_add_member": float(not verdict.quorum.why_not_add),
        "etcd_critical_nodes": len(verdict.quorum.critical),
        "etcd_term": verdict.facts.term,
        "etcd_last_success_timestamp_seconds": now,
    }
