"""Records what really happened in a cluster, from its own watches of the API server, which bypass the fault proxy.

`Ledger` records when each pod got its node and what each node could hold at that time. Afterwards it answers: was a pod
moved, and was a pod bound to a node that the scheduler had to know was full, tainted or deleted. `pods_that_would_fit`
finds pods that wait without reason. The ledger uses nothing of Podwright's cache or queue; only its parsers.
"""

from __future__ import annotations

import http.client
import math
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import orjson
import yaml

from podwright.core.objects.node import Node, parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.engine.records.decision_annotation import decided_by
from podwright.testing import ControlPlane
from support.faults.machine_delay import MachineDelay

NOTICE_SECONDS: float = 1.0
"""Seconds within which a scheduler must notice a change by another actor, plus the machine's delay."""


@dataclass(frozen=True)
class Binding:
    """A pod got its node. `at`: seconds of the monotonic clock; `version`: the resourceVersion of the pod with its
    node.

    `instance`: the instance of Podwright that decided, from the pod's annotation; empty for other schedulers.
    """

    pod: PodInfo
    node_name: str
    at: float
    version: int
    scheduler: str
    instance: str


@dataclass(frozen=True)
class NodeChange:
    """The state of a node from `at` on; None once it was deleted."""

    node: Node | None
    at: float
    version: int


