"""Simulates the kubelets of all nodes: nodes become Ready, bound pods become Running, deleted pods are removed.

Nothing runs: no images are pulled, and pods never finish or fail. A pod that is bound to a missing node stays Pending.
"""

import asyncio
from collections.abc import Callable

from podwright.sandbox.cluster import SandboxCluster
from podwright.sandbox.kinds import Kind
from podwright.sandbox.pods import set_condition
from podwright.sandbox.store import Revision, StoreChange


class Kubelet:
    """Reacts to each change of a pod or node after `delay` seconds. `watchers` holds its callbacks by stored kind."""

    def __init__(self, cluster: SandboxCluster, delay: float) -> None:
        self._cluster, self._delay, self._started = cluster, delay, 0
        self._pods, self._nodes = cluster.kinds.named("pods"), cluster.kinds.named("nodes")
        self.watchers = {"pods": self._on_pod, "nodes": self._on_node}

    def _later(self, act: Callable[[Revision], None], kind: Kind, entry: Revision) -> None:
        """Calls `act` after the delay with the current object, unless it was deleted or replaced."""
        entries = self._cluster.store[kind.stored].entries

        def run() -> None:
            current = entries.get(entry.key)
            if current is not None and current.obj["metadata"]["uid"] == entry.obj["metadata"]["uid"]:
                act(current)

        asyncio.get_running_loop().call_later(self._delay, run)

    def _on_pod(self, change: StoreChange) -> None:
        if change.new is None or not (node := change.new.obj["spec"].get("nodeName")):
            return
        if "deletionTimestamp" in change.new.obj["metadata"]:
            self._later(self._kill, self._pods, change.new)
        elif change.new.obj["status"].get("phase") == "Pending" and ("", node) in self._cluster.store["nodes"].entries:
            self._later(self._run, self._pods, change.new)

    def _on_node(self, change: StoreChange) -> None:
        if change.old is None and change.new is not None:
            self._later(self._register, self._nodes, change.new)

    def _run(self, entry: Revision) -> None:
        pod, now = entry.copy(), self._cluster.now()
        if pod["status"].get("phase") != "Pending":
            return
        self._started += 1
        ip = f"10.{self._started >> 16 & 255}.{self._started >> 8 & 255}.{self._started & 255}"
        for name in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
            set_condition(pod, {"type": name, "status": "True", "lastTransitionTime": now})
        running = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": now}}}
        containers = [
            {"name": item["name"], "image": item.get("image", ""), **running}
            for item in pod["spec"].get("containers") or ()
        ]
        pod["status"] |= {"phase": "Running", "startTime": now, "hostIP": "127.0.0.1", "podIP": ip}
        pod["status"] |= {"podIPs": [{"ip": ip}], "containerStatuses": containers}
        self._cluster.replace(self._pods, entry, pod)

    def _kill(self, entry: Revision) -> None:
        self._cluster.delete(self._pods, *entry.key, {"gracePeriodSeconds": 0})

    def _register(self, entry: Revision) -> None:
        node, now = entry.copy(), self._cluster.now()
        status = node["status"] = {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}} | (
            node.get("status") or {}
        )
        status.setdefault("allocatable", status["capacity"])
        status.setdefault("nodeInfo", {"kubeletVersion": "v1.37.2+sandbox", "osImage": "sandbox"})
        if not any(condition["type"] == "Ready" for condition in status.get("conditions") or ()):
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated kubelet"}
            set_condition(node, ready | {"lastHeartbeatTime": now, "lastTransitionTime": now})
        self._cluster.replace(self._nodes, entry, node)
