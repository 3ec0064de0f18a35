"""Lists: at which version, which part, what remains."""

import base64
import binascii
import itertools
from collections import OrderedDict
from typing import Any, Final, NamedTuple

from modules.demo.apiserver.history import Stored
from modules.demo.apiserver.selectors import Selection
from modules.demo.apiserver.status import Refusal, bad_request, expired, too_new, too_old
from modules.demo.apiserver.store import Store, Table

_SNAPSHOTS: Final = 64
"""Unfinished paged lists that are remembered; the oldest is forgotten first, its token then gets 410."""


class Page(NamedTuple):
    """A part of a list, and its ``metadata``."""

    items: list[Stored]
    metadata: dict[str, Any]


class _Rest(NamedTuple):
    """What a continue token stands for: the items that were not yet given, as they were."""

    version: int
    items: list[Stored]
    counted: bool
    table: Table


class Listing:
    """Makes pages. All pages of one list show one moment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rests: OrderedDict[str, _Rest] = OrderedDict()
        self._ids = itertools.count(1)

    def forget(self) -> None:
        """All continue tokens get 410 from now on."""
        self._rests.clear()

    def first(self, table: Table, namespace: str, selection: Selection, version: str, match: str, limit: int) -> Page:
        """The list, or its first page. 504 for a version not yet reached, 410 for an exact one that is not current."""
        asked = parse_version(version)
        if asked > self._store.version:
            raise too_new(asked, self._store.version)
        if match == "Exact" and asked != self._store.version:
            raise too_old(asked, self._store.version)
        chosen = table.under(namespace)
        if not selection.everything:
            chosen = [stored for stored in chosen if selection.matches(stored.value)]
        return self._cut(_Rest(self._store.version, chosen, selection.everything, table), limit)

    def next(self, table: Table, token: str, limit: int) -> Page:
        """The page after the one that gave ``token``. 410 when it is forgotten, 400 when it never was a token."""
        rest = self._rests.get(_decoded(token))
        if rest is None:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            )
        if rest.table is not table:
            raise bad_request("continue key is not valid: it belongs to another list")
        return self._cut(rest, limit)

    def _cut(self, rest: _Rest, limit: int) -> Page:
        metadata: dict[str, Any] = {"resourceVersion": str(rest.version)}
        if not limit or len(rest.items) <= limit:
            return Page(rest.items, metadata)
        name = str(next(self._ids))
        self._rests[name] = rest._replace(items=rest.items[limit:])
        while len(self._rests) > _SNAPSHOTS:
            self._rests.popitem(last=False)
        metadata["continue"] = base64.urlsafe_b64encode(f"rest:{name}".encode()).decode()
        if rest.counted:
            metadata["remainingItemCount"] = len(rest.items) - limit
        return Page(rest.items[:limit], metadata)


def _decoded(token: str) -> str:
    try:
        text = base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise bad_request("continue key is not valid: it is no base64") from error
    if not text.startswith("rest:"):
        raise bad_request("continue key is not valid: it was not made here")
    return text.removeprefix("rest:")


def parse_version(text: str) -> int:
    """A resourceVersion as a number; none is 0. 400 for anything else."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise Refusal(400, "BadRequest", f'Invalid value: "{text}": resourceVersion must be an unsigned integer')
    return int(text)
