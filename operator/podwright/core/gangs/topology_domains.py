"""Topology domains as sets of nodes, and the order in which the planner tries them.

Domains are compared by capacity: how many members they take at most. A capacity may be too high but is never too low,
so a domain whose capacity is too small need not be tried. Where capacities come from: `capacity_bounds`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from podwright.core.framework.interface import Bools, Int64s
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache

MAX_TRIED: Final = 32
"""How many domains are tried one by one for one plan. Packing tries as many single domains before it joins domains."""
SINGLE_STEPS: Final = 8
"""Packing tries this many unions that each grow by one domain; later unions grow by a quarter."""


class TopologyDomains:
    """The domains of a node label by position, sorted by value. `codes`: int64[nodes], a node's position or -1."""

    def __init__(self, cache: Cache, key: str) -> None:
        table = cache.table
        ids = np.where(table.valid, table.labels(key), -1)
        present = set(np.unique(ids[ids >= 0]).tolist())
        named = sorted((value, code) for value, code in table.label_values(key).items() if code in present)
        positions = np.full(len(table.label_values(key)) + 1, -1, np.int64)
        for position, (_, code) in enumerate(named):
            positions[code] = position
        self.values: Sequence[str] = [value for value, _ in named]
        self.codes: Int64s = positions[ids]

    def __len__(self) -> int:
        return len(self.values)

    def nodes(self, position: int) -> Bools:
        """bool[nodes]: the nodes of one domain."""
        nodes: Bools = self.codes == position
        return nodes

    def keep_only(self, value: str) -> None:
        """Drops all domains but this one."""
        self.codes = (
            np.where(self.codes == self.values.index(value), 0, -1) if value in self.values else self.codes * 0 - 1
        )
        self.values = [value] if value in self.values else []


def domains_of(cache: Cache, key: str, uids: Collection[str]) -> frozenset[str]:
    """The label's values on the nodes of these placed pods."""
    values = set()
    for uid in uids:
        info = cache.placement(uid)
        if info is not None and info.node is not None and key in info.node.labels:
            values.add(info.node.labels[key])
    return frozenset(values)


def common_domain(cache: Cache, key: str, placed: Mapping[str, PodInfo]) -> str:
    """The one domain that all these pods are in. Raises ValueError if there is none or more than one."""
    common = ""
    for uid, pod in placed.items():
        info = cache.placement(uid)
        value = None if info is None or info.node is None else info.node.labels.get(key)
        if value is None:
            raise ValueError(f"no topology domain found for pod {pod.key}")
        if common and value != common:
            raise ValueError(f"more than 1 domain found for pod group: {common}, {value}")
        common = value
    return common


def tightest_first(capacity: Mapping[int, int], members: int) -> list[int]:
    """Domains with capacity for all members, the smallest first; then the others, the largest first. `capacity` by
    position.
    """
    enough = sorted((domain for domain in capacity if capacity[domain] >= members), key=lambda domain: capacity[domain])
    others = sorted((domain for domain in capacity if capacity[domain] < members), key=lambda domain: -capacity[domain])
    return [*enough, *others]


def domains_to_try(node_sums: Mapping[int, int], most: Mapping[int, int], members: int, minimum: int) -> list[int]:
    """The positions of domains that may take at least `minimum` members, in the order in which to try them.

    `node_sums`: the sum of their nodes' capacities; `most`: the tighter bound for the domain as a whole. If no domain
    may take `minimum`, the first one is returned, because trying it shows what is missing. Of more than MAX_TRIED
    domains the first half are the tightest and the second half the largest, so that some are right whichever way the
    bounds are wrong.
    """
    order = tightest_first(node_sums, members)
    found = [domain for domain in order if most[domain] >= max(minimum, 1)] or order[:1]
    if len(found) > MAX_TRIED:
        rest = sorted(found[MAX_TRIED // 2 :], key=lambda domain: -node_sums[domain])
        found = found[: MAX_TRIED // 2] + rest
    return found


def smallest_unions(
    domains: TopologyDomains,
    capacity: Mapping[int, int],
    members: int,
    used: Collection[str],
    count_fitting: Callable[[Bools], int],
) -> Iterator[Bools]:
    """Unions of domains to try as bool[nodes], the fewest domains first. Domains in `used` are part of every union.

    First `used` alone, then with one more domain that has capacity for the other members, then with more and more
    domains. The domain added is the one that takes most members by `count_fitting`, which is exact.
    """
    taken = [position for position, value in enumerate(domains.values) if value in used]
    union = np.isin(domains.codes, taken)
    if used:
        yield union
    base = sum(capacity[position] for position in taken)
    left = {position: amount for position, amount in capacity.items() if amount and position not in taken}
    order = tightest_first(left, members)
    for position in ([p for p in order if left[p] >= members - base] or order[:1])[:MAX_TRIED]:
        yield union | domains.nodes(position)
    yield from _growing(domains, union, base, left, members, count_fitting)


def _growing(
    domains: TopologyDomains,
    union: Bools,
    base: int,
    left: dict[int, int],
    members: int,
    count_fitting: Callable[[Bools], int],
) -> Iterator[Bools]:
    exact: dict[int, int] = {}
    tried, due = 0, 0
    for added in range(1, len(left)):
        position = _largest(left, exact, lambda position: count_fitting(domains.nodes(position)))
        union = union | domains.nodes(position)
        base += left.pop(position)
        # A single additional domain was tried before.
        if added == 1 or base < members or added < due:
            continue
        yield union
        tried += 1
        due = added + (1 if tried < SINGLE_STEPS else 1 + added // 4)


def _largest(capacity: Mapping[int, int], exact: dict[int, int], count_fitting: Callable[[int], int]) -> int:
    """The domain that takes most members. No domain takes more than its capacity, so few must be counted exactly."""
    heap = [(-exact.get(position, amount), position) for position, amount in capacity.items()]
    heapq.heapify(heap)
    while True:
        position = heap[0][1]
        if position in exact or len(exact) >= MAX_TRIED:
            return position
        exact[position] = count_fitting(position)
        heapq.heapreplace(heap, (-exact[position], position))


def sum_by_domain(amounts: Int64s, codes: Int64s, count: int) -> Int64s:
    """int64[count]: the sum of `amounts`, int64[nodes], over the nodes of each code. Nodes with code -1 count
    nowhere.
    """
    return np.bincount(codes + 1, amounts, count + 1)[1:].astype(np.int64)
