"""Brings the nodes in line with the rule of `cordon.py`: many patches at once, one at a time for each node."""

import logging
from collections.abc import Iterator

import msgspec

from beehive.api.node import Node, version_of
from beehive.api.nodeupgradejob import SUCCESSFUL
from beehive.backoff import doubling
from beehive.messages.objects import Away, Denied, Missing, Patched, PatchNode, Stale, WriteAnswer
from modules.taskmanager import codes
from modules.taskmanager.cloud.alarm import Alarm
from modules.taskmanager.cloud.background import Background
from modules.taskmanager.cloud.books import Books
from modules.taskmanager.cloud.notes import NodeWritten
from modules.taskmanager.config import CloudConfig
from modules.taskmanager.cordon import Change, Owner, Patch, cordon_of, late_history, patch_of, stands

log = logging.getLogger(__name__)


class Trouble(msgspec.Struct, frozen=True):
    """A patch that was refused, and when it is tried again (on the loop's clock)."""

    why: str
    tries: int
    at: float


class UnderWay(msgspec.Struct, frozen=True):
    """A patch that was not answered yet."""

    uid: str
    version: str
    """resourceVersion that it was decided on."""
    late: Change | None
    """The late success that it tells, if any."""


class Cordons:
    """The node patches of one term."""

    def __init__(self, books: Books, background: Background, alarm: Alarm, config: CloudConfig) -> None:
        self.owners: dict[str, Owner] = {}
        """Node -> the entry in flight that stands in a written status."""
        self.late: dict[str, Change] = {}
        """Node -> a success heard after its cordon was undone."""
        self._books = books
        self._background = background
        self._alarm = alarm
        self._config = config
        self._queue: dict[str, None] = {}
        """Nodes to be looked at, in order."""
        self._under_way: dict[str, UnderWay] = {}
        self._trouble: dict[str, Trouble] = {}

    def refused(self) -> dict[str, str]:
        """Node -> why its cordon is refused."""
        return {node: one.why for node, one in self._trouble.items() if node in self.owners}

    def stands(self, node: str) -> bool:
        """The cordon for the entry in flight on this node was made."""
        owner = self.owners.get(node)
        return owner is not None and stands(self._books.nodes.get(node), owner)

    def assign(self) -> None:
        """Read from the written statuses again whose the nodes are."""
        self.owners = {
            entry.node_name: Owner(desk.job.metadata.name, desk.uid, entry.attempt, entry.historic_version)
            for desk, entry in self._books.in_flight()
            if not desk.deleting
        }

    def mend(self) -> None:
        """Look at every node that the rule concerns."""
        self._queue.update(dict.fromkeys(self._concerned()))
        self._pump()

    def touch(self, name: str) -> None:
        """Look at this node: it changed."""
        self._queue[name] = None
        self._pump()

    def _pump(self) -> None:
        """Begin as many patches as may be under way; the others follow as those are answered."""
        now = self._alarm.now
        while self._queue and len(self._under_way) < self._config.cordons_at_once:
            name = next(iter(self._queue))
            del self._queue[name]
            trouble = self._trouble.get(name)
            if name in self._under_way:
                continue
            if trouble is not None and trouble.at > now:
                self._alarm.soon(trouble.at)
            else:
                self._patch(name)

    def _concerned(self) -> Iterator[str]:
        yield from list(self.owners)
        yield from [name for name in self._books.ours if name not in self.owners]
        yield from [name for name in self.late if name not in self.owners and name not in self._books.ours]

    def _patch(self, name: str) -> None:
        node = self._books.nodes.get(name)
        late = self.late.get(name)
        operations: Patch = ()
        if node is not None:
            operations = patch_of(node, self.owners.get(name), self._success(node))
            if not operations and late is not None:
                operations = late_history(node, late)
            else:
                late = None
        if node is None or not operations:
            self._trouble.pop(name, None)
            self.late.pop(name, None)
            return
        meta = node.metadata
        self._under_way[name] = UnderWay(meta.uid, meta.resource_version, late)
        request = PatchNode(name=name, uid=meta.uid, resource_version=meta.resource_version, operations=operations)
        term = self._background.term
        self._background.ask(request, lambda answer, _: NodeWritten(term=term, node=name, answer=answer))

    def _success(self, node: Node) -> Change | None:
        """How the attempt ended that the node's annotation names, if it went well."""
        held = cordon_of(node)
        desk = self._books.desks.get(held.uid) if held else None
        entry = desk.entry(node.metadata.name) if desk else None
        if held is None or desk is None or entry is None:
            return None
        if entry.phase != SUCCESSFUL or entry.attempt != held.attempt:
            return None
        old = entry.historic_version or held.from_version or codes.version_word(version_of(node))
        return Change(old, entry.current_version or desk.job.spec.version)

    def answered(self, name: str, answer: WriteAnswer) -> None:
        """Take in what came of a patch."""
        sent = self._under_way.pop(name, None)
        if sent is None:
            return
        match answer:
            case Patched(object=Node() as node):
                self._trouble.pop(name, None)
                self._books.adopt_node(node)
                if sent.late is not None and self.late.get(name) == sent.late:
                    del self.late[name]
            case Missing():
                self._trouble.pop(name, None)
                self._books.drop_node(name, sent.uid)
            case Stale(object=Node() as node) if node.metadata.resource_version != sent.version:
                self._books.adopt_node(node)
            case Denied(reason=why) | Away(reason=why):
                self._postpone(name, why)
            case _:
                self._postpone(name, "it was changed by somebody else")
        self.touch(name)

    def _postpone(self, name: str, why: str) -> None:
        former = self._trouble.get(name)
        tries = former.tries + 1 if former else 1
        delays = doubling(self._config.retry_first, self._config.retry_cap)
        pause = next(delay for index, delay in enumerate(delays, 1) if index == min(tries, 16))
        self._trouble[name] = Trouble(why, tries, self._alarm.now + pause)
        if tries == 1:
            log.warning("node %s cannot be patched for now: %s", name, why)
