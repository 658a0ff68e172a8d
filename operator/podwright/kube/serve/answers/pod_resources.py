"""/metrics/resources: what each pod requests, and its limits, with kube-scheduler's names, labels and units.

The text is computed from the cache and the queue in the scheduler's thread, page by page, because 50,000 pods would
block the event loop for too long. Sources: the Kubernetes documentation, "Kubernetes Metrics Reference"; Prometheus'
text format 0.0.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

from podwright.core.objects.compaction import cleared_regularly
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY
from podwright.core.queue import SchedulingQueue
from podwright.core.state.cache import Cache
from podwright.engine.records.families import Gauge

RESOURCES_PATH: Final = "/metrics/resources"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PODS_PER_PAGE: Final = 500
"""They take about a millisecond."""

_POD_LABELS: Final = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
POD_REQUEST: Final = Gauge("kube_pod_resource_request", "What a pod requests of each resource.", _POD_LABELS)
POD_LIMIT: Final = Gauge("kube_pod_resource_limit", "How much of each resource a pod may take.", _POD_LABELS)

Pods = Callable[[], Iterable[PodInfo]]
_Amounts = Callable[[PodInfo], Iterable[tuple[str, int]]]

_AMOUNTS: Final[tuple[tuple[Gauge, _Amounts], ...]] = (
    (POD_REQUEST, lambda pod: pod.requests.spec_requests),
    (POD_LIMIT, lambda pod: pod.limits.amounts),
)


def known_pods(cache: Cache, queue: SchedulingQueue) -> Iterator[PodInfo]:
    """The pods in the queue, then those on nodes. Both may change during the iteration; no pod is listed twice."""
    queued_uids = set()
    for uid in queue.uids():
        queued = queue.get(uid)
        if queued is not None:
            queued_uids.add(uid)
            yield queued.pod
    for node in list(cache.nodes.values()):
        yield from [pod for uid, pod in node.pods.items() if uid not in queued_uids]


def pages(pods: Pods) -> Iterator[bytes]:
    """The text in pages, some of them empty. Pods may come and go between two pages."""
    for gauge, amounts in _AMOUNTS:
        lines = [f"# HELP {gauge.name} {gauge.help}\n# TYPE {gauge.name} gauge\n"]
        for number, pod in enumerate(pods(), 1):
            lines += [_line(gauge.name, pod, resource, amount) for resource, amount in amounts(pod)]
            if number % PODS_PER_PAGE == 0:
                yield "".join(lines).encode()
                lines.clear()
        yield "".join(lines).encode()


def _line(name: str, pod: PodInfo, resource: str, amount: int) -> str:
    return (
        f'{name}{{namespace="{pod.namespace}",pod="{pod.name}",node="{pod.node_name}",'
        f'scheduler="{_escaped(pod.scheduler_name)}",priority="{pod.own_priority}",'
        f'resource="{resource}",unit="{_unit(resource)}"}} {amount / 1000 if resource == CPU else amount}\n'
    )


def _escaped(value: str) -> str:
    """A label value. Only the scheduler's name needs escapes: the API server accepts any string there."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@cleared_regularly
@lru_cache(maxsize=1024)
def _unit(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in (MEMORY, EPHEMERAL_STORAGE, "storage") or resource.startswith(HUGE_PAGES_PREFIX):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
