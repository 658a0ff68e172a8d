"""Placed pods by `PodClass`: the pods of a class are the same to every selector.

Invariant: the classes contain exactly the pods that were added and not removed. A class, label pair or namespace
without pods is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from podwright.core.objects.compaction import compact_regularly, shrink
from podwright.core.objects.pod import LabelSet, PodInfo
from podwright.core.objects.selectors import LabelSelector

MAX_PAIRS: Final = 256
"""The most labels of a class by which it is looked up."""


class PodClass:
    """The pods of one namespace with the same labels, either all terminating or none.

    `at`: the number of pods by slot. `row`: the row in `PodColumns`, if there are any; -1 for a class without one.
    """

    __slots__ = ("at", "labels", "namespace", "row", "terminating")

    def __init__(self, namespace: str, labels: LabelSet, terminating: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.at: dict[int, int] = {}
        self.row = -1


class _Namespace:
    """The classes of one namespace.

    `pairs`: the classes that have a label pair; a single class is stored without a dict to save memory. `large`: the
    classes with more than MAX_PAIRS labels, which are tried each time instead: their pairs would take far longer to
    add, and more memory, than they ever save.
    """

    __slots__ = ("large", "not_terminating", "pairs", "terminating")

    def __init__(self) -> None:
        self.not_terminating: dict[LabelSet, PodClass] = {}
        self.terminating: dict[LabelSet, PodClass] = {}
        self.pairs: dict[tuple[str, str], PodClass | dict[PodClass, None]] = {}
        self.large: dict[PodClass, None] = {}

    def add(self, pod_class: PodClass) -> None:
        if len(pod_class.labels) > MAX_PAIRS:
            self.large[pod_class] = None
            return
        pairs = self.pairs
        for pair in pod_class.labels.items():
            known = pairs.get(pair)
            if known is None:
                pairs[pair] = pod_class
            elif isinstance(known, PodClass):
                pairs[pair] = {known: None, pod_class: None}
            else:
                known[pod_class] = None

    def remove(self, pod_class: PodClass) -> None:
        if len(pod_class.labels) > MAX_PAIRS:
            del self.large[pod_class]
            return
        pairs = self.pairs
        for pair in pod_class.labels.items():
            known = pairs[pair]
            if isinstance(known, PodClass):
                del pairs[pair]
                continue
            del known[pod_class]
            if len(known) == 1:
                pairs[pair] = next(iter(known))

    def with_pair(self, pair: tuple[str, str]) -> Collection[PodClass]:
        known = self.pairs.get(pair)
        if known is None:
            return ()
        return (known,) if isinstance(known, PodClass) else known.keys()


class PlacedPodClasses:
    """All placed pods by class. `count`: the number of classes. `version` rises with each pod added or removed."""

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}
        self.count = 0
        self.version = 0
        compact_regularly(self)

    @property
    def namespaces(self) -> Collection[str]:
        """The namespaces with placed pods."""
        return self._namespaces.keys()

    def classes(self) -> Iterator[PodClass]:
        """All classes."""
        for namespace in self._namespaces.values():
            yield from namespace.not_terminating.values()
            yield from namespace.terminating.values()

    def class_of(self, namespace: str, labels: LabelSet) -> PodClass | None:
        """A class with these labels, terminating or not; None if no placed pod has them."""
        known = self._namespaces.get(namespace)
        return None if known is None else known.not_terminating.get(labels) or known.terminating.get(labels)

    def compact(self) -> None:
        """Frees the memory that the dictionaries needed when there were more classes."""
        for namespace in self._namespaces.values():
            for container in (namespace.not_terminating, namespace.terminating, namespace.pairs, namespace.large):
                shrink(container)

    def add_all(self, pod: PodInfo, at: Mapping[int, int]) -> PodClass:
        """Adds pods of the pod's class. `at`: how many, by slot."""
        self.version += 1
        namespace = self._namespaces.get(pod.namespace)
        if namespace is None:
            namespace = self._namespaces[pod.namespace] = _Namespace()
        classes = namespace.terminating if pod.terminating else namespace.not_terminating
        pod_class = classes.get(pod.labels)
        if pod_class is None:
            pod_class = classes[pod.labels] = PodClass(pod.namespace, pod.labels, terminating=pod.terminating)
            namespace.add(pod_class)
            self.count += 1
        there = pod_class.at
        for slot, pods in at.items():
            there[slot] = there.get(slot, 0) + pods
        return pod_class

    def remove(self, pod: PodInfo, slot: int) -> PodClass:
        """Raises KeyError if the pod was not added at this slot."""
        return self.remove_all(pod, {slot: 1})

    def remove_all(self, pod: PodInfo, at: Mapping[int, int]) -> PodClass:
        """Undoes `add_all`. Raises KeyError if no pod of the class was added at one of the slots."""
        self.version += 1
        namespace = self._namespaces[pod.namespace]
        classes = namespace.terminating if pod.terminating else namespace.not_terminating
        pod_class = classes[pod.labels]
        there = pod_class.at
        for slot, pods in at.items():
            left = there[slot] - pods
            if left:
                there[slot] = left
            else:
                del there[slot]
        if not there:
            del classes[pod.labels]
            self.count -= 1
            namespace.remove(pod_class)
            if not namespace.not_terminating and not namespace.terminating:
                del self._namespaces[pod.namespace]
        return pod_class

    def candidates(self, namespaces: Iterable[str], selector: LabelSelector) -> Sequence[Collection[PodClass]]:
        """The classes in these namespaces that the selector may match, as collections without common members."""
        found: list[Collection[PodClass]] = []
        if selector.nothing:
            return found
        for name in namespaces:
            namespace = self._namespaces.get(name)
            if namespace is not None:
                found += _smallest_candidates(namespace, selector)
        return found


def _smallest_candidates(namespace: _Namespace, selector: LabelSelector) -> Sequence[Collection[PodClass]]:
    """Does not look up more values than there are classes, because it is faster to try the classes."""
    best: list[Collection[PodClass]] = [namespace.not_terminating.values(), namespace.terminating.values()]
    least = sum(map(len, best))
    for requirement in selector.requirements:
        if requirement.operator == "In" and len(requirement.values) <= least:
            found = [namespace.with_pair((requirement.key, value)) for value in requirement.values]
            found.append(namespace.large.keys())
            size = sum(map(len, found))
            if size < least:
                best, least = found, size
    return best
