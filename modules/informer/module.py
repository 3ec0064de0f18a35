"""The shell: takes requests and answers them beside each other, while reflectors, Lease and Events run on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from beehive.api.node import Node
from beehive.api.nodeupgradejob import NodeUpgradeJob
from beehive.errors import Unavailable
from beehive.figures import Figures
from beehive.inbox import fail
from beehive.message import Envelope, Event
from beehive.messages.objects import (
    GetSecret,
    JobChanged,
    JobGone,
    Jobs,
    LeadershipChanged,
    ListJobs,
    ListNodes,
    NodeChanged,
    NodeGone,
    Nodes,
    PatchJob,
    PatchJobStatus,
    PatchNode,
    PatchNodeCondition,
    PatchObject,
    PutSecret,
    RecordEvent,
    SecretChanged,
)
from beehive.messages.runtime import Draining
from beehive.module import Endpoint
from beehive.world import World
from modules.informer import figures as shown
from modules.informer.cache import Change, Gone
from modules.informer.client import Client
from modules.informer.config import Config, checked
from modules.informer.connection import Connection
from modules.informer.contest import Contest, warning
from modules.informer.exhibit import Exhibit
from modules.informer.kinds import JOBS, NODES, SecretMark, secrets_in
from modules.informer.leadership import Leadership
from modules.informer.others import Others
from modules.informer.recorder import Recorder
from modules.informer.reflector import Reflector
from modules.informer.role import Role
from modules.informer.writes import Writer

_LAST_WRITES = 5.0
_LAST_EVENTS = 1.0
_SIGN_OF_LIFE = 5.0


class Informer:
    """See `beehive.messages.objects` for what it says and answers."""

    accepts = (
        ListJobs,
        ListNodes,
        PatchJobStatus,
        PatchJob,
        PatchNode,
        PatchNodeCondition,
        PatchObject,
        GetSecret,
        PutSecret,
        RecordEvent,
        Draining,
    )
    sends = (JobChanged, JobGone, NodeChanged, NodeGone, SecretChanged, LeadershipChanged)
    asks = ()

    def __init__(self, config: Config, world: World, client: Callable[[Connection, float], Client] = Client) -> None:
        self._config = checked(config)
        self._world = world
        self._make_client = client
        self.figures = Figures(*shown.ALL)
        self.figures.set(shown.LEASE, 0)
        self._contest = Contest()

    @property
    def warning(self) -> str:
        """What an operator should know although all works; empty when there is nothing."""
        return warning(self._contest.standing(self._world.now()))

    async def run(self, endpoint: Endpoint) -> None:
        """Work until the messages end; then finish the writes in flight and release the Lease.

        Raises ConfigError where nothing says which API server.
        """
        async with Connection(self._config) as connection:
            client = self._make_client(connection, self._config.request_timeout)
            work = _Work(endpoint, client, self._config, self._world, self.figures, self._contest)
            try:
                async with asyncio.TaskGroup() as group:
                    await work.run(group)
            except BaseExceptionGroup as failures:
                raise _first(failures) from None


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one failure that people should read."""
    inner = failures.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


