"""Queues: the queues of the cluster. What forbids a pod of one to start is in `bounds`, whose turn it is in `turns`.

A pod's queue is the one that its label names, else the one that its policy chooses, else the one that the label of its
namespace names. Read next: `accounts`, which counts what the pods of each queue hold, and `validity`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from podwright.core.objects.volcano_groups import VOLCANO_DEFAULT_QUEUE
from podwright.core.queues.accounts import Accounts
from podwright.core.queues.bounds import QUEUE_QUOTA, Bounds
from podwright.core.queues.membership import LABEL, USER_LABEL, same_selector
from podwright.core.queues.places import Places
from podwright.core.queues.rules import QueueRules
from podwright.core.queues.turns import Turns
from podwright.core.state.cache import Cache

__all__ = ["QUEUE_LABEL", "QUEUE_QUOTA", "USER_LABEL", "QueueRules", "Queues", "queues_of"]

QUEUE_LABEL: Final = LABEL


class Queues(Accounts):
    """The accounts, the bounds and turns that read them, and how queues are declared."""

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self.places = Places(self)
        self.bounds = self.place_rules = Bounds(cache, self, self.places)
        self.turns = Turns(cache, self, self.bounds, self.places)

    def set(self, spec: QueueRules) -> None:
        """Adds or replaces a queue. The rest of the tree stays valid, whatever it says: see `problems`."""
        before = self.declared.get(spec.name)
        if before is not None and _alike(before, spec):
            return  # only its status has changed
        if before is None and spec.name == VOLCANO_DEFAULT_QUEUE:
            self.regroup()
        self.structure.set(spec)
        self._changed()

    def refuse(self, name: str, problem: str) -> None:
        """No version of the queue was ever valid, because of this problem. "": there is no longer such a queue."""
        if self.refused.get(name, "") == problem:
            return
        if problem:
            self.refused[name] = problem
        else:
            del self.refused[name]
        self.structure.refused_changed(name)
        self._changed()

    def remember(self, spec: QueueRules) -> None:
        """The queue as it last was valid, before this process began. It counts while no newer version is valid."""
        self.structure.remember(spec)

    def keep(self, name: str) -> None:
        """The newest version of the queue cannot be read: it stays as it last was valid, if that is known."""
        if name not in self.declared and (last := self.structure.remembered(name)) is not None:
            self.set(last)

    def remove(self, name: str) -> None:
        """The queue no longer exists. It stays in the tree as long as queues below it do. Ignores an unknown name."""
        self.structure.forget(name)
        if name not in self.declared:
            return
        self.structure.remove(name)
        if name == VOLCANO_DEFAULT_QUEUE:
            self.regroup()
        self._changed()

    def _changed(self) -> None:
        """A queue has changed. Pods are counted while there is any."""
        if self.active is not bool(self.structure.declared or self.refused):
            if self.active:
                self._stop()
                del self._cache.refusals[QUEUE_QUOTA]
            else:
                self._start()
                self._cache.refusals[QUEUE_QUOTA] = self.bounds.refusal
        self.changes += 1
        self._tell()

    def restorer(self) -> Callable[[], None]:
        """A function that makes the queues what they are now, also those that stay as they last were. Pods stay where
        they are then.
        """
        structure = self.structure.restorer()
        names = frozenset(self.declared)

        def restore() -> None:
            for name in [name for name in self.declared if name not in names]:
                self.remove(name)
            structure()
            self._changed()

        return restore

    def differing(self, other: Queues) -> Iterator[str]:
        """The names of the queues that are not in this tree as in the other one."""
        mine, theirs = self.names(), other.names()
        yield from (name for name in theirs if self.declared.get(name) is not other.get(name))
        yield from {*self.declared, *mine}.difference(theirs)
        yield from (name for name, _ in self.refused.items() ^ other.refused.items())

    def follow(self, other: Queues, name: str) -> None:
        """Makes this queue what it is in the other tree, and lets pods name their queues as there."""
        self.name_by(other.membership.keys[1:])
        if (rules := other.get(name)) is None:
            self.remove(name)
        else:
            self.set(rules)
        self.refuse(name, other.refused.get(name, ""))


def queues_of(cache: Cache) -> Queues:
    """The queues of this cache."""
    return cache.extension(Queues, lambda: Queues(cache))


def _alike(before: QueueRules, after: QueueRules) -> bool:
    """True if two versions of a queue say the same, flavors in the same order. Selectors are compared by what they
    require.
    """
    return (
        same_selector(before.namespaces, after.namespaces)
        and [*before.flavors] == [*after.flavors]
        and before == replace(after, namespaces=before.namespaces)
    )
