"""Topology domains as sets of nodes, and in which order they are worth a trial.

How many members fit on a node is estimated from what they request: never less than what fits, so that a domain which is
too small by the estimate need not be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from podwright.core.framework.interface import Bools, Int64s
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache

Domains = Mapping[str, Bools]
"""bool[nodes] by label value."""

TRIALS: Final = 32
"""How many domains are tried one by one before it is good enough to add up the largest."""


def of(cache: Cache, key: str) -> Domains:
    """The domains of a node label, of nodes that have it."""
    table = cache.table
    column, valid = table.labels(key), table.valid
    found = {value: (column == code) & valid for value, code in table.label_values(key).items()}
    return {value: nodes for value, nodes in sorted(found.items()) if nodes.any()}


def used_by(cache: Cache, key: str, placed: Collection[str]) -> frozenset[str]:
    """The label's values on the nodes of these pods, by uid."""
    values = set()
    for uid in placed:
        info = cache.placement(uid)
        if info is not None and info.node is not None and key in info.node.labels:
            values.add(info.node.labels[key])
    return frozenset(values)


def held_by(cache: Cache, key: str, placed: Mapping[str, PodInfo]) -> str:
    """The one domain that these pods are in. Raises ValueError if there is none, or more than one."""
    held = ""
    for uid, pod in placed.items():
        info = cache.placement(uid)
        value = None if info is None or info.node is None else info.node.labels.get(key)
        if value is None:
            raise ValueError(f"no topology domain found for pod {pod.key}")
        if held and value != held:
            raise ValueError(f"more than 1 domain found for pod group: {held}, {value}")
        held = value
    return held


def room(cache: Cache, pods: Sequence[PodInfo]) -> Int64s:
    """int64[nodes]: at most so many of the pods fit on each node, by what the least of them request."""
    table = cache.table
    fits = np.minimum(table.allowed_pods - table.pods, len(pods))
    first = pods[0].requests
    alike = all(pod.requests is first for pod in pods)
    for resource, asked in first.asked:
        least = asked if alike else min(dict(pod.requests.asked).get(resource, 0) for pod in pods)
        if least > 0:
            fits = np.minimum(fits, (table.allocatable(resource) - table.requested(resource)) // least)
    return np.where(table.valid, np.maximum(fits, 0), 0)


def tightest_first(cache: Cache, pods: Sequence[PodInfo], domains: Domains) -> Sequence[Bools]:
    """Domains with room for all pods, the least such room first; then the others, the most room first."""
    free = room(cache, pods)
    sums = {value: int(free[nodes].sum()) for value, nodes in domains.items()}
    enough = sorted((value for value in domains if sums[value] >= len(pods)), key=lambda value: sums[value])
    others = sorted((value for value in domains if sums[value] < len(pods)), key=lambda value: -sums[value])
    return [domains[value] for value in (*enough, *others)]


def fewest(
    cache: Cache,
    pods: Sequence[PodInfo],
    domains: Domains,
    used: Collection[str],
    fitting: Callable[[Bools], int],
) -> Iterator[Bools]:
    """Sets of nodes worth a trial, of fewest domains first; those that the group is in already cost nothing.

    First what is used, then that and one more domain with room for the rest; then domains are added one by one, each time
    the one that takes most members by `fitting`, which is exact.
    """
    start = np.zeros(cache.table.size, np.bool_)
    for value in used:
        start |= domains.get(value, False)
    if used:
        yield start
    others = {value: nodes for value, nodes in domains.items() if value not in used}
    free = room(cache, pods)
    base = int(free[start].sum())
    roomy = {v: n for v, n in others.items() if base + int(free[n].sum()) >= len(pods)}
    for nodes in tightest_first(cache, pods, roomy)[:TRIALS]:
        yield start | nodes
    largest = sorted(others, key=lambda value: (-int(free[others[value]].sum()), value))
    tried = largest[:TRIALS] if len(largest) > 1 else []
    order = [*sorted(tried, key=lambda value: -fitting(others[value])), *largest[len(tried) :]]
    for count in range(2, len(order)):
        union = start.copy()
        for value in order[:count]:
            union |= others[value]
        if int(free[union].sum()) >= len(pods):
            yield union
