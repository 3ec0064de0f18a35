"""The kinds of patches: which a kind takes, and what becomes of an object."""

from typing import Any, Final

from modules.demo.apiserver import patch_json, patch_merge, status
from modules.demo.apiserver.kinds import Kind

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


def patch_types(kind: Kind) -> tuple[str, ...]:
    """The content types of patches that a kind takes."""
    if kind.custom:
        return (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def patched(kind: Kind, old: Any, media: str, patch: Any) -> Any:
    """``old`` after a patch of one of `patch_types`; server-side apply merges, without ownership of fields."""
    try:
        if media == JSON_PATCH:
            return patch_json.apply(old, _short_enough(patch))
        if not isinstance(patch, dict):
            raise status.bad_request("the patch must be an object")
        if media == STRATEGIC_PATCH:
            return patch_merge.strategic(old, patch, kind.merge_keys)
        return patch_merge.merge(old, patch)
    except patch_json.PatchFormatError as error:
        raise status.bad_request(str(error)) from error
    except patch_merge.MergeError as error:
        raise status.bad_request(str(error)) from error
    except patch_json.PatchError as error:
        raise status.patch_failed() from error


def _short_enough(patch: Any) -> Any:
    if isinstance(patch, list) and len(patch) > patch_json.MAX_OPERATIONS:
        told = f"The allowed maximum operations in a JSON patch is {patch_json.MAX_OPERATIONS}, got {len(patch)}"
        raise status.Refusal(413, "RequestEntityTooLarge", f"Request entity too large: {told}", {})
    return patch
