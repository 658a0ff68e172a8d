"""Merge patches: what differs between two versions of an object, for people to read and for `kubectl patch`.

Containers and their ports merge by their keys, as in a strategic merge patch; all other lists are replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_KEYS: Final = {"containers": "name", "initContainers": "name", "ports": "containerPort"}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that makes `after` of `before`. A field that is taken away is None in it."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if old == value:
            continue
        if key in _KEYS and isinstance(old, list) and len(old) == len(value):
            patch[key] = [
                {_KEYS[key]: new.get(_KEYS[key]), **difference(was, new)}
                for was, new in zip(old, value, strict=True)
                if was != new
            ]
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            patch[key] = difference(old, value)
        else:
            patch[key] = value
    return patch