class _Work:
    """One run of the informer."""

    def __init__(
        self, endpoint: Endpoint, client: Client, config: Config, world: World, figures: Figures, contest: Contest
    ) -> None:
        self._endpoint = endpoint
        self._figures = figures
        self._client = client
        noting = replace(JOBS, read=contest.reading(JOBS.read))
        self._jobs = Reflector(noting, client, config, world, self._tell_jobs)
        self._nodes = Reflector(NODES, client, config, world, self._tell_nodes)
        self._secrets = Reflector(secrets_in(config.namespace), client, config, world, self._tell_secrets)
        self._leadership = Leadership(client, config, world, self._tell_grant)
        self._role = Role(client, config.namespace, config.pod) if config.pod else None
        grant = self._leadership.grant
        jobs = Writer(JOBS, self._jobs.cache, client, grant, self._tell_jobs)
        nodes = Writer(NODES, self._nodes.cache, client, grant, self._tell_nodes, config.writes)
        self._recorder = Recorder(client, world, nodes.is_busy)
        clock = asyncio.get_running_loop().time
        self._exhibit = Exhibit(figures, contest, self._recorder, world, lambda: grant() > clock())
        self._exhibit.derive(client)
        others = Others(client, config.namespace)
        self._answers: dict[type, Callable[[Any, Callable[[], bool]], Awaitable[object]]] = {
            ListJobs: lambda request, _: self._list_jobs(request),
            ListNodes: lambda request, _: self._list_nodes(),
            PatchJobStatus: lambda request, wanted: jobs.patch(request, "/status", wanted),
            PatchJob: lambda request, wanted: jobs.patch(request, "", wanted),
            PatchNode: lambda request, wanted: nodes.patch(request, "", wanted),
            PatchNodeCondition: nodes.condition,
            PatchObject: lambda request, _: others.patch_object(request),
            GetSecret: lambda request, _: others.get_secret(request),
            PutSecret: lambda request, _: others.put_secret(request),
        }
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self, group: asyncio.TaskGroup) -> None:
        look = self._look
        own = [group.create_task(one.run(look)) for one in (self._jobs, self._nodes, self._secrets)]
        own += [group.create_task(one) for one in (self._recorder.run(), self._lead(), self._say_until_synced())]
        own += [group.create_task(self._role.run())] if self._role else []
        async for envelope in self._endpoint.messages():
            self._take(envelope, group)
        await self._finish()
        for task in own:
            task.cancel()
        await asyncio.wait(own)
        await self._leadership.release()

    async def _lead(self) -> None:
        """Who can't see the objects must not hold the Lease, so the claim begins after the first lists."""
        await self._synced()
        await self._leadership.run(self._look)

    async def _synced(self) -> None:
        await self._jobs.synced.wait()
        await self._nodes.synced.wait()

    async def _say_until_synced(self) -> None:
        """A start that waits is not hung, and says so: every call has its timeout, and the next try follows."""
        while not (self._jobs.synced.is_set() and self._nodes.synced.is_set()):
            self._look()
            await asyncio.sleep(_SIGN_OF_LIFE)

    def _look(self) -> None:
        """Say what we wait for, or that we are ready."""
        troubles = (self._nodes.trouble, self._jobs.trouble, self._leadership.trouble)
        trouble = next((one for one in troubles if one), "")
        synced = self._jobs.synced.is_set() and self._nodes.synced.is_set()
        if trouble:
            self._endpoint.waiting_for(trouble)
        elif synced:
            self._endpoint.ready()
        else:
            missing = [one.kind.title for one in (self._nodes, self._jobs) if not one.synced.is_set()]
            self._endpoint.waiting_for(f"the first list of {' and '.join(missing)} from {self._client.where}")

    # ---- answering ---------------------------------------------------------------------------------------------

    def _take(self, envelope: Envelope, group: asyncio.TaskGroup) -> None:
        body = envelope.body
        if isinstance(body, RecordEvent):
            self._recorder.record(body)
        elif isinstance(body, Draining):
            self._leadership.candidate = False
        else:
            task = group.create_task(self._answer(envelope))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, envelope: Envelope) -> None:
        """Each in a task of its own, so that a slow one holds up nobody; who asked always hears something."""
        waiting = envelope.answer_to
        if waiting is None:
            raise ValueError(f"{type(envelope.body).__name__} from {envelope.source} is not a request")
        try:
            answer = await self._answers[type(envelope.body)](envelope.body, lambda: not waiting.done())
            self._endpoint.reply(envelope, answer)
        except Unavailable as error:
            fail(envelope, f"{self._endpoint.name} has no answer: {error.reason}")
        finally:
            fail(envelope, f"{self._endpoint.name} stopped before it had an answer")

    async def _list_jobs(self, request: ListJobs) -> Jobs:
        await self._synced()
        if request.fresh:
            await self._jobs.fresh()
        return Jobs(self._jobs.cache.objects())

    async def _list_nodes(self) -> Nodes:
        await self._synced()
        return Nodes(self._nodes.cache.objects())

    async def _finish(self) -> None:
        if self._answering:
            _, late = await asyncio.wait(set(self._answering), timeout=_LAST_WRITES)
            for task in late:
                task.cancel()
        try:
            async with asyncio.timeout(_LAST_EVENTS):
                await self._recorder.flush()
        except TimeoutError:
            pass

    # ---- telling -----------------------------------------------------------------------------------------------

    def _tell_jobs(self, changes: list[Change[NodeUpgradeJob]]) -> None:
        self._exhibit.jobs_changed(self._jobs.cache.objects(), changes)
        self._publish(changes, lambda job: JobChanged(job=job), JobGone)

    def _tell_nodes(self, changes: list[Change[Node]]) -> None:
        self._publish(changes, lambda node: NodeChanged(node=node), NodeGone)

    def _tell_secrets(self, changes: list[Change[SecretMark]]) -> None:
        self._publish(changes, _secret_changed, lambda name, uid: SecretChanged(name=name))

    def _publish(self, changes: list[Change[Any]], changed: Callable[[Any], Event], gone: Callable[..., Event]) -> None:
        for change in changes:
            if isinstance(change, Gone):
                self._endpoint.publish(gone(name=change.name, uid=change.uid))
            else:
                self._endpoint.publish(changed(change.object))

    def _tell_grant(self, until: float) -> None:
        self._endpoint.publish(LeadershipChanged(until=until))
        self._figures.set(shown.LEASE, float(until > 0))
        if self._role:
            self._role.tell(until > 0)


def _secret_changed(mark: SecretMark) -> SecretChanged:
    return SecretChanged(name=mark.metadata.name)
