"""Checks of the node around a Binding: before it is posted, and after the pod is bound.

Between a decision and its Binding lie Permit's wait, PreBind's work, or a pause that the API server asked for.
Meanwhile nodes may shrink or go, and other schedulers place pods. `reason_not_to_bind` runs right before each post. It
costs no request: the cache knows the node, and already counts the pod there.

The API server accepts a Binding to a node that does not exist, and a watch may report the node's deletion more than a
minute late. So `BoundNodeChecks` remembers bound pods for two minutes and reports those whose node turns out to be
gone.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import ResourceFilter
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.engine.ports import Recorder
from podwright.engine.records.log_fields import fields

log = logging.getLogger(__name__)

MISSING: Final = "NodeNotFound"
CHECKS_REMEMBERED: Final = 24
"""For how many checks a bound pod is remembered: two minutes. A watch that falls silent is noticed sooner."""


class BoundNodeChecks:
    """Records an event for each pod that was bound to a missing node. The pod garbage collector deletes such pods.

    Deleting a node later looks the same, so a pod counts only until a kubelet has taken it (`start_time`).
    """

    def __init__(self, cache: Cache, recorder: Recorder) -> None:
        self._cache = cache
        self._recorder = recorder
        self._bound: deque[set[str]] = deque([set()], CHECKS_REMEMBERED)
        """Uids of bound pods, the newest first: one set for the time between two checks."""
        self._stranded: set[str] = set()
        """Uids of pods on missing nodes. A pod that was deleted together with its node is gone at the next check."""

    def __len__(self) -> int:
        """Pods that are remembered."""
        return sum(map(len, self._bound))

    def pod_bound(self, pod: PodInfo, node_name: str) -> None:
        """Remembers a pod that we have bound."""
        self._bound[0].add(pod.uid)
        if self._cache.present(node_name) is None:
            self._stranded.add(pod.uid)

    def node_removed(self, info: NodeInfo) -> None:
        """Notes that a node was deleted."""
        for uid in info.pods:
            if any(uid in bound for bound in self._bound):
                self._stranded.add(uid)

    def check(self) -> None:
        """Reports pods whose node is missing since before the previous call. Call it every few seconds."""
        self._bound.appendleft(set())
        stranded, self._stranded = self._stranded, set()
        for uid in stranded:
            info = self._cache.placement(uid)
            if info is None or info.node is not None:
                continue
            pod = info.pods[uid]
            if pod.start_time is None and not pod.terminating:
                log.warning("a pod was bound to a node that is gone", extra=fields(pod=pod, node=info.name))
                note = f'bound to node "{info.name}", which is gone'
                self._recorder.record(pod, "Warning", MISSING, "Binding", note)

    def prune(self) -> None:
        """Drops pods that are gone or that a kubelet has taken. Call it when idle: after a burst it takes
        milliseconds.
        """
        placement = self._cache.placement
        for bound in self._bound:
            # Builds a new set: one that only had elements removed keeps the memory of the burst.
            bound.intersection_update(
                [uid for uid in bound if (info := placement(uid)) is not None and info.pods[uid].start_time is None]
            )


def reason_not_to_bind(cache: Cache, framework: Framework, pod: PodInfo, node_name: str) -> str:
    """Why the pod, which is assumed on the node, must not be bound to it; empty if it may be.

    `pod`: as it is now. kube-controller-manager may have made it another claim since the decision, if it did not get
    the answer to the first creation.
    A full node is a reason only if the profile's filters include a ResourceFilter, and only for resources that it does
    not ignore.
    """
    info = cache.present(node_name)
    if info is None or info.node is None:
        return f'node "{node_name}" not found'
    decided = info.pods.get(pod.uid, pod)
    if decided.generated_claims is not pod.generated_claims and decided.generated_claims != pod.generated_claims:
        return "the pod has got other resource claims"
    for plugin in framework.filter_plugins:
        if isinstance(plugin, ResourceFilter):
            break
    else:
        return ""
    allocatable, requested = info.node.allocatable, info.requested
    lacking = ["pods"] if len(info.pods) > allocatable.get("pods", 0) else []
    lacking += [
        name for name, _ in plugin.checked_requests(pod.requests) if requested.get(name, 0) > allocatable.get(name, 0)
    ]
    return f'node "{node_name}" has no room any more: {", ".join(lacking)}' if lacking else ""
