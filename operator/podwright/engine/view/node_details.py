"""One node, and the pods that fill it: the largest first, of the namespaces that may be seen."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.objects.resources import CPU, MEMORY, PODS
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.engine.process.steps import Steps
from podwright.engine.view.nodes import CORDONED, MOST_RESOURCES, NAMES_OF_A_NODE, NOT_READY, TERMINATING, flags_of

MOST_PODS: Final = 200
MOST_TAINTS: Final = 50
MOST_LABELS: Final = 100
PODS_A_STEP: Final = 500
_STATES: Final = ((NOT_READY, "not ready"), (CORDONED, "cordoned"), (TERMINATING, "terminating"))

Answer = dict[str, Any]


def about_node(cache: Cache, name: str, shows: Callable[[str], bool]) -> Steps[Answer]:
    """Answers what fills a node; empty if there is no such node. `shows`: whether the pods of a namespace are named."""
    info = cache.present(name)
    if info is None:
        return {}
    pods = [*info.pods.values()]
    heap: list[tuple[float, int, PodInfo]] = []
    for number, pod in enumerate(pods, start=1):
        if shows(pod.namespace):
            item = (_size(pod, info), -number, pod)
            if len(heap) < MOST_PODS:
                heapq.heappush(heap, item)
            else:
                heapq.heappushpop(heap, item)
        if number % PODS_A_STEP == 0:
            yield
    info = cache.present(name)
    if info is None:
        return {}
    node = info.present
    flags = flags_of(node)
    return {
        "node": name,
        "states": [text for flag, text in _STATES if flags & flag],
        "taints": [f"{taint.key}={taint.value}:{taint.effect}" for taint in node.taints[:MOST_TAINTS]],
        "labels": [f"{name}={value}" for name, value in sorted(islice(node.labels.items(), MOST_LABELS))],
        "resources": _resources(node, info),
        "podCount": len(pods),
        "pods": [_pod(pod, cache) for _, _, pod in sorted(heap, reverse=True)],
        "unlisted": len(pods) - len(heap),
    }


def _size(pod: PodInfo, info: NodeInfo) -> float:
    """The largest share of CPU or memory of its node that the pod requests."""
    amounts = pod.requests.amounts
    return max(amounts.get(name, 0) / max(1, info.allocatable(name)) for name in (CPU, MEMORY))


def _resources(node: Node, info: NodeInfo) -> list[Answer]:
    offered = [name for name, amount in islice(node.allocatable.items(), NAMES_OF_A_NODE) if amount > 0]
    names = dict.fromkeys((CPU, MEMORY, PODS, *offered))
    return [
        {
            "name": name,
            "requested": len(info.pods) if name == PODS else min(info.requested.get(name, 0), MAX_INT64),
            "allocatable": node.allocatable.get(name, 0),
        }
        for name in islice(names, MOST_RESOURCES)
    ]


def _pod(pod: PodInfo, cache: Cache) -> Answer:
    amounts = pod.requests.amounts
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "cpu": amounts.get(CPU, 0),
        "memory": amounts.get(MEMORY, 0),
        "assumed": cache.is_assumed(pod.uid),
        "terminating": pod.terminating,
    }
