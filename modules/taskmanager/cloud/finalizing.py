"""Our finalizer: on before anything else, off when nothing of the job is left."""

from beehive.world import World, from_rfc3339
from modules.taskmanager.cloud.alarm import Alarm
from modules.taskmanager.cloud.books import Books, JobDesk
from modules.taskmanager.cloud.writing import Writing
from modules.taskmanager.cordon import cordon_of

_PATIENCE = 30.0
"""A deletion waits this long for cordons to be undone, in seconds; the rule undoes them afterwards too."""


class Finalizing:
    """The finalizers of one term."""

    def __init__(self, books: Books, writing: Writing, alarm: Alarm, world: World) -> None:
        self.waits = False
        """A deletion waits for cordons to be undone."""
        self._books = books
        self._writing = writing
        self._alarm = alarm
        self._world = world

    def look(self) -> None:
        """Begin what is to be written of finalizers."""
        self.waits = False
        for desk in self._books.desks.values():
            if not desk.writing:
                self._tend(desk)

    def _tend(self, desk: JobDesk) -> None:
        if desk.not_before > self._alarm.now:
            self._alarm.soon(desk.not_before)
        elif not desk.deleting and not desk.is_ours and desk.open:
            self._writing.finalizer(desk, there=True)
        elif desk.deleting and desk.is_ours and self._is_cleared(desk):
            self._writing.finalizer(desk, there=False)

    def _is_cleared(self, desk: JobDesk) -> bool:
        """No node is cordoned for it any more, or it was waited for long enough: a deletion never hangs."""
        held = (cordon_of(self._books.nodes[name]) for name in self._books.ours)
        if not any(one is not None and one.uid == desk.uid for one in held):
            return True
        try:
            over = from_rfc3339(desk.job.metadata.deletion_timestamp or "") + _PATIENCE
        except ValueError:
            return True
        left = over - self._world.now()
        self.waits = self.waits or left > 0
        if left > 0:
            self._alarm.soon(self._alarm.now + left)
        return left <= 0
