"""Equality of JSON values: ``true`` is not ``1``, and identical parts are not looked into."""

from typing import Any


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are the same; cheap where they share parts."""
    if left is right:
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)
