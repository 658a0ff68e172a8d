"""A simulated kubelet for every node: nodes become Ready, bound pods Running, deleted pods go.

It runs nothing: images are not pulled, pods never finish or fail. A pod bound to a node that does not exist stays
Pending, since nobody is there to run it.
"""

import asyncio
from collections.abc import Callable

from podwright.sandbox.cluster import Cluster
from podwright.sandbox.kinds import Obj
from podwright.sandbox.pods import set_condition
from podwright.sandbox.store import Change


class Kubelet:
    """Reacts to changes of pods and nodes after `delay` seconds each."""

    def __init__(self, cluster: Cluster, delay: float) -> None:
        self._cluster = cluster
        self._delay = delay
        self._pods = cluster.kinds.named("pods")
        self._nodes = cluster.kinds.named("nodes")
        self._started = 0

    def start(self) -> None:
        self._cluster.store["pods"].watchers.add(self._on_pod)
        self._cluster.store["nodes"].watchers.add(self._on_node)

    def stop(self) -> None:
        self._cluster.store["pods"].watchers.discard(self._on_pod)
        self._cluster.store["nodes"].watchers.discard(self._on_node)

    def _later(self, act: Callable[[tuple[str, str]], None], obj: Obj) -> None:
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        asyncio.get_running_loop().call_later(self._delay, act, key)

    def _on_pod(self, change: Change) -> None:
        if change.new is None or not change.new.obj["spec"].get("nodeName"):
            return
        pod = change.new.obj
        if "deletionTimestamp" in pod["metadata"]:
            self._later(self._kill, pod)
        elif (
            pod["status"].get("phase") == "Pending"
            and ("", pod["spec"]["nodeName"]) in self._cluster.store["nodes"].entries
        ):
            self._later(self._run, pod)

    def _on_node(self, change: Change) -> None:
        if change.old is None and change.new is not None:
            self._later(self._register, change.new.obj)

    def _run(self, key: tuple[str, str]) -> None:
        entry = self._cluster.store["pods"].entries.get(key)
        if entry is None or entry.obj["status"].get("phase") != "Pending" or not entry.obj["spec"].get("nodeName"):
            return
        pod, now = entry.copy(), self._cluster.now()
        self._started += 1
        ip = f"10.{self._started >> 16 & 255}.{self._started >> 8 & 255}.{self._started & 255}"
        for name in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
            set_condition(pod, {"type": name, "status": "True", "lastTransitionTime": now})
        running = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": now}}}
        containers = [
            {"name": item["name"], "image": item.get("image", ""), "imageID": "", **running}
            for item in pod["spec"]["containers"]
        ]
        pod["status"] |= {"phase": "Running", "startTime": now, "hostIP": "127.0.0.1", "podIP": ip}
        pod["status"] |= {"podIPs": [{"ip": ip}], "containerStatuses": containers}
        self._cluster.replace(self._pods, entry, pod)

    def _kill(self, key: tuple[str, str]) -> None:
        entry = self._cluster.store["pods"].entries.get(key)
        if entry is not None and "deletionTimestamp" in entry.obj["metadata"]:
            self._cluster.delete(self._pods, *key, {"gracePeriodSeconds": 0})

    def _register(self, key: tuple[str, str]) -> None:
        entry = self._cluster.store["nodes"].entries.get(key)
        if entry is None:
            return
        node, now = entry.copy(), self._cluster.now()
        status = node.setdefault("status", {})
        status.setdefault("capacity", {"cpu": "8", "memory": "32Gi", "pods": "110"})
        status.setdefault("allocatable", status["capacity"])
        status.setdefault("addresses", [{"type": "Hostname", "address": key[1]}])
        status.setdefault("nodeInfo", {"kubeletVersion": "v1.37.0+sandbox", "osImage": "sandbox"})
        if not any(condition.get("type") == "Ready" for condition in status.get("conditions") or ()):
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated kubelet"}
            set_condition(node, ready | {"lastHeartbeatTime": now, "lastTransitionTime": now})
        self._cluster.replace(self._nodes, entry, node)
