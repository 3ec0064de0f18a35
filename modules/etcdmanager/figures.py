"""The verdict as numbers, for `/metrics`. Pure."""

from modules.etcdmanager.learners import lag
from modules.etcdmanager.members import Verdict
from modules.etcdmanager.quorum import ghosts
from modules.etcdmanager.sight import Seen, alarms


def figures(seen: Seen, verdict: Verdict, now: float) -> dict[str, float]:
    """Gauges of one pass; times in seconds."""
    learners = [one for one in seen.members if one.is_learner]
    lags = [found for one in learners if (found := lag(one, seen, verdict.facts)) is not None]
    return {
        "etcd_voters": verdict.quorum.voters,
        "etcd_voters_living": verdict.quorum.living,
        "etcd_voters_needed": verdict.quorum.needed,
        "etcd_learners": len(learners),
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
