"""The verbs: get, list, create, update, patch, delete, on the objects in the store."""

import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from modules.demo.apiserver import admission, builtin, patch_json, patch_merge, status
from modules.demo.apiserver.admission import Birth, Options
from modules.demo.apiserver.cel import Rules
from modules.demo.apiserver.history import Stored
from modules.demo.apiserver.kinds import Kind
from modules.demo.apiserver.selectors import Selection
from modules.demo.apiserver.store import Key, Store, Table

Object = dict[str, Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def patch_types(kind: Kind) -> tuple[str, ...]:
    """The content types of patches that a kind takes."""
    return (
        (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
        if kind.custom
        else (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
    )


def rfc3339(now: datetime) -> str:
    """Whole seconds, UTC."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Resources:
    """All verbs. Synchronous, so each is atomic."""

    def __init__(self, store: Store, rules: Rules, now: Callable[[], datetime]) -> None:
        self._store = store
        self._rules = rules
        self._now = now

    def get(self, table: Table, namespace: str, name: str) -> Stored:
        """One object; 404."""
        found = table.objects.get((namespace, name))
        if found is None:
            raise status.not_found(table.kind, name)
        return found

    def create(self, table: Table, namespace: str, body: Any, options: Options) -> Stored:
        """A new object; 409 when the name is taken, 404 when the namespace is missing."""
        self._check_namespace(table.kind, namespace)
        suffix = "".join(random.choices(_SUFFIX_LETTERS, k=5))
        birth = Birth(str(uuid.uuid4()), rfc3339(self._now()), suffix)
        value = admission.created(table.kind, namespace, body, birth, options, self._rules)
        key = (namespace, value["metadata"]["name"])
        if key in table.objects:
            raise status.already_exists(table.kind, key[1])
        return self._keep(table, key, value, options)

    def _check_namespace(self, kind: Kind, namespace: str) -> None:
        if not kind.namespaced:
            return
        spaces = self._store.tables[builtin.NAMESPACES.prefix, builtin.NAMESPACES.plural]
        found = self.get(spaces, "", namespace)
        if "deletionTimestamp" in found.value["metadata"]:
            raise status.forbidden(
                kind, "", f"unable to create new content in namespace {namespace} because it is being terminated"
            )

    def replace(self, table: Table, key: Key, sub: str, body: Any, options: Options) -> tuple[Stored, bool]:
        """PUT. Returns the object and whether it was created."""
        if key not in table.objects and table.kind.create_on_update and not sub:
            return self.create(table, key[0], body, options), True
        old = self.get(table, *key)
        return self._change(table, key, sub, old, body, options), False

    def patch(self, table: Table, key: Key, sub: str, media: str, patch: Any, options: Options) -> tuple[Stored, bool]:
        """PATCH of a content type in `patch_types`. Returns the object and whether it was created (server-side apply only)."""
        if media == APPLY_PATCH and key not in table.objects and not sub:
            self._check_apply(table.kind, key, patch)
            return self.create(table, key[0], patch, options), True
        old = self.get(table, *key)
        body = self._patched(table.kind, old.value, media, patch)
        return self._change(table, key, sub, old, body, options), False

    def _check_apply(self, kind: Kind, key: Key, patch: Any) -> None:
        name = patch.get("metadata", {}).get("name") if isinstance(patch, dict) else None
        if name != key[1]:
            raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({key[1]})")

    def _patched(self, kind: Kind, old: Object, media: str, patch: Any) -> Any:
        try:
            if media == JSON_PATCH:
                if isinstance(patch, list) and len(patch) > patch_json.MAX_OPERATIONS:
                    raise status.too_large(patch_json.MAX_OPERATIONS)
                return patch_json.apply(old, patch)
            if not isinstance(patch, dict):
                raise status.bad_request("the patch must be an object")
            if media == STRATEGIC_PATCH:
                return patch_merge.strategic(old, patch, kind.merge_keys)
            return patch_merge.merge(old, patch)
        except patch_json.PatchFormatError as error:
            raise status.bad_request(str(error)) from error
        except (patch_json.PatchError, patch_merge.MergeError) as error:
            raise status.patch_failed() from error

    def _change(self, table: Table, key: Key, sub: str, old: Stored, body: Any, options: Options) -> Stored:
        value = admission.updated(table.kind, key[0], body, old.value, sub, options, self._rules)
        if value is old.value:
            return old
        meta = value["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            return self._drop(table, key, value, options)
        return self._keep(table, key, value, options)

    def _keep(self, table: Table, key: Key, value: Object, options: Options) -> Stored:
        return Stored(0, value) if options.dry_run else self._store.write(table, key, value)

    def _drop(self, table: Table, key: Key, value: Object, options: Options) -> Stored:
        return Stored(0, value) if options.dry_run else self._store.remove(table, key, value)

    def delete(self, table: Table, key: Key, wanted: Object, options: Options) -> tuple[Stored, bool]:
        """DELETE, ``wanted`` being DeleteOptions. Returns the last state and whether it is gone; with finalizers it is only marked."""
        old = self.get(table, *key)
        meta = old.value["metadata"]
        for name in ("uid", "resourceVersion"):
            asked = (wanted.get("preconditions") or {}).get(name)
            if asked and asked != meta[name]:
                label = {"uid": "UID", "resourceVersion": "ResourceVersion"}[name]
                why = f"Precondition failed: {label} in precondition: {asked}, {label} in object meta: {meta[name]}"
                raise status.conflict(table.kind, key[1], why)
        ends = table.kind is builtin.NAMESPACES
        if not meta.get("finalizers") and not ends:
            return self._drop(table, key, old.value, options), True
        if "deletionTimestamp" in meta:
            return old, False
        marked = {**meta, "deletionTimestamp": rfc3339(self._now()), "deletionGracePeriodSeconds": 0}
        if "generation" in meta:
            marked["generation"] = meta["generation"] + 1
        value = {**old.value, "metadata": marked}
        if ends:
            value["status"] = {**old.value["status"], "phase": "Terminating"}
        return self._keep(table, key, value, options), False

    def delete_all(self, table: Table, namespace: str, selection: Selection, options: Options) -> list[Stored]:
        """DELETE of a collection: each selected object as by `delete`."""
        chosen = [stored for stored in table.under(namespace) if selection.matches(stored.value)]
        keys = [(one.value["metadata"].get("namespace", ""), one.value["metadata"]["name"]) for one in chosen]
        return [self.delete(table, key, {}, options)[0] for key in keys]
