"""Topology domains as sets of nodes, and in which order they are worth a trial.

How many members fit on a node is estimated from what they request: never less than what fits, so that a domain which is
too small by the estimate need not be tried.
"""

from __future__ import annotations

import heapq
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


def tightest_first(cache: Cache, pods: Sequence[PodInfo], domains: Domains, least: int = 0) -> Sequence[Bools]:
    """Domains with room for all pods, the least such room first; then the others, the most room first.

    Those without room for `least` pods are left out, but for the roomiest one if that leaves none: it says what is lacking.
    """
    sums = _sums(room(cache, pods), domains)
    enough = sorted((value for value in domains if sums[value] >= len(pods)), key=lambda value: sums[value])
    others = sorted((value for value in domains if sums[value] < len(pods)), key=lambda value: -sums[value])
    order = [*enough, *others]
    worth = [value for value in order if sums[value] >= least] or order[:1]
    return [domains[value] for value in worth]


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
    free = room(cache, pods)
    union = np.zeros(cache.table.size, np.bool_)
    for value in used:
        union |= domains.get(value, False)
    if used:
        yield union
    sums = _sums(free, domains)
    left = {value: nodes for value, nodes in domains.items() if value not in used and sums[value]}
    base = int(free[union].sum())
    for nodes in tightest_first(cache, pods, left, len(pods) - base)[:TRIALS] if left else ():
        yield union | nodes
    exact: dict[str, int] = {}
    for added in range(1, len(left)):
        union = union | left.pop(_most(left, sums, exact, fitting))
        # One more domain alone was tried above.
        if added > 1 and int(free[union].sum()) >= len(pods):
            yield union


def _sums(free: Int64s, domains: Domains) -> dict[str, int]:
    return {value: int(free[nodes].sum()) for value, nodes in domains.items()}


def _most(left: Domains, sums: Mapping[str, int], exact: dict[str, int], fitting: Callable[[Bools], int]) -> str:
    """The domain that takes most members. None takes more than its estimate, so few need a trial."""
    heap = [(-exact.get(value, sums[value]), value) for value in left]
    heapq.heapify(heap)
    while True:
        value = heap[0][1]
        if value in exact or len(exact) == TRIALS:
            return value
        exact[value] = fitting(left[value])
        heapq.heapreplace(heap, (-exact[value], value))
