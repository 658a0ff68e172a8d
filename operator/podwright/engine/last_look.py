"""The last look at a node before a Binding is posted, or posted again: is it still there, and is there still room?

Between a decision and its Binding lie a wait in Permit, work in PreBind, or a pause that the API server asked for, and meanwhile
others place pods and nodes shrink. The look costs no request: the cache knows, and the pod itself is counted there already.
"""

from __future__ import annotations

from typing import Final

from podwright.core.framework.profile import Point
from podwright.core.framework.runtime import Framework
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache

FIT: Final = "NodeResourcesFit"
"""Only where this plugin filters is a node that is too full none to bind to."""
COUNTED: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources that no profile can tell NodeResourcesFit to ignore."""


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
