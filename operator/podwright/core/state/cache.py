"""The cache: nodes, the pods on them (placed or assumed), namespaces and all other objects.

The states of a pod in the cache:

    (unknown) ── assume ──► assumed ── set_pod (the watch reports it as bound) ──► placed ── remove_pod ──► (unknown)
        ▲                      │                                                      ▲
        └────── forget ────────┘            set_pod (another scheduler bound it) ─────┘ from (unknown)

Invariants: a pod is on at most one node; the sums of a NodeInfo and its row in the table are those of its pods;
observers know exactly the pods on nodes that exist, and some also the others. Events are idempotent: `set_pod` of a
known version changes nothing. Next: `transaction`, for changes that are only tried out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final, TypeVar

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns import DerivedColumns, NodeTable
from podwright.core.state.crowds import Crowds
from podwright.core.state.deadline import Deadline
from podwright.core.state.devices import Devices
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.nominator import Nominator
from podwright.core.state.object_store import Object, ObjectStore, key_of
from podwright.core.state.observers import Contained, PlacementObserver, ReportIndexException, itself, report_all
from podwright.core.state.pod_groups import OnInvalidGroup, PodGroups
from podwright.core.state.podindex import PodIndex
from podwright.core.state.reservations import Reservations
from podwright.core.state.services import ServiceSelectors
from podwright.core.state.signals import SignalDefinition, Signals
from podwright.core.state.topologies import Topologies
from podwright.core.state.volumes import Volumes

NO_ROW: Final = -1
"""The row of a node that does not exist."""
NODES_AT_ONCE: Final = 10_000
_OWN: Final = "podwright."
_NO_LABELS: Final[Mapping[str, str]] = {}
T = TypeVar("T")
Observer = TypeVar("Observer", bound=PlacementObserver)


class Cache:
    """See the module. `on_invalid_group` is called when a pod group cannot be parsed; `store` is empty; `signals` know
    no nodes.
    """

    def __init__(
        self,
        on_invalid_group: OnInvalidGroup | None = None,
        store: ObjectStore | None = None,
        signals: Signals | None = None,
    ) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        """By name. A NodeInfo whose `node` is None holds the pods of a node that does not exist."""
        self.table = NodeTable()
        self.deadline = Deadline()
        """Where long attempts may pause."""
        self.derived = DerivedColumns(self.table, pause=self.deadline.point)
        self.nominator = Nominator()
        self.crowds = Crowds(self.nominator, self.table)
        self.reservations = Reservations(self)
        self.store = ObjectStore() if store is None else store
        self.volumes = Volumes(self.store)
        self.services = ServiceSelectors(self.store)
        self.groups = PodGroups(self.store, on_invalid_group)
        self.devices = Devices(self.store, table=self.table, derived=self.derived, pause=self.deadline.point)
        self.topologies = Topologies(self.table, pause=self.deadline.point)
        self.signals = signals or Signals()
        self.refusals: dict[str, Callable[[PodInfo], Any]] = {}
        """PreFilter's checks in every profile after the plugins, by plugin name: a returned Status refuses the pod."""
        self.place_rules: Any = None
        """The `Bounds` of queues that name flavors, which every profile follows after its plugins; None: no rules."""
        self._changes = 0
        self._placed: dict[str, NodeInfo] = {}
        self._assumed: set[str] = set()
        self._observers: list[PlacementObserver] = [self.volumes, self.groups]
        if self.signals:
            self._attach_signals()
        self._off_nodes: list[PlacementObserver] = []
        """The observers that are also told of pods on nodes that do not exist."""
        self._by_slot: dict[int, NodeInfo] = {}
        self._next_compacted = 0
        self._extensions: dict[type[Any], Any] = {}
        self._contain: ReportIndexException | None = None
        compact_regularly(self)

    def compact(self) -> None:
        """Frees memory that objects needed which are gone. Compacts a part of the nodes, so that it takes
        milliseconds.
        """
        first = self._next_compacted if self._next_compacted < len(self.nodes) else 0
        self._next_compacted = first + NODES_AT_ONCE
        for info in islice(self.nodes.values(), first, self._next_compacted):
            info.compact()

    def attach(self, observer: PlacementObserver, *, off_nodes: bool = False) -> None:
        """Adds an observer and reports all current namespaces, nodes and pods to it. With `off_nodes`, also pods on
        nodes that do not exist, in row NO_ROW.
        """
        for namespace in self.store.list("Namespace"):
            observer.namespace_set(key_of(namespace)[1], _labels_of(namespace))
        for info in tuple(self.nodes.values()):
            if info.node is not None:
                observer.node_set(info.slot, None, info.node)
            for pod in info.pods.values() if info.node is not None or off_nodes else ():
                observer.pod_added(pod, info.slot)
        self._observers.append(observer)
        if off_nodes:
            self._off_nodes.append(observer)

    def detach(self, observer: PlacementObserver) -> None:
        """Reports nothing more to an observer that `attach` added."""
        self._observers.remove(observer)
        if observer in self._off_nodes:
            self._off_nodes.remove(observer)

    def observer(self, kind: type[Observer]) -> Observer:
        """The one observer of this class, which the plugins of all profiles share. Attached at the first call."""
        for known in map(itself, self._observers):
            if type(known) is kind:
                return known
        made = kind()
        self.attach(made)
        if self._contain is not None and not kind.__module__.startswith(_OWN):
            self._observers[-1] = Contained(made, self._contain)
        return made

    def _attach_signals(self) -> None:
        self.signals.attach(self.table)
        self._observers.append(self.signals)

    def define_signals(self, definitions: Sequence[SignalDefinition], afresh: Collection[str]) -> None:
        """From now on these signals exist: see `Signals.define`."""
        self._changes += 1
        if definitions and self.signals not in self._observers:
            self._attach_signals()
        self.signals.define(definitions, afresh)

    def contain_indexes(self, report: ReportIndexException) -> None:
        """From now on, exceptions of third-party observers are reported, instead of ending the change of the cache
        halfway.
        """
        self._contain = report

    def forget_kinds_of(self, modules: Collection[str]) -> None:
        """Drops what code of these modules has registered: observers, extensions and derived columns. The code is not
        used any more.
        """
        self._observers = [each for each in self._observers if type(itself(each)).__module__ not in modules]
        for kind in [kind for kind in self._extensions if kind.__module__ in modules]:
            del self._extensions[kind]
        self.derived.clear()

    def extension(self, kind: type[T], make: Callable[[], T]) -> T:
        """The one object of this class that packages above the state keep for this cache. Made at the first call."""
        found = self._extensions.get(kind)
        if found is None:
            found = self._extensions[kind] = make()
        extension: T = found
        return extension

    @cached_property
    def pods_index(self) -> PodIndex:
        """Counts of placed pods by selector and by affinity term. Costs nothing until it is first read."""
        return PodIndex(
            self.table,
            self.derived,
            namespaces=self._known_labels,
            attach=self.attach,
            pause=self.deadline.point,
        )

    # Reading

    @property
    def version(self) -> tuple[int, ...]:
        """Differs after each change of anything that a decision depends on, except policies and the pod itself."""
        return (
            self._changes,
            self.nominator.changes,
            self.groups.changes,
            self.store.changes,
            self.volumes.index.changes,
            self.devices.claims.changes,
            self.topologies.changes,
            self.signals.version,
        )

    def node_at(self, slot: int) -> NodeInfo:
        """The NodeInfo of a row. Raises KeyError for a row without a node."""
        return self._by_slot[slot]

    def present(self, name: str) -> NodeInfo | None:
        """The NodeInfo of a node that exists."""
        info = self.nodes.get(name)
        return info if info is not None and info.node is not None else None

    def placement(self, uid: str) -> NodeInfo | None:
        """The NodeInfo of a placed or assumed pod; None for any other pod."""
        return self._placed.get(uid)

    def confirmed(self) -> set[str]:
        """The uids of all placed pods that are not merely assumed."""
        return self._placed.keys() - self._assumed

    def assumed_pods(self) -> Sequence[PodInfo]:
        """The pods whose Bindings are not confirmed yet."""
        return [self._placed[uid].pods[uid] for uid in self._assumed]

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    @property
    def pod_count(self) -> int:
        """The number of placed and assumed pods."""
        return len(self._placed)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Empty for an unknown namespace."""
        namespace = self.store.get("Namespace", name)
        return _NO_LABELS if namespace is None else _labels_of(namespace)

    def _known_labels(self, name: str) -> Mapping[str, str] | None:
        namespace = self.store.get("Namespace", name)
        return None if namespace is None else _labels_of(namespace)

    # Nodes

    def set_node(self, node: Node) -> None:
        """A node was added or changed. Pods that were bound to it before it was known count from now on."""
        self._changes += 1
        info = self._info(node.name)
        before = info.node
        info.node = node
        if before is not None:
            self.table.update(info.slot, node)
        else:
            info.slot = self.table.add(node, info.requested)
            self._by_slot[info.slot] = info
            self._write_counts(info)
        for observer in self._observers:
            observer.node_set(info.slot, before, node)
        if before is None:
            for pod in info.pods.values():
                for observer in self._off_nodes:
                    observer.pod_removed(pod, NO_ROW)
                for observer in self._observers:
                    observer.pod_added(pod, info.slot)

    def remove_node(self, name: str) -> None:
        """A node was deleted. Its pods stay known, but count nowhere until the node is added again or they are
        deleted.
        """
        info = self.nodes.get(name)
        if info is None or info.node is None:
            return
        self._changes += 1
        for observer in self._observers:
            for pod in info.pods.values():
                observer.pod_removed(pod, info.slot)
            observer.node_set(info.slot, info.node, None)
        for observer in self._off_nodes:
            for pod in info.pods.values():
                observer.pod_added(pod, NO_ROW)
        self.table.remove(info.slot)
        del self._by_slot[info.slot]
        info.node = None
        info.slot = -1
        self._drop_if_empty(info)

    # Pods

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Counts a pod on a node before its Binding is posted. Raises ValueError if the pod is on a node already."""
        if pod.uid in self._placed:
            raise ValueError(f"pod {pod.key} is on node {self._placed[pod.uid].name} already")
        self._add(pod, node_name)
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> None:
        """Undoes `assume`. Raises ValueError if the pod is not assumed."""
        if uid not in self._assumed:
            raise ValueError(f"pod {uid} is not assumed")
        self._assumed.discard(uid)
        self._remove(uid)

    def set_pod(self, pod: PodInfo) -> None:
        """The API server reports a pod with a node. A finished pod no longer counts."""
        if not pod.node_name or pod.finished:
            self.remove_pod(pod.uid)
            return
        self._assumed.discard(pod.uid)
        info = self._placed.get(pod.uid)
        if info is not None:
            known = info.pods[pod.uid]
            if info.name == pod.node_name and _counts_alike(known, pod):
                info.pods[pod.uid] = pod
                if pod.group:
                    self.groups.pod_changed(pod)
                self._changes += 1
                return
            self._remove(pod.uid)
        self._add(pod, pod.node_name)

    def replace_pod(self, pod: PodInfo) -> None:
        """A placed or assumed pod has this version from now on. One that is assumed stays so."""
        node_name = self._placed[pod.uid].name
        self._remove(pod.uid)
        self._add(pod, node_name)

    def remove_pod(self, uid: str) -> None:
        """A pod was deleted or has finished. An unknown uid is ignored."""
        self._assumed.discard(uid)
        if uid in self._placed:
            self._remove(uid)

    # For transactions, which also restore the order of pods

    def remove_pods(self, by_node: Mapping[str, Sequence[PodInfo]]) -> Collection[str]:
        """`remove_pod` for several pods, by the names of their nodes, which must exist. Each sum of a node is written
        once.

        Returns the uids of the pods that were assumed.
        """
        self._changes += 1
        nodes, placed = self.nodes, self._placed
        removed = [(pod, nodes[name].slot) for name, pods in by_node.items() for pod in pods]
        for observer in self._observers:
            report_all(observer, removed, present=False)
        for pod, _ in removed:
            del placed[pod.uid]
        assumed = self._assumed.intersection([pod.uid for pod, _ in removed]) if self._assumed else frozenset()
        self._assumed -= assumed
        self._write_usage_of({name: nodes[name].remove_all(pods) for name, pods in by_node.items()})
        return assumed

    def restore_pods(self, by_node: Mapping[str, Sequence[PodInfo]], assumed: Collection[str]) -> None:
        """Undoes `remove_pods`, except for the order of pods. `assumed`: the uids of pods to assume again."""
        self._changes += 1
        nodes, placed = self.nodes, self._placed
        resources = {name: nodes[name].add_all(pods) for name, pods in by_node.items()}
        restored: list[tuple[PodInfo, int]] = []
        for name, pods in by_node.items():
            info = nodes[name]
            for pod in pods:
                placed[pod.uid] = info
                restored.append((pod, info.slot))
        if assumed:
            self._assumed.update([pod.uid for pod, _ in restored if pod.uid in assumed])
        for observer in self._observers:
            report_all(observer, restored, present=True)
        self._write_usage_of(resources)

    # Other objects

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

    def _add(self, pod: PodInfo, node_name: str) -> None:
        self._changes += 1
        info = self._info(node_name)
        info.add(pod)
        self._placed[pod.uid] = info
        if info.slot >= 0:
            self._write_usage(info, pod.requests.amounts)
        for observer in self._observers if info.slot >= 0 else self._off_nodes:
            observer.pod_added(pod, info.slot)

    def _remove(self, uid: str) -> None:
        self._changes += 1
        info = self._placed.pop(uid)
        if not self._placed:
            self._placed.clear()  # frees the memory of a burst, which an empty dict keeps
        pod = info.pods[uid]
        for observer in self._observers if info.slot >= 0 else self._off_nodes:
            observer.pod_removed(pod, info.slot)
        info.remove(pod)
        if info.slot >= 0:
            self._write_usage(info, pod.requests.amounts)
        self._drop_if_empty(info)

    def _write_usage(self, info: NodeInfo, resources: Iterable[str]) -> None:
        self.table.write_usage(info.slot, resources)
        self._write_counts(info)

    def _write_usage_of(self, resources: Mapping[str, Iterable[str]]) -> None:
        """The same for several nodes, by name."""
        infos = [self.nodes[name] for name in resources]
        for info, changed in zip(infos, resources.values(), strict=True):
            self.table.write_usage(info.slot, changed)
        self.table.set_counts_of(
            [info.slot for info in infos],
            pods=[len(info.pods) for info in infos],
            scoring_cpu=[info.scoring_cpu for info in infos],
            scoring_memory=[info.scoring_memory for info in infos],
        )

    def _write_counts(self, info: NodeInfo) -> None:
        self.table.set_counts(info.slot, len(info.pods), info.scoring_cpu, info.scoring_memory)

    def _drop_if_empty(self, info: NodeInfo) -> None:
        if info.node is None and not info.pods:
            self.nodes.pop(info.name, None)


def _counts_alike(known: PodInfo, pod: PodInfo) -> bool:
    return (
        known.requests is pod.requests
        and known.labels is pod.labels
        and known.queue == pod.queue
        and known.policy == pod.policy
        and known.priority == pod.priority
        and known.group == pod.group
        and known.terminating == pod.terminating
        and known.pod_affinity is pod.pod_affinity
        and known.ports == pod.ports
        and known.volumes == pod.volumes
    )


def _labels_of(raw: Object) -> Mapping[str, str]:
    labels = raw["metadata"].get("labels")
    return labels if isinstance(labels, Mapping) else _NO_LABELS
