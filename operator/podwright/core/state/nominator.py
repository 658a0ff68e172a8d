"""Pods that were promised a node (`nominatedNodeName`) but are not on it yet, and preemptors that wait for one to be cleared."""

from __future__ import annotations

from collections.abc import Collection

from podwright.core.objects.pod import PodInfo


class Nominator:
    """Nominated pods by node. One node a pod."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, dict[str, PodInfo]] = {}
        self.preempting: set[str] = set()
        """Uids of pods and keys of pod groups whose victims are being evicted. Here, since plugins come and go with policies."""

    def add(self, pod: PodInfo, node_name: str) -> None:
        """Nominates the pod to a node, instead of any other."""
        self.remove(pod.uid)
        self._node_of[pod.uid] = node_name
        self._pods.setdefault(node_name, {})[pod.uid] = pod

    def remove(self, uid: str) -> None:
        node_name = self._node_of.pop(uid, None)
        if node_name is not None:
            pods = self._pods[node_name]
            del pods[uid]
            if not pods:
                del self._pods[node_name]

    def node_of(self, uid: str) -> str:
        """The node that the pod is nominated to, or an empty string."""
        return self._node_of.get(uid, "")

    def on(self, node_name: str) -> Collection[PodInfo]:
        """The pods nominated to a node."""
        return self._pods.get(node_name, {}).values()

    def nodes(self) -> Collection[str]:
        """Nodes to which pods are nominated."""
        return self._pods.keys()

    def __len__(self) -> int:
        return len(self._node_of)
