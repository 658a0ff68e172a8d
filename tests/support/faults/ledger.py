"""A ledger of what really happened in a cluster, written from watches of the API server's own, past any proxy.

`Ledger` notes when each pod got its node and what each node could hold at that time, and tells afterwards: was a pod moved,
was a node filled beyond what it had long shown, does a pod wait although it would fit. Nothing of Podwright's
cache or queue is asked; amounts are parsed by its core.
"""

from __future__ import annotations

import http.client
import json
import math
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import yaml

from podwright.core.objects.node import Node, parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.testing import ControlPlane
from support.faults.slack import Slack

NOTICED: float = 1.0
"""Seconds within which a change made by somebody else must be taken into account; what the machine was late counts extra."""


@dataclass(frozen=True)
class Binding:
    """A pod got its node. `at`: seconds of the monotonic clock; `version`: the resourceVersion that says so."""

    pod: PodInfo
    node_name: str
    at: float
    version: int
    scheduler: str


@dataclass(frozen=True)
class NodeChange:
    """What a node could hold from `at` on; None once it was deleted."""

    node: Node | None
    at: float
    version: int


class Ledger:
    """See the module. `lag` is how late a note may be taken; times are those of this process."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._versions = {"pods": "", "nodes": ""}
        self.slack = Slack(cluster, self._stop)
        self.bindings: dict[str, Binding] = {}
        self.moved: list[str] = []
        self.gone: dict[str, float] = {}
        self.nodes: dict[str, list[NodeChange]] = {}

    # Taking notes

    def _follow(self, plural: str) -> None:
        take = self._take_pod if plural == "pods" else self._take_node
        while not self._stop.is_set():
            with suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
                for event in self._events(plural):
                    if event["type"] == "ERROR":
                        self._list(plural)  # a new API server knows no old resource versions
                        break
                    raw = event["object"]
                    self._versions[plural] = raw["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        take(event["type"], raw)
            self._stop.wait(0.1)
        self._cluster.client.close()

    def _list(self, plural: str) -> None:
        """All there is, and the end of what was; what happened in between is known from what it left."""
        listed = self._cluster.client.request("GET", f"/api/v1/{plural}")
        take, items = (self._take_pod if plural == "pods" else self._take_node), listed["items"]
        there = {raw["metadata"]["uid" if plural == "pods" else "name"] for raw in items}
        version = int(listed["metadata"]["resourceVersion"])
        if plural == "pods":  # first: what is listed may have got its place from what is gone
            self.gone.update(dict.fromkeys(self.bindings.keys() - there - self.gone.keys(), time.monotonic()))
        for raw in items:
            take("ADDED", raw)
        if plural == "nodes":
            for name in self.nodes.keys() - there:
                self.nodes[name].append(NodeChange(None, time.monotonic(), version))
        self._versions[plural] = listed["metadata"]["resourceVersion"]

    def _events(self, plural: str) -> Iterator[dict[str, Any]]:
        config = yaml.safe_load(self._cluster.kubeconfig.read_text())
        token = config["users"][0]["user"]["token"]
        host, _, port = self._cluster.url.removeprefix("https://").rpartition(":")
        context = ssl.create_default_context(cafile=str(self._cluster.certificate_authority))
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=2)
        path = f"/api/v1/{plural}?watch=1&allowWatchBookmarks=true&resourceVersion={self._versions[plural]}"
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            if answer.status != 200:
                return
            while line := answer.readline():
                yield json.loads(line)
        finally:
            connection.close()

    def _take_pod(self, kind: str, raw: Mapping[str, Any]) -> None:
        uid, node = raw["metadata"]["uid"], raw["spec"].get("nodeName")
        now = time.monotonic()
        if kind == "DELETED":
            self.gone[uid] = now
        known = self.bindings.get(uid)
        if not node or kind == "DELETED":
            if known is not None and not node:
                self.moved.append(f"{known.pod.key}: {known.node_name} -> nowhere")
            return
        if known is None:
            version = int(raw["metadata"]["resourceVersion"])
            self.bindings[uid] = Binding(parse_pod(raw), node, now, version, raw["spec"]["schedulerName"])
        elif known.node_name != node:
            self.moved.append(f"{known.pod.key}: {known.node_name} -> {node}")

    def _take_node(self, kind: str, raw: Mapping[str, Any]) -> None:
        node = None if kind == "DELETED" else parse_node(raw)
        change = NodeChange(node, time.monotonic(), int(raw["metadata"]["resourceVersion"]))
        self.nodes.setdefault(raw["metadata"]["name"], []).append(change)

    # Reading it

    def latest(self) -> float:
        """When the last pod was bound; 0 if none was."""
        return max((binding.at for binding in list(self.bindings.values())), default=0.0)

    def careless(self, schedulers: set[str], *, alone: bool = True, within: float | None = None) -> list[str]:
        """Bindings by these schedulers to nodes which, for so long already, had no room for them or were not there.

        What is free is counted from all pods whose binding was known then, ours as a rival's. Our own
        latest ones count in full, since we need no watch to know them, if we were `alone` in binding them.
        `within`: so many seconds, whatever the machine; if not given, NOTICED and what the machine was late meanwhile.
        """
        own = schedulers if alone else set()
        by_node: dict[str, list[Binding]] = {}
        for binding in sorted(self.bindings.values(), key=lambda b: b.version):
            by_node.setdefault(binding.node_name, []).append(binding)
        return [
            f"{binding.pod.key} on {binding.node_name}: {why}"
            for there in by_node.values()
            for i, binding in enumerate(there)
            if binding.scheduler in schedulers and (why := self._why_careless(binding, there[:i], own, within))
        ]

    def noticed_within(self, schedulers: set[str], *, alone: bool = True) -> float:
        """The shortest of a few times, in seconds, after which no binding missed any more what others had done."""
        times = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0)
        return next((t for t in times if not self.careless(schedulers, alone=alone, within=t)), float("inf"))

    def _why_careless(self, binding: Binding, earlier: list[Binding], own: set[str], within: float | None) -> str:
        """`earlier`: what was bound to the same node before."""
        known = binding.at - (NOTICED + self.slack.before(binding.at) if within is None else within)
        # Which came first the resource versions tell: the two watches of this ledger may lag behind each other.
        changes = [c for c in self.nodes.get(binding.node_name, ()) if c.version < binding.version]
        recent = [c for c in changes if c.at > known]
        before = [c for c in changes if c.at <= known]
        states = [c.node for c in (*before[-1:], *recent)]
        if all(node is None for node in states):
            return "no such node any more" if states else "there never was such a node"
        requested = Counter[str]()
        for other in earlier:
            mine = other.scheduler in own
            if self.gone.get(other.pod.uid, math.inf) <= binding.at or (other.at > known and not mine):
                continue
            requested["pods"] += 1
            requested.update(other.pod.requests.amounts)
        wanted = Counter[str]({"pods": 1, **binding.pod.requests.amounts})
        for node in states:
            if node is None or node.taints or node.unschedulable:
                continue
            if all(requested[r] + n <= node.allocatable.get(r, 0) for r, n in wanted.items()):
                return ""
        return f"requested {dict(requested)}, no room any more"

    def forget_gone(self) -> None:
        """What was bound and is gone is nobody's business any more."""
        for uid in self.gone.keys() & self.bindings.keys():
            del self.bindings[uid]


@contextmanager
def written(cluster: ControlPlane) -> Iterator[Ledger]:
    """A ledger that is kept from here to the end of the block."""
    ledger = Ledger(cluster)
    for plural in ("pods", "nodes"):
        ledger._list(plural)
        thread = threading.Thread(target=ledger._follow, args=(plural,), name=f"ledger of {plural}", daemon=True)
        ledger._threads.append(thread)
        thread.start()
    ledger._threads.append(ledger.slack.start())
    try:
        yield ledger
    finally:
        ledger._stop.set()
        for thread in ledger._threads:
            thread.join(5)


def waits_without_cause(cluster: ControlPlane) -> list[str]:
    """Pending pods that would fit on a node without taints, by a count from the API server."""
    nodes = [parse_node(raw) for raw in cluster.client.items("/api/v1/nodes")]
    parsed = [parse_pod(raw) for raw in cluster.client.items("/api/v1/pods")]
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
