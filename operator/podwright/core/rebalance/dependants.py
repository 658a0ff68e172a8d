"""Dependants: the placed pods whose own filters may pass or fail on their nodes because others move.

These are pods with required pod affinity or anti-affinity, or with hard spread constraints. A topology spread of the
cluster's defaults is never hard. Of a template, all pods whose nodes are in the same domains have the same verdict, so
one of them is asked: what breaks the others alone is there before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace

from podwright.core.objects.affinity import PodAffinity, PodAffinityTerm, SpreadConstraints
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache

Group = tuple[object, ...]
"""A template and the values of the labels of nodes that its constraints name."""


@dataclass(slots=True, eq=False)
class Kind:
    """Pods of a namespace with the same constraints, by uid."""

    namespace: str
    spread: SpreadConstraints
    affinity: PodAffinity
    pods: dict[str, PodInfo] = field(default_factory=dict)

    @property
    def keys(self) -> Sequence[str]:
        """The labels of nodes that its constraints name."""
        terms = [term.topology_key for term in _terms(self.affinity)]
        return [*(constraint.topology_key for constraint in self.spread.hard), *terms]

    def notices(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """True if a pod with these labels counts for its constraints."""
        return (self.namespace == namespace and any(each.selector.matches(labels) for each in self.spread.hard)) or any(
            term.matches(namespace, namespace_labels, labels) for term in _terms(self.affinity)
        )


class Dependants:
    """See the module. Reads all placed pods once, when they are first asked about. `broken_of`: the uids of the placed
    pods of which a constraint does not hold.
    """

    def __init__(self, cache: Cache, broken_of: Callable[[Sequence[PodInfo]], Collection[str]]) -> None:
        self._cache = cache
        self._broken_of = broken_of
        self._read = False
        self._kinds: dict[tuple[str, int, int], Kind] = {}
        """By namespace and the identities of the constraints, which pods of one template share."""
        self._sound: set[Group] = set()
        """Groups whose constraints hold, until a pod moves that they notice."""
        self._noticed: list[tuple[Collection[Group], set[Group]]] = []
        """For each move and each kind that noticed it: its groups, and which of them were sound before."""

    def add(self, pod: PodInfo) -> None:
        """A pod has a node now."""
        if self._read:
            self._add(pod)

    def _add(self, pod: PodInfo) -> None:
        if _terms(pod.pod_affinity) or pod.spread.hard:
            key = pod.namespace, id(pod.spread), id(pod.pod_affinity)
            kind = self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = Kind(pod.namespace, pod.spread, pod.pod_affinity)
            kind.pods[pod.uid] = pod

    @property
    def moves(self) -> int:
        """How far `undo` goes back, if it is called later."""
        return len(self._noticed)

    def undo(self, moves: int) -> None:
        """The moves since then were undone."""
        while len(self._noticed) > moves:
            groups, sound = self._noticed.pop()
            self._sound.difference_update(groups)
            self._sound.update(sound)

    def noticing(self, moved: PodInfo) -> Sequence[Kind]:
        """Returns the kinds whose filters may break because this pod moves."""
        for info in () if self._read else self._cache.nodes.values():
            self._cache.deadline.point()
            for pod in info.pods.values() if info.node is not None else ():
                self._add(pod)
        self._read = True
        labels = self._cache.namespace_labels(moved.namespace)
        return [kind for kind in self._kinds.values() if kind.notices(moved.namespace, labels, moved.labels)]

    def broken(self, kinds: Sequence[Kind], but: str, *, moved: bool) -> Mapping[str, PodInfo]:
        """By uid, the pods of these kinds whose constraints do not hold, without the pod `but` and the one in its
        place. `moved`: a pod that they notice has moved since they were asked about.
        """
        found: dict[str, PodInfo] = {}
        for kind in kinds:
            groups = self._groups(kind, but)
            if moved:
                self._noticed.append((groups.keys(), self._sound & groups.keys()))
                self._sound.difference_update(groups)
            unknown = {group: pods for group, pods in groups.items() if group not in self._sound}
            broken = self._broken_of([pods[0] for pods in unknown.values()])
            for group, pods in unknown.items():
                if pods[0].uid in broken:
                    uids = self._broken_of(pods)
                    found.update({pod.uid: pod for pod in pods if pod.uid in uids})
                else:
                    self._sound.add(group)
        return found

    def _groups(self, kind: Kind, but: str) -> Mapping[Group, Sequence[PodInfo]]:
        found: dict[Group, list[PodInfo]] = {}
        keys = kind.keys
        for pod in kind.pods.values():
            info = self._cache.placement(pod.uid)
            if info is not None and info.node is not None and pod.uid not in (but, again_uid(but)):
                domains = (info.node.labels.get(key) for key in keys)
                found.setdefault((id(kind), *template_of(pod), *domains), []).append(pod)
        return found


def template_of(pod: PodInfo) -> Group:
    """Returns the key of a kind of pods whose filters differ only in their nodes."""
    spec = id(pod.labels), id(pod.spread), id(pod.pod_affinity), id(pod.node_affinity), id(pod.tolerations)
    return *spec, pod.priority_class, pod.scheduler_name, pod.policy


def again_uid(uid: str) -> str:
    """The uid of the pod that is planned in place of another."""
    return f"{uid}/again"


def created_again(pod: PodInfo) -> PodInfo:
    """The pod that its controller creates in its place, as it waits."""
    return replace(
        pod, uid=again_uid(pod.uid), node_name="", nominated_node_name="", phase="Pending", start_time=None, raw=None
    )


def _terms(affinity: PodAffinity) -> Sequence[PodAffinityTerm]:
    return (*affinity.required, *affinity.anti_required)