class Ledger:
    """Records bindings and node changes while it is entered as a context manager. Times are seconds of this process's
    monotonic clock.

    `bindings` maps pod UIDs to bindings, `moved` lists pods whose node changed, `deleted_at` maps UIDs of deleted pods
    to times, and `nodes` maps node names to their changes.
    """

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._versions = {"pods": "", "nodes": ""}
        self.machine_delay = MachineDelay(cluster, self._stop)
        self.bindings: dict[str, Binding] = {}
        self.moved: list[str] = []
        self.deleted_at: dict[str, float] = {}
        self.nodes: dict[str, list[NodeChange]] = {}
        self.listeners: list[Callable[[str, Mapping[str, Any]], object]] = []
        """Called with the kind and the object of each event of a pod, in the ledger's thread."""

    def __enter__(self) -> Self:
        for plural in ("pods", "nodes"):
            self._list(plural)
            thread = threading.Thread(target=self._follow, args=(plural,), name=f"ledger of {plural}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._threads.append(self.machine_delay.start())
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(5)

    # Recording

    def _follow(self, plural: str) -> None:
        record = self._record_pod if plural == "pods" else self._record_node
        while not self._stop.is_set():
            with suppress(OSError, http.client.HTTPException, orjson.JSONDecodeError):
                for event in watched(self._cluster, f"/api/v1/{plural}", self._versions[plural]):
                    if event["type"] == "ERROR":
                        self._list(plural)  # a restarted API server may not have the old resource version
                        break
                    raw = event["object"]
                    self._versions[plural] = raw["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        record(event["type"], raw)
            self._stop.wait(0.1)
        self._cluster.client.close()

    def _list(self, plural: str) -> None:
        """Record all existing objects, and the deletion of those that no longer exist."""
        listed = self._cluster.client.request("GET", f"/api/v1/{plural}")
        record, items = (self._record_pod if plural == "pods" else self._record_node), listed["items"]
        existing = {raw["metadata"]["uid" if plural == "pods" else "name"] for raw in items}
        version = int(listed["metadata"]["resourceVersion"])
        if plural == "pods":  # before recording the items, since they may have taken the place of deleted pods
            self.deleted_at.update(
                dict.fromkeys(self.bindings.keys() - existing - self.deleted_at.keys(), time.monotonic())
            )
        for raw in items:
            record("ADDED", raw)
        if plural == "nodes":
            for name in self.nodes.keys() - existing:
                self.nodes[name].append(NodeChange(None, time.monotonic(), version))
        self._versions[plural] = listed["metadata"]["resourceVersion"]

    def _record_pod(self, kind: str, raw: Mapping[str, Any]) -> None:
        for listener in self.listeners:
            listener(kind, raw)
        uid, node = raw["metadata"]["uid"], raw["spec"].get("nodeName")
        now = time.monotonic()
        if kind == "DELETED":
            self.deleted_at[uid] = now
        known = self.bindings.get(uid)
        if not node or kind == "DELETED":
            if known is not None and not node:
                self.moved.append(f"{known.pod.key}: {known.node_name} -> nowhere")
            return
        if known is None:
            version = int(raw["metadata"]["resourceVersion"])
            scheduler = raw["spec"]["schedulerName"]
            self.bindings[uid] = Binding(parse_pod(raw), node, now, version, scheduler, decided_by(raw))
        elif known.node_name != node:
            self.moved.append(f"{known.pod.key}: {known.node_name} -> {node}")

    def _record_node(self, kind: str, raw: Mapping[str, Any]) -> None:
        node = None if kind == "DELETED" else parse_node(raw)
        change = NodeChange(node, time.monotonic(), int(raw["metadata"]["resourceVersion"]))
        self.nodes.setdefault(raw["metadata"]["name"], []).append(change)

    # Queries

    def last_binding_at(self) -> float:
        """When the last pod was bound; 0 without any binding."""
        return max((binding.at for binding in list(self.bindings.values())), default=0.0)

    def stale_bindings(
        self, schedulers: set[str], *, single_instance: bool = True, within: float | None = None
    ) -> list[str]:
        """Bindings by these schedulers to nodes that had been full, tainted or deleted for longer than `within`
        seconds.

        Room on a node is counted from all pods whose binding was at least that old, whichever scheduler bound them.
        With `single_instance`, bindings by these schedulers count at once, since a single instance knows its own
        bindings. Without `within`: NOTICE_SECONDS plus the machine's delay.
        """
        own = schedulers if single_instance else set()
        by_node: dict[str, list[Binding]] = {}
        for binding in sorted(self.bindings.values(), key=lambda b: b.version):
            by_node.setdefault(binding.node_name, []).append(binding)
        return [
            f"{binding.pod.key} on {binding.node_name}: {why}"
            for same_node in by_node.values()
            for i, binding in enumerate(same_node)
            if binding.scheduler in schedulers and (why := self._why_stale(binding, same_node[:i], own, within))
        ]

    def noticed_within(self, schedulers: set[str], *, single_instance: bool = True) -> float:
        """The shortest of a few times, in seconds, within which the schedulers noticed all changes by other actors."""
        times = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0)
        return next(
            (t for t in times if not self.stale_bindings(schedulers, single_instance=single_instance, within=t)),
            float("inf"),
        )

    def _why_stale(self, binding: Binding, earlier: list[Binding], own: set[str], within: float | None) -> str:
        """Why a binding is stale, or "". `earlier`: the bindings to the same node before it."""
        known = binding.at - (NOTICE_SECONDS + self.machine_delay.before(binding.at) if within is None else within)
        # Resource versions give the order, since the ledger's two watches may lag behind each other.
        changes = [c for c in self.nodes.get(binding.node_name, ()) if c.version < binding.version]
        recent = [c for c in changes if c.at > known]
        before = [c for c in changes if c.at <= known]
        states = [c.node for c in (*before[-1:], *recent)]
        if all(node is None for node in states):
            return "the node was deleted" if states else "the node never existed"
        requested = Counter[str]()
        for other in earlier:
            mine = other.scheduler in own
            if self.deleted_at.get(other.pod.uid, math.inf) <= binding.at or (other.at > known and not mine):
                continue
            requested["pods"] += 1
            requested.update(other.pod.requests.amounts)
        wanted = Counter[str]({"pods": 1, **binding.pod.requests.amounts})
        for node in states:
            if node is None or node.taints or node.unschedulable:
                continue
            if all(requested[r] + n <= node.allocatable.get(r, 0) for r, n in wanted.items()):
                return ""
        return f"requested {dict(requested)}, the node had no room"

    def forget_deleted(self) -> None:
        """Drop the bindings of deleted pods."""
        for uid in self.deleted_at.keys() & self.bindings.keys():
            del self.bindings[uid]


def watched(cluster: ControlPlane, path: str, version: str) -> Iterator[dict[str, Any]]:
    """The events of a watch from this resourceVersion on, until the API server closes it or sends nothing for 2 s.
    Raises OSError.
    """
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = config["users"][0]["user"]["token"]
    host, _, port = cluster.url.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context(cafile=str(cluster.certificate_authority))
    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=2)
    target = f"{path}?watch=1&allowWatchBookmarks=true&resourceVersion={version}"
    try:
        connection.request("GET", target, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        if response.status != 200:
            return
        while line := response.readline():
            yield orjson.loads(line)
    finally:
        connection.close()


def pods_that_would_fit(cluster: ControlPlane, pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Pending pods that would fit on an untainted node, according to the API server's objects. `pods`: all of them."""
    nodes = [parse_node(raw) for raw in cluster.client.items("/api/v1/nodes")]
    parsed = [parse_pod(raw) for raw in pods]
    free: dict[str, Counter[str]] = {}
    for node in nodes:
        if not node.taints and not node.unschedulable:
            free[node.name] = Counter(dict(node.allocatable))
    for pod in parsed:
        if pod.node_name in free and not pod.finished:
            free[pod.node_name].subtract({"pods": 1, **pod.requests.amounts})
    found = []
    for pod in parsed:
        wanted = {"pods": 1, **pod.requests.amounts}
        if pod.node_name or pod.terminating:
            continue
        fits = [name for name, left in free.items() if all(left[r] >= n for r, n in wanted.items())]
        if fits:
            found.append(f"{pod.key}: would fit on {fits[:3]}")
    return found
