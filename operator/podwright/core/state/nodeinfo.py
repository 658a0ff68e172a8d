"""NodeInfo: a node with the pods on it and the sums over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from podwright.core.objects.compaction import shrink
from podwright.core.objects.node import Node
from podwright.core.objects.pod import HostPort, PodInfo
from podwright.core.objects.resources import CPU, MEMORY, Requests

WILDCARD = "0.0.0.0"  # noqa: S104 -- the host IP that means all addresses


class UsedPorts:
    """Host ports in use, with how often. `0.0.0.0` means all addresses; `::` is an ordinary address."""

    __slots__ = ("_used",)

    def __init__(self, used: Mapping[tuple[str, int], dict[str, int]] | None = None) -> None:
        self._used: dict[tuple[str, int], dict[str, int]] = dict(used or {})

    def add(self, port: HostPort) -> None:
        addresses = self._used.setdefault((port.protocol, port.port), {})
        addresses[port.ip] = addresses.get(port.ip, 0) + 1

    def remove(self, port: HostPort) -> None:
        addresses = self._used.get((port.protocol, port.port), {})
        if addresses.get(port.ip, 0) > 1:
            addresses[port.ip] -= 1
        else:
            addresses.pop(port.ip, None)
            if not addresses:
                self._used.pop((port.protocol, port.port), None)

    def conflicts(self, port: HostPort) -> bool:
        """True if the port is in use on the same address, or on any address if either address is the wildcard."""
        addresses = self._used.get((port.protocol, port.port))
        if not addresses:
            return False
        return port.ip == WILDCARD or port.ip in addresses or WILDCARD in addresses

    def compact(self) -> None:
        """Frees the memory that the dictionary needed when there were more ports."""
        shrink(self._used)

    def __bool__(self) -> bool:
        return bool(self._used)

    def clone(self) -> UsedPorts:
        """For a dry run. As in kube-scheduler, the copy does not count users: a port is free once any of them is
        removed.
        """
        return UsedPorts({port: dict.fromkeys(addresses, 1) for port, addresses in self._used.items()})


class NodeInfo:
    """A node, its pods by uid, and sums: `requested` (milli-CPU, bytes, units) and scoring's view of CPU and memory.

    `requested` always has CPU and memory, and any other resource only while its sum is positive. The table refers to
    this dict, so it is changed in place. `node` is None while pods name a node that does not exist; such a NodeInfo has
    no slot in the table.
    """

    __slots__ = ("name", "node", "pods", "ports", "requested", "scoring_cpu", "scoring_memory", "slot")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.slot = -1
        self.pods: dict[str, PodInfo] = {}
        self.requested: dict[str, int] = {CPU: 0, MEMORY: 0}
        self.scoring_cpu = 0
        self.scoring_memory = 0
        self.ports = UsedPorts()

    @property
    def present(self) -> Node:
        """The node itself. Raises AssertionError for a NodeInfo without a node; plugins never get one."""
        assert self.node is not None, f"node {self.name} does not exist"
        return self.node

    def allocatable(self, resource: str) -> int:
        return 0 if self.node is None else self.node.allocatable.get(resource, 0)

    def add(self, pod: PodInfo) -> None:
        """Adds a pod that is not on the node yet."""
        self.pods[pod.uid] = pod
        requested = self.requested
        for resource, amount in pod.requests.amounts.items():
            if amount:
                requested[resource] = requested.get(resource, 0) + amount
        self.scoring_cpu += pod.requests.scoring_cpu
        self.scoring_memory += pod.requests.scoring_memory
        for port in pod.ports:
            self.ports.add(port)

    def remove(self, pod: PodInfo) -> None:
        """Removes a pod that is on the node. Subtracts the requests of the version that was added."""
        known = self.pods.pop(pod.uid)
        requested = self.requested
        for resource, amount in known.requests.amounts.items():
            left = requested.get(resource, 0) - amount
            if left or resource in (CPU, MEMORY):
                requested[resource] = left
            else:
                requested.pop(resource, None)
        self.scoring_cpu -= known.requests.scoring_cpu
        self.scoring_memory -= known.requests.scoring_memory
        for port in known.ports:
            self.ports.remove(port)
        if not self.pods:
            self.pods.clear()  # frees the memory of a burst, which an empty dict keeps

    def add_all(self, pods: Sequence[PodInfo]) -> Collection[str]:
        """`add` for several pods. Returns the resources that they request."""
        self.pods.update([(pod.uid, pod) for pod in pods])
        for pod in pods:
            for port in pod.ports:
                self.ports.add(port)
        return self._count(pods, 1)

    def remove_all(self, pods: Sequence[PodInfo]) -> Collection[str]:
        """`remove` for several pods, in the versions that were added. Returns the resources that they request."""
        for pod in pods:
            del self.pods[pod.uid]
            for port in pod.ports:
                self.ports.remove(port)
        return self._count(pods, -1)

    def restore_order(self, before: dict[str, PodInfo]) -> None:
        """Brings the pods into the order of `before`, an earlier copy of `pods`, which may be kept. Other pods come
        last.
        """
        current = self.pods
        if current.keys() == before.keys():
            self.pods = before
            return
        self.pods = {uid: pod for uid, pod in before.items() if uid in current}
        self.pods.update({uid: pod for uid, pod in current.items() if uid not in before})

    def _count(self, pods: Sequence[PodInfo], sign: int) -> Collection[str]:
        """Multiplies the requests of pods of one template, instead of adding them one by one. `pods`: at least one."""
        first = pods[0].requests
        if all(pod.requests is first for pod in pods):
            self._count_alike(first, sign * len(pods))
            return first.amounts
        resources: set[str] = set()
        for requests, pods_alike in Counter([pod.requests for pod in pods]).items():
            self._count_alike(requests, sign * pods_alike)
            resources.update(requests.amounts)
        return resources

    def _count_alike(self, requests: Requests, times: int) -> None:
        requested = self.requested
        for resource, amount in requests.amounts.items():
            total = requested.get(resource, 0) + times * amount
            if total or resource in (CPU, MEMORY):
                requested[resource] = total
            else:
                requested.pop(resource, None)
        self.scoring_cpu += times * requests.scoring_cpu
        self.scoring_memory += times * requests.scoring_memory

    def compact(self) -> None:
        """Frees the memory that the dictionaries needed when there were more pods, or pods with more resources and
        ports.
        """
        shrink(self.pods)
        shrink(self.requested)
        self.ports.compact()

    def clone(self) -> NodeInfo:
        """An independent copy, for a dry run."""
        copy = NodeInfo(self.name)
        copy.node = self.node
        copy.slot = self.slot
        copy.pods = dict(self.pods)
        copy.requested = dict(self.requested)
        copy.scoring_cpu = self.scoring_cpu
        copy.scoring_memory = self.scoring_memory
        copy.ports = self.ports.clone()
        return copy
