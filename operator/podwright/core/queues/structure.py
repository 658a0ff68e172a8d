"""Structure: the declared queues, and the tree of those that are valid.

A change of one queue that leaves all others valid, as most do, changes the tree where the queue is. Any other change
has the tree built again when it is next read, once for all changes until then. Source of what is valid: `validity`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.selectors import EVERYTHING, LabelSelector, all_of
from podwright.core.queues.claimed_devices import is_of_class
from podwright.core.queues.flavors import Labels
from podwright.core.queues.rules import QueueRules
from podwright.core.queues.tree import NO_QUOTA, Queue, QueueTree
from podwright.core.queues.validity import MAX_DEPTH, flavor_problem, flavors_of, overcommitted, valid_specs


class PodCounts(Protocol):
    """Who knows the pods of the queues."""

    def count_pods_of(self, tree: QueueTree, names: Collection[str]) -> None:
        """Adds what the pods of these queues hold and ask for to a tree in which they are new."""

    @property
    def refused(self) -> Mapping[str, str]:
        """See `Accounts.refused`."""

    def may_use(self, queue: str, namespaces: LabelSelector) -> None:
        """Sets the namespaces that may use the queue."""

    def restricted(self) -> AbstractSet[str]:
        """The queues that not all namespaces may use."""

    def flavors_are(self, labels: Mapping[str, Labels], resources: Iterable[str]) -> None:
        """The labels of the nodes of each flavor, and the resources that any queue names, also for its users."""


class Structure:
    """See the module."""

    def __init__(self, pods: PodCounts) -> None:
        self.declared: dict[str, QueueRules] = {}
        """All queues as they were last set, also invalid ones."""
        self.valid: dict[str, QueueRules] = {}
        """The queues of the tree, as they last were valid."""
        self.invalid: dict[str, InvalidObjectError] = {}
        """Why a declared queue is not in the tree, or is there with its last valid rules; by name."""
        self.shut: frozenset[str] = frozenset()
        """The queues in which no pod may start, because of their state or that of one above."""
        self.draining: frozenset[str] = frozenset()
        """The queues whose placed pods are to go, because of the state of the queue or of one above it."""
        self.timed: set[str] = set()
        """The queues that bound the runtime of their pods."""
        self.limiting: set[str] = set()
        """The queues that bound what each user has."""
        self.current: QueueTree | None = None
        """The tree; None if it must be built."""
        self.paths = 0
        """Rises when the path of a queue, or whether pods may start in it, may have changed."""
        self._pods = pods
        self._below: Counter[str] = Counter()
        """How many queues name a queue as their parent."""
        self._remembered: dict[str, QueueRules] = {}
        self._noted: dict[str, QueueRules] = {}
        """Queues as they last were valid since the tree must be built."""
        self._overcommitted: dict[str, InvalidObjectError] = {}
        """Further problems of queues of the tree, by name."""
        self._flavors: Mapping[str, tuple[str, Labels]] = {}
        """By flavor: the queue that says which nodes have it, and their labels."""
        compact_regularly(self)

    def set(self, spec: QueueRules) -> None:
        """Adds or replaces a queue."""
        before = self.declared.get(spec.name)
        if before is not None and before.parent != spec.parent:
            self._note(before)
        self.declared[spec.name] = spec
        self._note(spec)
        self._below[spec.parent] += 1
        if before is not None:
            self._below[before.parent] -= 1
        if not (self._added(spec) if before is None else self._replaced_by(before, spec)):
            self.current = None

    def remove(self, name: str) -> None:
        """Removes a queue."""
        spec = self.declared.pop(name)
        self._below[spec.parent] -= 1
        if not self._dropped(spec):
            if self._below[name]:
                self._note(spec)
            self.current = None

    def remember(self, spec: QueueRules) -> None:
        """The queue as it last was valid, before this process began."""
        self._remembered[spec.name] = spec

    def remembered(self, name: str) -> QueueRules | None:
        return self._remembered.get(name)

    def refused_changed(self, name: str) -> None:
        """The queues below this name say that it is invalid, or no longer say so."""
        if self._below[name]:
            self.current = None

    def forget(self, name: str) -> None:
        """Undoes `remember`."""
        self._remembered.pop(name, None)

    def clear(self) -> None:
        """Removes all queues."""
        for known in (self.declared, self.valid, self.invalid, self._below, self._noted, self._overcommitted):
            known.clear()
        self.timed.clear()
        self.limiting.clear()
        self.current = None

    def restorer(self) -> Callable[[], None]:
        """A function that makes the queues what they are now, also those that stay as they last were."""
        self.tree()
        kept = [dict(each) for each in (self.declared, self.valid, self._remembered)]

        def restore() -> None:
            self.declared, self.valid, self._remembered = map(dict, kept)
            self._below = Counter(spec.parent for spec in self.declared.values())
            self._noted.clear()
            self.current = None

        return restore

    def problems(self) -> Mapping[str, InvalidObjectError]:
        """Returns the problems of declared queues, by name."""
        self.tree()
        more = {name: error for name, error in self._overcommitted.items() if name in self.declared}
        return {**more, **self.invalid}

    def problem(self, name: str) -> InvalidObjectError | None:
        """Returns the problem of one queue, or None."""
        self.tree()
        return self.invalid.get(name) or (self._overcommitted.get(name) if name in self.declared else None)

    def firm_priority(self, path: Iterable[Queue]) -> int | None:
        """The lowest `QueueRules.firm_priority` of these queues."""
        lowest = None
        for queue in path:
            priority = self.valid[queue.spec.name].firm_priority
            if priority is not None and (lowest is None or priority < lowest):
                lowest = priority
        return lowest

    def tree(self) -> QueueTree:
        """The tree of the valid queues, with what their pods request and hold."""
        return self._built() if self.current is None else self.current

    def _built(self) -> QueueTree:
        last = {**self._remembered, **self.valid, **self._noted}
        self._noted.clear()
        self.valid, self.invalid = valid_specs(self.declared, last, self._pods.refused)
        tree = self.current = QueueTree(self.valid.values(), {})
        self.paths += 1
        shut = [name for name, rules in self.valid.items() if rules.state != "Open"]
        self.shut = tree.below(shut) if shut else frozenset()
        self.draining = tree.below([name for name in shut if self.valid[name].state == "Drain"])
        self._overcommitted.clear()
        self._flavors = flavors_of(tree, self.valid)
        named = {*tree.resources, *(name for rules in self.valid.values() for name in rules.user_limits)}
        self._pods.flavors_are({name: labels for name, (_, labels) in self._flavors.items()}, named)
        self.timed = {name for name, rules in self.valid.items() if rules.max_runtime}
        self.limiting = {name for name, rules in self.valid.items() if rules.user_limits}
        for name, rules in self.valid.items():
            self._check(tree, name)
            if kept := _kept(rules):
                tree.keep(name, kept)
        self._pods.count_pods_of(tree, self.valid)
        self._admit(tree, self.valid)
        for name in self._pods.restricted() - self.valid.keys():
            self._pods.may_use(name, EVERYTHING)
        return tree

    # Changes of one queue

    def _added(self, spec: QueueRules) -> bool:
        """Adds a new queue to the tree. False if the tree must be built."""
        tree = self._changeable(None, spec)
        if tree is None or spec.name in tree or self._below[spec.name] or not self._has_place(tree, spec):
            return False
        tree.add(spec)
        self.paths += 1
        self.valid[spec.name] = spec
        self._pods.count_pods_of(tree, [spec.name])
        self._put(tree, spec)
        self._admit(tree, [spec.name])
        return True

    def _replaced_by(self, before: QueueRules, spec: QueueRules) -> bool:
        """Replaces a queue in the tree. False if the tree must be built."""
        tree = self._changeable(before, spec)
        if tree is None or self.valid.get(spec.name) is not before:
            return False
        if (before.state, before.firm_priority) != (spec.state, spec.firm_priority):
            return False
        if before.parent != spec.parent:
            if spec.name in self.invalid or (self.invalid and self._below[spec.name]):
                return False  # it or one below it may have waited for this
            if spec.name in self.shut or not self._has_place(tree, spec):
                return False
            left, above = tree.get(before.parent) or tree.top, tree.get(spec.parent) or tree.top
            if self.firm_priority(left.path) != self.firm_priority(above.path):
                return False
            self.paths += 1
        tree.replace(spec)
        self._put(tree, spec)
        self._check(tree, before.parent)
        if before.namespaces is not spec.namespaces or (before.parent != spec.parent and self._pods.restricted()):
            self._admit(tree, tree.below([spec.name]))
        return True

    def _dropped(self, spec: QueueRules) -> bool:
        """Removes a queue from the tree. False if the tree must be built."""
        tree, name = self._changeable(spec, None), spec.name
        if tree is None or self.valid.get(name) is not spec or name in self.shut:
            return False
        if name in self.invalid or self._below[name] or not tree.is_leaf(name):
            return False
        self._pods.may_use(name, EVERYTHING)
        tree.drop(name)
        self.paths += 1
        del self.valid[name]
        self.timed.discard(name)
        self.limiting.discard(name)
        self._overcommitted.pop(name, None)
        self._check(tree, spec.parent)
        return True

    def _put(self, tree: QueueTree, spec: QueueRules) -> None:
        self.valid[spec.name] = spec
        self.timed.discard(spec.name)
        if spec.max_runtime:
            self.timed.add(spec.name)
        self.limiting.discard(spec.name)
        if spec.user_limits:
            self.limiting.add(spec.name)
        if (kept := _kept(spec)) or spec.name in tree.keeping:
            tree.keep(spec.name, kept)
        self._check(tree, spec.name)
        self._check(tree, spec.parent)

    def _admit(self, tree: QueueTree, names: Iterable[str]) -> None:
        """Tells which namespaces may use these queues: those that they and all queues above them admit."""
        for name in names:
            path = () if (queue := tree.get(name)) is None else queue.path
            self._pods.may_use(name, all_of([self.valid[above.spec.name].namespaces for above in path]))

    def _changeable(self, before: QueueRules | None, after: QueueRules | None) -> QueueTree | None:
        """The tree, if it can be changed for this queue alone: the same resources are named by any queue as before, and
        the same flavors, and device classes for its users.
        """
        tree = self.current
        if tree is None:
            return None
        if _device_limits(before) != _device_limits(after):
            return None
        if not self._keeps_flavors(before, after):
            return None
        named = {} if before is None else before.quotas
        return tree if tree.names_alike(named, {} if after is None else after.quotas) else None

    def _keeps_flavors(self, before: QueueRules | None, after: QueueRules | None) -> bool:
        """True if the nodes of all flavors are the same after the change."""
        if before is not None and after is not None and before.flavors == after.flavors:
            return not before.flavors or before.parent == after.parent
        said = () if before is None else before.flavors
        if any(
            self._flavors[flavor][0] == before.name for flavor in said if before is not None and flavor in self._flavors
        ):
            return False
        known = {flavor: labels for flavor, (_, labels) in self._flavors.items()}
        return after is None or all(
            flavor in known and labels in ({}, known[flavor]) for flavor, labels in after.flavors.items()
        )

    def _has_place(self, tree: QueueTree, spec: QueueRules) -> bool:
        """True if the queue may be below its parent, and pods may start there."""
        parent = tree.get(spec.parent) if spec.parent else tree.top
        if parent is None or spec.state != "Open" or spec.parent in self.shut:
            return False
        above = parent.names()
        if any(name in self.invalid or name not in self.declared for name in above):
            return False  # some are as they last were
        return spec.name not in above and len(above) + tree.height(spec.name) <= MAX_DEPTH

    def _check(self, tree: QueueTree, name: str) -> None:
        queue = tree.get(name)
        error = None if queue is None else overcommitted(queue) or flavor_problem(self.valid[name], self._flavors)
        if error is None:
            self._overcommitted.pop(name, None)
        else:
            self._overcommitted[name] = error

    def _note(self, spec: QueueRules) -> None:
        """If the tree must be built: this version of a queue is valid now, if the queues above it are."""
        above: QueueRules | None = spec
        if self.current is None:
            for _ in range(MAX_DEPTH):
                if above is None:
                    return
                if not above.parent:
                    self._noted[spec.name] = spec
                    return
                above = self.declared.get(above.parent)


def _device_limits(rules: QueueRules | None) -> Collection[str]:
    """The device classes that the queue limits for its users."""
    return [] if rules is None else [*filter(is_of_class, rules.user_limits)]


def _kept(rules: QueueRules) -> Mapping[str, int]:
    """Returns the part of its guarantee that the queue does not lend, by resource."""
    return {
        resource: quota.guarantee - lent
        for resource, lent in rules.lending.items()
        if (quota := rules.quotas.get(resource, NO_QUOTA)).guarantee > lent >= 0
    }
