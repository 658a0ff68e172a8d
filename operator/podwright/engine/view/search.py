"""Finds pods and pod groups by a part of their name, among those of the namespaces that may be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.state.cache import Cache
from podwright.engine.process.steps import Steps
from podwright.engine.view.waiting import PendingPod

MOST_FOUND: Final = 50
"""How many pods, and how many groups, are found."""
MOST_MEMBERS: Final = 100
PODS_A_STEP: Final = 500

Answer = dict[str, Any]


def search(cache: Cache, pods: Iterable[PendingPod | None], text: str, shows: Callable[[str], bool]) -> Steps[Answer]:
    """Finds pods and pod groups, these also by the name of their workload. `pods`: those that wait, None where one has
    gone. `text`: a part of a name, or of `namespace/name`, in lower case. `shows`: whether the pods of a namespace are
    named.
    """
    found: list[Answer] = []
    for number, pod in enumerate(pods, start=1):
        if pod is not None and shows(pod.namespace) and text in f"{pod.namespace}/{pod.name}":
            found.append({"namespace": pod.namespace, "name": pod.name, "place": pod.place})
        if len(found) >= MOST_FOUND:
            break
        if number % PODS_A_STEP == 0:
            yield
    number = 0
    for node_name in [*cache.nodes]:
        info = cache.nodes.get(node_name)
        placed = [] if info is None or len(found) >= MOST_FOUND else [*info.pods.values()]
        for each in placed:
            if shows(each.namespace) and text in each.key and len(found) < MOST_FOUND:
                found.append({"namespace": each.namespace, "name": each.name, "node": node_name})
        number += len(placed)
        if number >= PODS_A_STEP:
            number = 0
            yield
    groups = (group for group in [*cache.groups.all()] if shows(group.namespace) and text in group.title.lower())
    return {"pods": found, "groups": [_group(cache, group) for group in islice(groups, MOST_FOUND)]}


def _group(cache: Cache, group: PodGroup) -> Answer:
    members = cache.groups.members(group.key)
    listed: Iterable[PodInfo] = islice((*members.placed.values(), *members.unplaced()), MOST_MEMBERS)
    return {
        "namespace": group.namespace,
        "name": group.title if group.workload else group.name,
        "minCount": group.min_count if group.gang else 0,
        "placed": members.placed_count,
        "count": members.total,
        "members": [{"namespace": pod.namespace, "name": pod.name, "node": _node(cache, pod)} for pod in listed],
    }


def _node(cache: Cache, pod: PodInfo) -> str:
    info = cache.placement(pod.uid)
    return "" if info is None else info.name
