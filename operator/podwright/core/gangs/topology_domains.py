"""Topology domains as sets of nodes, and in which order they are worth a trial.

What is estimated of a domain comes from `Outlook`: never less than what fits, so that one which is too small by the estimate
need not be tried.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from podwright.core.framework.interface import Bools, Int64s
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache

if TYPE_CHECKING:
    from podwright.core.gangs.outlook import Outlook

TRIALS: Final = 32
"""How many domains are tried one by one for one plan; to keep a group together, then the largest are added up."""
FINE_STEPS: Final = 8
"""So many unions of domains grow one domain at a time; those after them by a quarter."""


class Domains:
    """The domains of a node label, by position: sorted by value, of nodes that exist. `codes`: int64[nodes], -1 without it."""

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
        """bool[nodes]: those of one domain."""
        nodes: Bools = self.codes == position
        return nodes

    def only(self, value: str) -> None:
        """Lets go of all others."""
        self.codes = (
            np.where(self.codes == self.values.index(value), 0, -1) if value in self.values else self.codes * 0 - 1
        )
        self.values = [value] if value in self.values else []


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


def tightest_first(sums: Mapping[int, int], wanted: int) -> list[int]:
    """Domains with room for all, the least such room first; then the others, the most room first. `sums`: room by position."""
    enough = sorted((domain for domain in sums if sums[domain] >= wanted), key=lambda domain: sums[domain])
    others = sorted((domain for domain in sums if sums[domain] < wanted), key=lambda domain: -sums[domain])
    return [*enough, *others]


def worth_a_trial(domains: Domains, outlook: Outlook, wanted: int, least: int) -> tuple[list[int], dict[int, int]]:
    """Positions in the order in which to try them, and how many members each takes at most.

    Those that cannot take `least` are left out, but for the first if that leaves none: it says what is lacking. Of more than
    TRIALS, half are the tightest and half the roomiest: whichever way the estimate errs, some are tried that it errs on.
    """
    sums = dict(enumerate(add_up(outlook.room(), domains.codes, len(domains)).tolist()))
    most = dict(enumerate(outlook.most(domains.codes, len(domains)).tolist()))
    order = tightest_first(sums, wanted)
    worth = [domain for domain in order if most[domain] >= max(least, 1)] or order[:1]
    if len(worth) > TRIALS:
        rest = sorted(worth[TRIALS // 2 :], key=lambda domain: -sums[domain])
        worth = worth[: TRIALS // 2] + rest
    return worth, most


def fewest(
    domains: Domains,
    outlook: Outlook,
    wanted: int,
    used: Collection[str],
    fitting: Callable[[Bools], int],
) -> Iterator[Bools]:
    """Sets of nodes worth a trial, of fewest domains first; those that the group is in already cost nothing.

    First what is used, then that and one more domain with room for the rest; then domains are added, each time the one that
    takes most members by `fitting`, which is exact.
    """
    free = outlook.room()
    taken = [position for position, value in enumerate(domains.values) if value in used]
    union = np.isin(domains.codes, taken)
    if used:
        yield union
    sums = dict(enumerate(add_up(free, domains.codes, len(domains)).tolist()))
    base = sum(sums[position] for position in taken)
    left = {position: room for position, room in sums.items() if room and position not in taken}
    order = tightest_first(left, wanted)
    for position in ([p for p in order if left[p] >= wanted - base] or order[:1])[:TRIALS]:
        yield union | domains.nodes(position)
    yield from _growing(domains, union, base, left, wanted, fitting)


def _growing(
    domains: Domains, union: Bools, base: int, left: dict[int, int], wanted: int, fitting: Callable[[Bools], int]
) -> Iterator[Bools]:
    exact: dict[int, int] = {}
    tried, due = 0, 0
    for added in range(1, len(left)):
        position = _most(left, exact, lambda position: fitting(domains.nodes(position)))
        union = union | domains.nodes(position)
        base += left.pop(position)
        # One more domain alone was tried before.
        if added == 1 or base < wanted or added < due:
            continue
        yield union
        tried += 1
        due = added + (1 if tried < FINE_STEPS else 1 + added // 4)


def _most(left: Mapping[int, int], exact: dict[int, int], fitting: Callable[[int], int]) -> int:
    """The domain that takes most members. None takes more than its estimate, so few need a trial."""
    heap = [(-exact.get(position, room), position) for position, room in left.items()]
    heapq.heapify(heap)
    while True:
        position = heap[0][1]
        if position in exact or len(exact) >= TRIALS:
            return position
        exact[position] = fitting(position)
        heapq.heapreplace(heap, (-exact[position], position))


def add_up(amounts: Int64s, codes: Int64s, count: int) -> Int64s:
    """int64[count]: the sum of the amounts of each set of nodes. `codes`: int64[nodes], -1 for in none."""
    return np.bincount(codes + 1, amounts, count + 1)[1:].astype(np.int64)
