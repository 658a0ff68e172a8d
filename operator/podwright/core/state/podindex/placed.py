"""Placed pods, grouped: pods that no selector can tell apart are one `PodClass`.

Invariant: the classes hold exactly the pods that were added and not removed; a class, a label pair and a namespace
without pods are dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from podwright.core.objects.pod import LabelSet, PodInfo
from podwright.core.objects.selectors import LabelSelector


class PodClass:
    """The pods of one namespace with the same labels, terminating or not. `at`: how many are in each row."""

    __slots__ = ("at", "labels", "namespace", "terminating")

    def __init__(self, namespace: str, labels: LabelSet, terminating: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.at: dict[int, int] = {}


class _Space:
    """The classes of one namespace; `pairs` has those with a label pair, a lone class without a dict around it."""

    __slots__ = ("live", "pairs", "terminating")

    def __init__(self) -> None:
        self.live: dict[LabelSet, PodClass] = {}
        self.terminating: dict[LabelSet, PodClass] = {}
        self.pairs: dict[tuple[str, str], PodClass | dict[PodClass, None]] = {}

    def file(self, group: PodClass) -> None:
        pairs = self.pairs
        for pair in group.labels.items():
            known = pairs.get(pair)
            if known is None:
                pairs[pair] = group
            elif isinstance(known, PodClass):
                pairs[pair] = {known: None, group: None}
            else:
                known[group] = None

    def drop(self, group: PodClass) -> None:
        pairs = self.pairs
        for pair in group.labels.items():
            known = pairs[pair]
            if isinstance(known, PodClass):
                del pairs[pair]
                continue
            del known[group]
            if len(known) == 1:
                pairs[pair] = next(iter(known))

    def having(self, pair: tuple[str, str]) -> Collection[PodClass]:
        known = self.pairs.get(pair)
        if known is None:
            return ()
        return (known,) if isinstance(known, PodClass) else known.keys()


class PlacedPods:
    """All placed pods by class."""

    def __init__(self) -> None:
        self._spaces: dict[str, _Space] = {}

    @property
    def namespaces(self) -> Collection[str]:
        """Those that have placed pods."""
        return self._spaces.keys()

    def add(self, pod: PodInfo, slot: int) -> PodClass:
        space = self._spaces.get(pod.namespace)
        if space is None:
            space = self._spaces[pod.namespace] = _Space()
        classes = space.terminating if pod.terminating else space.live
        group = classes.get(pod.labels)
        if group is None:
            group = classes[pod.labels] = PodClass(pod.namespace, pod.labels, pod.terminating)
            space.file(group)
        group.at[slot] = group.at.get(slot, 0) + 1
        return group

    def remove(self, pod: PodInfo, slot: int) -> PodClass:
        """Raises KeyError for a pod that was not added there."""
        space = self._spaces[pod.namespace]
        classes = space.terminating if pod.terminating else space.live
        group = classes[pod.labels]
        group.at[slot] -= 1
        if not group.at[slot]:
            del group.at[slot]
        if not group.at:
            del classes[pod.labels]
            space.drop(group)
            if not space.live and not space.terminating:
                del self._spaces[pod.namespace]
        return group

    def candidates(self, namespaces: Iterable[str], selector: LabelSelector) -> Iterator[PodClass]:
        """The classes in these namespaces that the selector may match."""
        if selector.nothing:
            return
        for namespace in namespaces:
            space = self._spaces.get(namespace)
            if space is not None:
                yield from _fewest(space, selector)


def _fewest(space: _Space, selector: LabelSelector) -> Iterable[PodClass]:
    best: list[Collection[PodClass]] = [space.live.values(), space.terminating.values()]
    least = sum(map(len, best))
    for requirement in selector.requirements:
        if requirement.operator == "In":
            found = [space.having((requirement.key, value)) for value in requirement.values]
            size = sum(map(len, found))
            if size < least:
                best, least = found, size
    return (group for groups in best for group in groups)
