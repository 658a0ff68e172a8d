"""The last look at a node before a Binding is posted, or posted again: is it still there, and is there still room? And one after.

Between a decision and its Binding lie a wait in Permit, work in PreBind, or a pause that the API server asked for, and meanwhile
others place pods and nodes shrink. The look costs no request: the cache knows, and the pod itself is counted there already.
The API server takes a Binding to a node that is gone, and our news of that may come later, after a watch that fell silent more
than a minute later: so there is a look afterwards, too, when the news comes.
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

log = logging.getLogger(__name__)

MISSING: Final = "NodeNotFound"
CHECKS_REMEMBERED: Final = 24
"""For so many looks is kept who was bound: two minutes. A watch that falls silent is noticed sooner."""


class BoundNodeChecks:
    """Tells people of pods that were bound to a node which was gone by then. The pod garbage collector deletes such pods.

    A node that goes later looks the same, so it only counts while its kubelet has not taken the pod (`start_time`).
    """

    def __init__(self, cache: Cache, recorder: Recorder) -> None:
        self._cache = cache
        self._recorder = recorder
        self._bound: deque[set[str]] = deque([set()], CHECKS_REMEMBERED)
        """Uids of pods that were bound, the newest first, one set for each time between two looks."""
        self._stranded: set[str] = set()
        """Uids of pods on nodes that are gone: a pod that is deleted with its node will not be there at the next look."""

    def __len__(self) -> int:
        """Pods that are remembered."""
        return sum(map(len, self._bound))

    def pod_bound(self, pod: PodInfo, node_name: str) -> None:
        """A Binding has gone through."""
        self._bound[0].add(pod.uid)
        if self._cache.present(node_name) is None:
            self._stranded.add(pod.uid)

    def node_removed(self, info: NodeInfo) -> None:
        """There is no such node any more."""
        for uid in info.pods:
            if any(uid in bound for bound in self._bound):
                self._stranded.add(uid)

    def check(self) -> None:
        """To be called every few seconds."""
        self._bound.appendleft(set())
        stranded, self._stranded = self._stranded, set()
        for uid in stranded:
            info = self._cache.placement(uid)
            if info is None or info.node is not None:
                continue
            pod = info.pods[uid]
            if pod.start_time is None and not pod.terminating:
                log.warning("pod %s was bound to node %s, which is gone", pod.key, info.name)
                note = f'bound to node "{info.name}", which is gone'
                self._recorder.record(pod, "Warning", MISSING, "Binding", note)

    def prune(self) -> None:
        """Forgets those that are gone or that a kubelet has taken. After a burst that takes milliseconds: it is for idle times."""
        placement = self._cache.placement
        for bound in self._bound:
            # Makes a set anew, while one from which all was removed keeps the room that a burst took.
            bound.intersection_update(
                [uid for uid in bound if (info := placement(uid)) is not None and info.pods[uid].start_time is None]
            )


def reason_not_to_bind(cache: Cache, framework: Framework, pod: PodInfo, node_name: str) -> str:
    """Why the pod, which is assumed on the node, must not be bound to it any more; empty if it may.

    Only where a ResourceFilter is on is a node that is too full none to bind to, and only of what it does not ignore.
    """
    info = cache.present(node_name)
    if info is None or info.node is None:
        return f'node "{node_name}" not found'
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
