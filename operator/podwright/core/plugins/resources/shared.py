"""Columns and arrays over all nodes that plugins of several policies share if their args are equal. So a thousand
policies with one strategy need little more memory than one policy, and a decision under one of them can use what a
decision under another has just updated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakValueDictionary, finalize

from podwright.core.state.cache import Cache


class Users:
    """How many plugins share something."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, user: object) -> None:
        """Counts the user as long as it lives."""
        self.count += 1
        finalize(user, self._leave).atexit = False

    def _leave(self) -> None:
        self.count -= 1


class Shared:
    """The base of shared objects. An object lives as long as a plugin that uses it."""

    def __init__(self) -> None:
        self.users = Users()


S = TypeVar("S", bound=Shared)


class _SharedParts:
    def __init__(self) -> None:
        self.known: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()


def shared(cache: Cache, user: object, args: Hashable, make: Callable[[], S]) -> S:
    """The object that all plugins of the user's class with these args share in this cache. `make` makes it for the
    first one.
    """
    parts = cache.extension(_SharedParts, _SharedParts)
    key = (type(user), args)
    found: S | None = parts.known.get(key)
    if found is None:
        found = parts.known[key] = make()
    found.users.add(user)
    return found
