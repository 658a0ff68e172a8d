"""The cache: nodes, the pods on them (placed or assumed), namespaces and all other objects.

A pod's life in here:

    (unknown) ── assume ──► assumed ── set_pod (the watch shows it placed) ──► placed ── remove_pod ──► (unknown)
        ▲                      │                                                  ▲
        └────── forget ────────┘            set_pod (bound by somebody) ──────────┘ from (unknown)

Invariants: a pod is on at most one node; sums of a NodeInfo and its row in the table are those of its pods; observers
have seen exactly the pods on nodes that exist. Events are idempotent: `set_pod` of what is known changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Protocol, TypeVar

from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns import DerivedColumns, NodeTable
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.nominator import Nominator
from podwright.core.state.object_store import Object, ObjectStore, key_of
from podwright.core.state.pod_groups import OnInvalidGroup, PodGroups
from podwright.core.state.podindex import PodIndex
from podwright.core.state.volumes import Volumes


class PlacementObserver(Protocol):
    """Keeps something by what pods are on which nodes. Slots are rows of the table."""

    def pod_added(self, pod: PodInfo, slot: int) -> None: ...

    def pod_removed(self, pod: PodInfo, slot: int) -> None: ...

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        """A node came (before None), changed, or is about to go (after None, its pods were removed first)."""

    def namespace_set(self, name: str, labels: Mapping[str, str]) -> None: ...


_NO_LABELS: Mapping[str, str] = {}
Observer = TypeVar("Observer", bound=PlacementObserver)


class Cache:
    """See the module. `on_invalid_group` is called when a pod group cannot be parsed."""

    def __init__(self, on_invalid_group: OnInvalidGroup | None = None) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        """By name; those with `node` None only hold pods of a node that is not there."""
        self.table = NodeTable()
        self.derived = DerivedColumns(self.table)
        self.nominator = Nominator()
        self.store = ObjectStore()
        self.volumes = Volumes(self.store)
        self.groups = PodGroups(self.store, on_invalid_group)
        self._placed: dict[str, NodeInfo] = {}
        self._assumed: set[str] = set()
        self._observers: list[PlacementObserver] = [self.volumes, self.groups]
        self._by_slot: dict[int, NodeInfo] = {}

    def attach(self, observer: PlacementObserver) -> None:
        """Adds an observer and shows it what is here already."""
        for namespace in self.store.list("Namespace"):
            observer.namespace_set(key_of(namespace)[1], _labels_of(namespace))
        for info in self.nodes.values():
            if info.node is not None:
                observer.node_set(info.slot, None, info.node)
                for pod in info.pods.values():
                    observer.pod_added(pod, info.slot)
        self._observers.append(observer)

    def observer(self, kind: type[Observer]) -> Observer:
        """The one observer of this class, attached when it is first asked for: the plugins of all profiles share it."""
        for known in self._observers:
            if type(known) is kind:
                return known
        made = kind()
        self.attach(made)
        return made

    @cached_property
    def pods_index(self) -> PodIndex:
        """Counts of placed pods by selector and by affinity term. Costs nothing until it is asked."""
        return PodIndex(self.table, self.derived, self._known_labels, self.attach)

    # Reading

    def node_at(self, slot: int) -> NodeInfo:
        """The NodeInfo of a row. Raises KeyError for a hole."""
        return self._by_slot[slot]

    def present(self, name: str) -> NodeInfo | None:
        """The NodeInfo of a node that exists."""
        info = self.nodes.get(name)
        return info if info is not None and info.node is not None else None

    def placement(self, uid: str) -> NodeInfo | None:
        """Where a placed or assumed pod is."""
        return self._placed.get(uid)

    def confirmed(self) -> set[str]:
        """The uids of all pods with a node that are not just assumed to be there."""
        return self._placed.keys() - self._assumed

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    @property
    def pod_count(self) -> int:
        """Placed and assumed pods."""
        return len(self._placed)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Empty for a namespace that is not known."""
        namespace = self.store.get("Namespace", name)
        return _NO_LABELS if namespace is None else _labels_of(namespace)

    def _known_labels(self, name: str) -> Mapping[str, str] | None:
        namespace = self.store.get("Namespace", name)
        return None if namespace is None else _labels_of(namespace)

    # Nodes

    def set_node(self, node: Node) -> None:
        """A node appeared or changed. Pods that named it before it was there are its own from now on."""
        info = self._info(node.name)
        before = info.node
        info.node = node
        if before is not None:
            self.table.update(info.slot, node)
        else:
            info.slot = self.table.add(node)
            self._by_slot[info.slot] = info
            for resource, amount in info.requested.items():
                self.table.set_usage(info.slot, resource, amount)
            self._write_counts(info)
        for observer in self._observers:
            observer.node_set(info.slot, before, node)
        if before is None:
            for pod in info.pods.values():
                for observer in self._observers:
                    observer.pod_added(pod, info.slot)

    def remove_node(self, name: str) -> None:
        """A node is gone. Its pods stay known and count nowhere until it is back or they are gone, too."""
        info = self.nodes.get(name)
        if info is None or info.node is None:
            return
        for observer in self._observers:
            for pod in info.pods.values():
                observer.pod_removed(pod, info.slot)
            observer.node_set(info.slot, info.node, None)
        self.table.remove(info.slot)
        del self._by_slot[info.slot]
        info.node = None
        info.slot = -1
        self._drop_if_empty(info)

    # Pods

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Counts a pod on a node before its Binding is posted. Raises ValueError if it is on one already."""
        if pod.uid in self._placed:
            raise ValueError(f"pod {pod.key} is on node {self._placed[pod.uid].name} already")
        self._put(pod, node_name)
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> None:
        """Takes an assumed pod off again. Raises ValueError if it is not assumed."""
        if uid not in self._assumed:
            raise ValueError(f"pod {uid} is not assumed")
        self._assumed.discard(uid)
        self._take(uid)

    def set_pod(self, pod: PodInfo) -> None:
        """What the API server says of a pod with a node. A finished pod no longer counts."""
        if not pod.node_name or pod.finished:
            self.remove_pod(pod.uid)
            return
        self._assumed.discard(pod.uid)
        info = self._placed.get(pod.uid)
        if info is not None:
            known = info.pods[pod.uid]
            if info.name == pod.node_name and _counts_alike(known, pod):
                info.pods[pod.uid] = pod
                return
            self._take(pod.uid)
        self._put(pod, pod.node_name)

    def remove_pod(self, uid: str) -> None:
        """A pod is gone or finished; one that is not known is no error."""
        self._assumed.discard(uid)
        if uid in self._placed:
            self._take(uid)

    # For transactions, which see to the order of pods

    def remove_pods(self, node_name: str, pods: Sequence[PodInfo]) -> None:
        """`remove_pod` for several pods on one node, which must exist. Each sum of the node is written once."""
        info, placed = self.nodes[node_name], self._placed
        for observer in self._observers:
            removed = observer.pod_removed
            for pod in pods:
                removed(pod, info.slot)
        for pod in pods:
            del placed[pod.uid]
        self._assumed.difference_update([pod.uid for pod in pods])
        self._write_usages(info, info.remove_all(pods))

    def restore_pods(self, node_name: str, pods: Sequence[PodInfo], assumed: Collection[str]) -> None:
        """Undoes `remove_pods`, but for the order of pods. `assumed`: the uids of pods to be assumed again."""
        info, placed = self.nodes[node_name], self._placed
        resources = info.add_all(pods)
        for pod in pods:
            placed[pod.uid] = info
        if assumed:
            self._assumed.update([pod.uid for pod in pods if pod.uid in assumed])
        for observer in self._observers:
            added = observer.pod_added
            for pod in pods:
                added(pod, info.slot)
        self._write_usages(info, resources)

    # Everything else

    def set_object(self, kind: str, raw: Object) -> None:
        """Adds or replaces an object of another kind. Raises InvalidObjectError without a name."""
        self.store.set(kind, raw)
        if kind == "Namespace":
            for observer in self._observers:
                observer.namespace_set(key_of(raw)[1], _labels_of(raw))

    def remove_object(self, kind: str, name: str, namespace: str = "") -> None:
        self.store.remove(kind, name, namespace)
        if kind == "Namespace":
            for observer in self._observers:
                observer.namespace_set(name, _NO_LABELS)

    # Internals

    def _info(self, name: str) -> NodeInfo:
        info = self.nodes.get(name)
        if info is None:
            info = self.nodes[name] = NodeInfo(name)
        return info

    def _put(self, pod: PodInfo, node_name: str) -> None:
        info = self._info(node_name)
        info.add(pod)
        self._placed[pod.uid] = info
        if info.slot >= 0:
            self._write_usage(info, pod)
            for observer in self._observers:
                observer.pod_added(pod, info.slot)

    def _take(self, uid: str) -> None:
        info = self._placed.pop(uid)
        if not self._placed:
            self._placed.clear()  # an empty dict keeps the room that a burst took
        pod = info.pods[uid]
        if info.slot >= 0:
            for observer in self._observers:
                observer.pod_removed(pod, info.slot)
        info.remove(pod)
        if info.slot >= 0:
            self._write_usage(info, pod)
        self._drop_if_empty(info)

    def _write_usage(self, info: NodeInfo, pod: PodInfo) -> None:
        requested = info.requested
        for resource in pod.requests.amounts:
            self.table.set_usage(info.slot, resource, requested[resource])
        self._write_counts(info)

    def _write_usages(self, info: NodeInfo, resources: Iterable[str]) -> None:
        for resource in resources:
            self.table.set_usage(info.slot, resource, info.requested.get(resource, 0))
        self._write_counts(info)

    def _write_counts(self, info: NodeInfo) -> None:
        self.table.set_counts(info.slot, len(info.pods), info.scoring_cpu, info.scoring_memory)

    def _drop_if_empty(self, info: NodeInfo) -> None:
        if info.node is None and not info.pods:
            self.nodes.pop(info.name, None)


def _counts_alike(known: PodInfo, pod: PodInfo) -> bool:
    return (
        known.requests is pod.requests
        and known.labels is pod.labels
        and known.terminating == pod.terminating
        and known.pod_affinity is pod.pod_affinity
        and known.ports == pod.ports
        and known.volumes == pod.volumes
    )


def _labels_of(raw: Object) -> Mapping[str, str]:
    labels = raw["metadata"].get("labels")
    return labels if isinstance(labels, Mapping) else _NO_LABELS
