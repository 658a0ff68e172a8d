"""NodePorts: rejects nodes where a host port of the pod is in use with the same address and protocol.

`PortIndex` knows the nodes that use each port, so the filter only checks nodes that use one of the pod's ports. The
address 0.0.0.0 means all addresses; `::` is treated as a single address.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.cost import ORDINARY, Cost
from podwright.core.framework.explaining import MOST_READ, PodChange, Why, editable, some
from podwright.core.framework.helpers import rejected_alike
from podwright.core.framework.interface import (
    Bools,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    FilterResult,
    Handle,
    Plugin,
    PreFilterPlugin,
    Scope,
)
from podwright.core.framework.joint_rules import Apart, Barred, JointFilter, JointRule
from podwright.core.framework.status import SKIP, Status, unschedulable
from podwright.core.objects.compaction import compact_regularly, shrink
from podwright.core.objects.items_by_key import count
from podwright.core.objects.pod import HostPort, PodInfo
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import WILDCARD, NodeInfo, UsedPorts
from podwright.core.state.observers import Batch, PlacementObserver, PodsInRows, one_by_one

_TAKEN: Final = unschedulable("node(s) didn't have free ports for the requested pod ports")


class PortIndex(PlacementObserver):
    """Which rows of the node table use which host ports. Pods with equal ports count as one, so that a pod with many
    ports costs no more on many nodes than on one.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[HostPort, ...], int] = {}
        """A number for each combination of ports in use."""
        self._rows: dict[int, dict[int, int]] = {}
        """By combination: how many pods with it each row has."""
        self._users: dict[tuple[str, int], dict[str, set[int]]] = {}
        """By (protocol, port), then by address: the combinations that contain it."""
        self._next = 0
        compact_regularly(self)

    def compact(self) -> None:
        """Frees the memory that the sets of rows needed when there were more."""
        for rows in self._rows.values():
            shrink(rows)

    def conflicting(self, ports: Iterable[HostPort]) -> Iterator[Collection[int]]:
        """Groups of rows where any of the ports is in use. A row may be in several groups."""
        found: set[int] = set()
        for port in ports:
            users = self._users.get((port.protocol, port.port), {})
            for address in users if port.ip == WILDCARD else (port.ip, WILDCARD):
                found.update(users.get(address, ()))
        return map(self._rows.__getitem__, found)

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        if not pod.ports:
            return
        number = self._numbers.get(pod.ports)
        if number is None:
            number = self._numbers[pod.ports] = self._next
            self._next += 1
            self._rows[number] = {}
            for port in pod.ports:
                self._users.setdefault((port.protocol, port.port), {}).setdefault(port.ip, set()).add(number)
        rows = self._rows[number]
        count(rows, slot, 1)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        if not pod.ports:
            return
        number = self._numbers[pod.ports]
        rows = self._rows[number]
        count(rows, slot, -1)
        if not rows:
            del self._numbers[pod.ports], self._rows[number]
            for port in pod.ports:
                self._forget(port, number)

    def _forget(self, port: HostPort, number: int) -> None:
        addresses = self._users[port.protocol, port.port]
        addresses[port.ip].remove(number)
        if not addresses[port.ip]:
            del addresses[port.ip]
        if not addresses:
            del self._users[port.protocol, port.port]

    def batch(self, pods: PodsInRows) -> Batch:
        return one_by_one(self, [each for each in pods if each[0].ports])


class NodePorts(Plugin, PreFilterPlugin, FilterPlugin, EnqueueExtensions, JointFilter):
    """See the module."""

    name = "NodePorts"
    reason = "PortTaken"
    remoteness = 1.5
    scope = Scope.NODE_PODS

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._index = handle.cache.observer(PortIndex)
        self._table = handle.cache.table

    def costs(self, pod: PodInfo) -> Iterable[Cost]:
        return (Cost(number, "host ports", 5e-6),) if (number := len(pod.ports)) > ORDINARY else ()

    def hints(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), _pod_hint),
            EventHint(ClusterEvent(NODE, Action.ADD)),
        )

    def pre_filter(self, _state: CycleState, pod: PodInfo) -> Status | None:
        return None if pod.ports else SKIP

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return _TAKEN if any(node.ports.conflicts(port) for port in pod.ports) else None

    def verdict_key(self, pod: PodInfo) -> Hashable:
        return pod.ports

    def joint_rules(self, members: Sequence[PodInfo]) -> Iterator[JointRule]:
        nodes = np.arange(self._table.size)
        used = [(number, _used_by(pod)) for number, pod in enumerate(members) if pod.ports]
        for position, (one, ports) in enumerate(used):
            for rows in self._index.conflicting(members[one].ports):
                taken = np.zeros(len(nodes), np.bool_)
                taken[np.fromiter(rows, np.intp, len(rows))] = True
                yield Barred(one, taken)
            for other, _ in used[position:]:
                if any(ports.conflicts(port) for port in members[other].ports):
                    yield Apart(one, other, self.name, nodes, len(nodes))

    def filter_all(self, _state: CycleState, pod: PodInfo, table: NodeTable) -> FilterResult | None:
        ok: Bools | None = None
        for rows in self._index.conflicting(pod.ports):
            if ok is None:
                ok = np.ones(table.size, np.bool_)
            ok[np.fromiter(rows, np.intp, len(rows))] = False
        return None if ok is None else rejected_alike(ok, _TAKEN)

    def why_not_here(self, pod: PodInfo, node: NodeInfo, _message: str) -> Why:
        found = (
            f"host port {port.port}/{port.protocol} is taken by {other.key}"
            f"{', which is being deleted' if other.terminating else ''}"
            for other in islice(node.pods.values(), MOST_READ)
            if other.ports
            for used in (_used_by(other),)
            for port in pod.ports
            if used.conflicts(port)
        )
        return Why(detail=some(found))

    def changes_of_pod(self, pod: PodInfo, node: NodeInfo) -> Iterable[PodChange]:
        taken = {(port.port, port.protocol) for port in pod.ports if node.ports.conflicts(port)}
        made, left_out = editable(pod), []
        for field in ("containers", "initContainers"):
            for container in made["spec"].get(field) or ():
                for port in container.get("ports") or ():
                    wanted = port.get("hostPort"), port.get("protocol") or "TCP"
                    if wanted in taken:
                        left_out.append(f"{wanted[0]}/{wanted[1]}")
                        del port["hostPort"]
                        port.pop("hostIP", None)
        if left_out:
            yield PodChange(f"do without host port {', '.join(dict.fromkeys(left_out))}", made)


def _used_by(pod: PodInfo) -> UsedPorts:
    used = UsedPorts()
    for port in pod.ports:
        used.add(port)
    return used


def _pod_hint(pod: PodInfo, deleted: PodInfo | None, _after: PodInfo | None) -> Hint:
    if deleted is None or not (deleted.node_name or deleted.nominated_node_name):
        return Hint.SKIP
    freed = _used_by(deleted)
    return Hint.QUEUE if any(freed.conflicts(port) for port in pod.ports) else Hint.SKIP
