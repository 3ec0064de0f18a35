"""The verbs: get, create, replace, patch, delete, on the objects in the store."""

import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from modules.demo.apiserver import admission, builtin, status
from modules.demo.apiserver.admission import Birth, Options, Write
from modules.demo.apiserver.cel import Rules
from modules.demo.apiserver.history import Stored
from modules.demo.apiserver.kinds import Kind
from modules.demo.apiserver.patching import APPLY_PATCH, patched
from modules.demo.apiserver.selectors import Selection
from modules.demo.apiserver.store import Store, Target

Object = dict[str, Any]

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def rfc3339(now: datetime) -> str:
    """Whole seconds, UTC."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Resources:
    """All verbs. Synchronous, so each is atomic."""

    def __init__(self, store: Store, rules: Rules, now: Callable[[], datetime]) -> None:
        self._store = store
        self._rules = rules
        self._now = now

    def get(self, target: Target) -> Stored:
        """One object; 404."""
        found = target.table.objects.get(target.key)
        if found is None:
            raise status.not_found(target.table.kind, target.name)
        return found

    def create(self, target: Target, body: Any, options: Options) -> Stored:
        """A new object in the collection ``target``; 409 when its name is taken, 404 when the namespace is missing."""
        kind = target.table.kind
        if kind.namespaced:
            self._check_namespace(kind, target.namespace)
        suffix = "".join(random.choices(_SUFFIX_LETTERS, k=5))
        birth = Birth(str(uuid.uuid4()), rfc3339(self._now()), suffix)
        value = admission.created(Write(kind, target.namespace, options), body, birth, self._rules)
        made = target._replace(name=value["metadata"]["name"])
        if made.key in target.table.objects:
            raise status.already_exists(kind, made.name)
        return self._keep(made, value, options)

    def _check_namespace(self, kind: Kind, namespace: str) -> None:
        spaces = self._store.tables[builtin.NAMESPACES.prefix, builtin.NAMESPACES.plural]
        found = self.get(Target(spaces, "", namespace))
        if "deletionTimestamp" in found.value["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise status.forbidden(kind, "", why)

    def replace(self, target: Target, body: Any, options: Options) -> tuple[Stored, bool]:
        """PUT. Returns the object and whether it was created."""
        kind = target.table.kind
        if target.key not in target.table.objects and kind.create_on_update and not target.sub:
            return self.create(target, _named(body, target.name), options), True
        write = Write(kind, target.namespace, options, target.sub, replaces=True)
        return self._change(target, self.get(target), body, write), False

    def patch(self, target: Target, media: str, patch: Any, options: Options) -> tuple[Stored, bool]:
        """PATCH of a content type that the kind takes. Returns the object and whether server-side apply created it."""
        if media == APPLY_PATCH and target.key not in target.table.objects and not target.sub:
            return self.create(target, _named(patch, target.name), options), True
        kind, old = target.table.kind, self.get(target)
        body = patched(kind, old.value, media, patch)
        return self._change(target, old, body, Write(kind, target.namespace, options, target.sub)), False

    def _change(self, target: Target, old: Stored, body: Any, write: Write) -> Stored:
        value = admission.updated(write, body, old.value, self._rules)
        if value is old.value:
            return old
        meta = value["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            return self._drop(target, value, write.options)
        return self._keep(target, value, write.options)

    def _keep(self, target: Target, value: Object, options: Options) -> Stored:
        return Stored(0, value) if options.dry_run else self._store.write(target, value)

    def _drop(self, target: Target, value: Object, options: Options) -> Stored:
        return Stored(0, value) if options.dry_run else self._store.remove(target, value)

    def delete(self, target: Target, wanted: Any, options: Options) -> tuple[Stored, bool]:
        """DELETE, ``wanted`` being DeleteOptions. Returns the last state and whether it is gone, not only marked."""
        old = self.get(target)
        _check_preconditions(target, wanted, old.value["metadata"])
        held = bool(old.value["metadata"].get("finalizers")) or target.table.kind is builtin.NAMESPACES
        if not held:
            return self._drop(target, old.value, options), True
        if "deletionTimestamp" in old.value["metadata"]:
            return old, False
        return self._keep(target, _marked(target.table.kind, old.value, rfc3339(self._now())), options), False

    def delete_all(self, target: Target, selection: Selection, options: Options) -> list[Stored]:
        """DELETE of a collection: each selected object as by `delete`."""
        chosen = [one for one in target.table.under(target.namespace) if selection.matches(one.value)]
        metadata = [one.value["metadata"] for one in chosen]
        targets = [Target(target.table, one.get("namespace", ""), one["name"]) for one in metadata]
        return [self.delete(one, {}, options)[0] for one in targets]


def _named(body: Any, name: str) -> Any:
    """The body of an object that is created under the name in the path; 400 when it says another."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict) or metadata.get("name", name) != name:
        raise status.bad_request(f"the name of the object does not match the name on the URL ({name})")
    return body


def _check_preconditions(target: Target, wanted: Any, metadata: Object) -> None:
    given = wanted.get("preconditions") if isinstance(wanted, dict) else None
    for name, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        asked = given.get(name) if isinstance(given, dict) else None
        if asked and asked != metadata[name]:
            why = f"Precondition failed: {label} in precondition: {asked}, {label} in object meta: {metadata[name]}"
            raise status.conflict(target.table.kind, target.name, why)


def _marked(kind: Kind, value: Object, now: str) -> Object:
    """``value``, to be deleted when nothing holds it any more. No controller runs here: a namespace stays so."""
    metadata = {**value["metadata"], "deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
    if "generation" in metadata:
        metadata["generation"] += 1
    marked = {**value, "metadata": metadata}
    if kind is builtin.NAMESPACES:
        marked["status"] = {**value["status"], "phase": "Terminating"}
    return marked
