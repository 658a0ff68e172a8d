"""What each pod requests and may take, as `/metrics/resources` tells it by kube-scheduler's names, labels and units.

Computed from the cache and the queue while it is sent, page by page: of many pods it is too much to be done in one go.
Source of the format: the Kubernetes documentation, "Kubernetes Metrics Reference", and Prometheus' text format 0.0.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY
from podwright.core.queue import SchedulingQueue
from podwright.core.state.cache import Cache

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PODS_A_PAGE: Final = 500
"""A millisecond."""

Pods = Callable[[], Iterable[PodInfo]]
_Amounts = Callable[[PodInfo], Iterable[tuple[str, int]]]

_FAMILIES: Final[tuple[tuple[str, str, _Amounts], ...]] = (
    ("kube_pod_resource_request", "What a pod requests of each resource.", lambda pod: pod.requests.asked),
    ("kube_pod_resource_limit", "How much of each resource a pod may take.", lambda pod: pod.limits.amounts),
)


def known_pods(cache: Cache, queue: SchedulingQueue) -> Iterator[PodInfo]:
    """Pods of ours that wait, then all that are on nodes. Both may change meanwhile; no pod comes twice."""
    waiting = set()
    for uid in queue.uids():
        queued = queue.get(uid)
        if queued is not None:
            waiting.add(uid)
            yield queued.pod
    for node in list(cache.nodes.values()):
        yield from [pod for uid, pod in node.pods.items() if uid not in waiting]


def pages(pods: Pods) -> Iterator[bytes]:
    """The text in pieces, some of them empty; between them pods may come and go."""
    for name, text, amounts in _FAMILIES:
        lines = [f"# HELP {name} {text}\n# TYPE {name} gauge\n"]
        for number, pod in enumerate(pods(), 1):
            lines += [_line(name, pod, resource, amount) for resource, amount in amounts(pod)]
            if number % PODS_A_PAGE == 0:
                yield "".join(lines).encode()
                lines.clear()
        yield "".join(lines).encode()


def _line(name: str, pod: PodInfo, resource: str, amount: int) -> str:
    return (
        f'{name}{{namespace="{pod.namespace}",pod="{pod.name}",node="{pod.node_name}",'
        f'scheduler="{_escaped(pod.scheduler_name)}",priority="{pod.priority}",'
        f'resource="{resource}",unit="{_unit(resource)}"}} {amount / 1000 if resource == CPU else amount}\n'
    )


@lru_cache(maxsize=1024)
def _escaped(value: str) -> str:
    """A label's value; the API server does not check what a pod calls its scheduler."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@lru_cache(maxsize=1024)
def _unit(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in (MEMORY, EPHEMERAL_STORAGE, "storage") or resource.startswith(HUGE_PAGES_PREFIX):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
