"""Merge patches: what differs between two versions of an object, for people to read and for `kubectl patch`.

Containers, their ports and topology spread constraints merge by their keys, as in a strategic merge patch; all other
lists are replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that turns `before` into `after`. A removed field is None in it."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if old == value:
            continue
        if key in _KEYS and isinstance(old, list) and _same_keys(old, value, _KEYS[key]):
            patch[key] = [
                {_KEYS[key]: new.get(_KEYS[key]), **difference(was, new)}
                for was, new in zip(old, value, strict=True)
                if was != new
            ]
        elif key in _KEYS and isinstance(value, list) and _has_twins(value, _KEYS[key]):
            patch[key] = [*value, {"$patch": "replace"}]
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            patch[key] = difference(old, value)
        else:
            patch[key] = value
    return patch


def _same_keys(before: list[Any], after: list[Any], key: str) -> bool:
    """True if both lists have the same entries by their keys, each once."""
    keys = [each.get(key) for each in before]
    return keys == [each.get(key) for each in after] and len({*keys}) == len(keys)


def _has_twins(items: list[Any], key: str) -> bool:
    """True if two entries have the same key, so that they cannot be merged by it."""
    keys = [each.get(key) for each in items]
    return len({*keys}) < len(keys)


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """One patch in place of both. Where they differ, the second one wins."""
    made = dict(first)
    for key, value in second.items():
        old = made.get(key)
        made[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return made
