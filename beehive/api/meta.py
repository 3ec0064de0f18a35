"""Object metadata, conditions, and the API server's own refusals."""

from msgspec import Struct

Strings = dict[str, str]


class ObjectMeta(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """The part of metav1.ObjectMeta that rules look at."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Strings | None = None
    annotations: Strings | None = None
    finalizers: tuple[str, ...] | None = None


class Condition(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """metav1.Condition: the transition time moves only when the status flips."""

    type: str
    """Name of the condition, such as Complete."""
    status: str
    """True, False or Unknown."""
    reason: str = ""
    """Why, as one word."""
    message: str = ""
    """Why, as a sentence."""
    last_transition_time: str = ""
    """When the status last changed. RFC 3339, UTC."""
    observed_generation: int = 0
    """Generation of the spec that it speaks of."""


class Status(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """metav1.Status: how the API server refuses."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: "StatusDetails | None" = None


class StatusDetails(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """More about a refusal; a schema violation has causes, a failed JSON Patch test has none (libraries.md trap 23)."""

    causes: tuple["StatusCause", ...] | None = None
    retry_after_seconds: int = 0


class StatusCause(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One field that was refused."""

    field: str = ""
    reason: str = ""
    message: str = ""


def set_condition(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Put `new` in its place; it keeps the old transition time unless the status flips. Order never changes."""
    for index, old in enumerate(conditions):
        if old.type == new.type:
            same = old.status == new.status
            kept = old.last_transition_time if same else new.last_transition_time
            placed = Condition(
                type=new.type,
                status=new.status,
                reason=new.reason,
                message=new.message,
                last_transition_time=kept,
                observed_generation=new.observed_generation,
            )
            return (*conditions[:index], placed, *conditions[index + 1 :])
    return (*conditions, new)


def condition(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    """The condition of this type, if there is one."""
    return next((one for one in conditions if one.type == type_), None)
