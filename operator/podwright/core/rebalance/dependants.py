"""Dependants: the placed pods whose own filters may pass or fail on their nodes because others move.

These are pods with required pod affinity or anti-affinity, or with hard spread constraints. A topology spread of the
cluster's defaults is never hard.
"""

from __future__ import annotations

from collections.abc import Sequence

from podwright.core.objects.affinity import PodAffinity, PodAffinityTerm, SpreadConstraints
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache


class Dependants:
    """See the module. Reads all placed pods once."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._kinds: dict[tuple[str, int, int], tuple[SpreadConstraints, PodAffinity, list[PodInfo]]] = {}
        """By namespace and the identities of the constraints, which pods of one template share."""
        for info in cache.nodes.values():
            cache.deadline.point()
            for pod in info.pods.values() if info.node is not None else ():
                self.add(pod)

    def add(self, pod: PodInfo) -> None:
        """A pod has a node now."""
        if _terms(pod.pod_affinity) or pod.spread.hard:
            key = pod.namespace, id(pod.spread), id(pod.pod_affinity)
            self._kinds.setdefault(key, (pod.spread, pod.pod_affinity, []))[2].append(pod)

    def of(self, moved: PodInfo) -> Sequence[PodInfo]:
        """Those that notice this pod, without itself, as far as they still are on nodes."""
        found: list[PodInfo] = []
        namespace, labels = moved.namespace, self._cache.namespace_labels(moved.namespace)
        for (own, _, _), (spread, affinity, pods) in self._kinds.items():
            if (own == namespace and any(each.selector.matches(moved.labels) for each in spread.hard)) or any(
                term.matches(namespace, labels, moved.labels) for term in _terms(affinity)
            ):
                found += pods
        return [pod for pod in found if pod.uid != moved.uid and self._cache.placement(pod.uid)]


def _terms(affinity: PodAffinity) -> Sequence[PodAffinityTerm]:
    return (*affinity.required, *affinity.anti_required)
