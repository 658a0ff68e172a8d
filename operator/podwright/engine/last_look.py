"""The last look at a node before a Binding is posted, or posted again: is it still there, and is there still room? And one after.

Between a decision and its Binding lie a wait in Permit, work in PreBind, or a pause that the API server asked for, and meanwhile
others place pods and nodes shrink. The look costs no request: the cache knows, and the pod itself is counted there already.
The API server takes a Binding to a node that is gone, and our news of that may come later: so there is a look afterwards, too.
"""

from __future__ import annotations

import logging
from typing import Final

from podwright.core.framework.profile import Point
from podwright.core.framework.runtime import Framework
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.engine.ports import Recorder

log = logging.getLogger(__name__)

MISSING: Final = "NodeNotFound"
FIT: Final = "NodeResourcesFit"
"""Only where this plugin filters is a node that is too full none to bind to."""
COUNTED: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources that no profile can tell NodeResourcesFit to ignore."""


class LookAfterwards:
    """Tells people of pods that were bound to a node which was gone by then. The pod garbage collector deletes such pods."""

    def __init__(self, cache: Cache, recorder: Recorder) -> None:
        self._cache = cache
        self._recorder = recorder
        self._bound: list[tuple[PodInfo, str]] = []
        self._looked_at: list[tuple[PodInfo, str]] = []

    def bound(self, pod: PodInfo, node_name: str) -> None:
        """A Binding has gone through."""
        self._bound.append((pod, node_name))

    def look(self) -> None:
        """Looks at the nodes of all pods that were bound since the look before the last: each is looked at twice."""
        bound = [*self._looked_at, *self._bound]
        self._looked_at, self._bound = self._bound, []
        for pod, node_name in bound:
            if self._cache.present(node_name) is None and self._cache.placement(pod.uid) is not None:
                self._looked_at = [entry for entry in self._looked_at if entry[0] is not pod]
                log.warning("pod %s was bound to node %s, which is gone", pod.key, node_name)
                note = f'bound to node "{node_name}", which is gone'
                self._recorder.record(pod, "Warning", MISSING, "Binding", note)


def obstacle(cache: Cache, framework: Framework, pod: PodInfo, node_name: str) -> str:
    """Why the pod, which is assumed on the node, must not be bound to it any more; empty if it may."""
    info = cache.present(node_name)
    if info is None or info.node is None:
        return f'node "{node_name}" not found'
    if not any(plugin.name == FIT for plugin in framework.at(Point.FILTER)):
        return ""
    allocatable = info.node.allocatable
    lacking = ["pods"] if len(info.pods) > allocatable.get("pods", 0) else []
    wanted = [resource for resource in COUNTED if pod.requests.amounts.get(resource, 0)]
    lacking += [resource for resource in wanted if info.requested[resource] > allocatable.get(resource, 0)]
    return f'node "{node_name}" has no room any more: {", ".join(lacking)}' if lacking else ""
