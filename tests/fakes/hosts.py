"""A host in memory: the module `upgrader` with a script, and what survives a power cut. For stories in virtual time.

The real one is `modules/upgrader`, on temporary directories in `tests/modules/upgrader` and in `tests/real`.
"""

import asyncio

from beehive.api import nodeupgradejob as api
from beehive.api.version import is_newer, same
from beehive.messages.host import Evidence, Inspect, OwnerSaid, RunStep, StepDone, StopStep, Verdict, WatchStep
from beehive.module import Endpoint


class Disk:
    """What a power cut leaves: the installed version, the tool's verdicts, and how often it was swapped."""

    def __init__(self, version: str, *, crashes_on: str = "") -> None:
        self.version = version
        self.crashes_on = crashes_on
        """Version that exits at once on this host's data."""
        self.verdicts: dict[tuple[str, int], Verdict] = {}
        self.swaps: list[str] = []
        self.runs: set[tuple[str, int]] = set()
        """Attempts whose tool runs: it is a process of its own, and survives the agent."""


class MemoryUpgrader:
    """The module `upgrader` over a `Disk`; each step takes its seconds."""

    accepts = (RunStep, WatchStep, StopStep, Inspect)
    sends = (StepDone, OwnerSaid)
    asks = ()

    def __init__(self, disk: Disk, *, check: float = 2, back_up: float = 3, swap: float = 5) -> None:
        self.disk = disk
        self.seconds = {api.CHECK: check, api.BACK_UP: back_up, api.UPGRADE: swap}

    async def run(self, endpoint: Endpoint) -> None:
        endpoint.ready()
        steps: set[asyncio.Task[None]] = set()
        async for envelope in endpoint.messages():
            body = envelope.body
            if isinstance(body, Inspect):
                endpoint.reply(envelope, self._evidence(body))
            elif isinstance(body, RunStep | WatchStep):
                steps.add(asyncio.ensure_future(self._step(endpoint, body)))
        for step in steps:
            step.cancel()

    def _evidence(self, ask: Inspect) -> Evidence:
        key = (ask.uid, ask.attempt)
        return Evidence(self.disk.version, True, True, key in self.disk.runs, self.disk.verdicts.get(key))

    async def _step(self, endpoint: Endpoint, run: RunStep | WatchStep) -> None:
        if run.step == api.WAITING_CONFIRMATION:
            return
        await asyncio.sleep(self.seconds.get(run.step, 0))
        verdict = self._done(run)
        if not endpoint.inbox.closed:
            endpoint.publish(
                StepDone(
                    uid=run.uid, attempt=run.attempt, step=verdict.step, ok=verdict.ok, code=verdict.code,
                    reason=verdict.reason, from_version=verdict.from_version, to_version=verdict.to_version,
                )
            )  # fmt: skip

    def _done(self, run: RunStep | WatchStep) -> Verdict:
        here, wanted = self.disk.version, run.spec.version
        if run.step == api.CHECK and same(here, wanted):
            return Verdict(api.CHECK, False, "AlreadyAtVersion", f"already at {wanted}", here, here)
        if run.step == api.CHECK and is_newer(here, wanted) and not run.spec.allow_downgrade:
            return Verdict(api.CHECK, False, "Newer", f"{here} is newer than {wanted}", here, here)
        if run.step in (api.UPGRADE, api.ROLL_BACK):
            return self._upgraded(run, here, wanted)
        return Verdict(run.step, True, from_version=here, to_version=here)

    def _upgraded(self, run: RunStep | WatchStep, here: str, wanted: str) -> Verdict:
        key = (run.uid, run.attempt)
        if key not in self.disk.verdicts:
            self.disk.swaps.append(wanted)
            if wanted == self.disk.crashes_on:
                self.disk.swaps.append(here)
                reason = f'rolled back: {wanted} exited with code 1 after 0.3 s: "cannot open database: schema 9"'
                self.disk.verdicts[key] = Verdict(api.UPGRADE, False, "RolledBack", reason, here, here)
            else:
                self.disk.version = wanted
                self.disk.verdicts[key] = Verdict(api.UPGRADE, True, from_version=here, to_version=wanted)
        return self.disk.verdicts[key]
