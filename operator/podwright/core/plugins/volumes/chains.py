"""The changes of the choice of volumes if a node reaches some volumes more, or some fewer, than a similar node.

    a volume more ─► the first claim for which it is better takes it
        ─► the volume that this claim had is one more for later claims ─► …
    a volume fewer ─► the claim that had it takes its next best ─► that volume is one fewer for later claims ─► …

Invariant: the result is the same as if all claims chose again. The steps of chains of single volumes are shared, so
that those of all nodes together cost no more than one step for each claim. Volumes are numbers here: their ranks by
capacity in a pool. See `similar_nodes`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

Tally = tuple[int, int, int]
"""(number of volumes, requested bytes, bytes of the volumes)"""

_NEVER: Final = 1 << 62


class Menu(NamedTuple):
    """The volumes from which claims of one kind choose: `suiting` on any node, and `reached` by the node from which
    others differ, in order.
    """

    suiting: AbstractSet[int]
    reached: Sequence[int]


class Chooser(NamedTuple):
    """A claim, by its number in the pod; the index of its menu; its request; and what it takes on the node from which
    others differ.
    """

    claim: int
    menu: int
    request: int
    choice: int | None


class Reassignment(NamedTuple):
    """The claims that get a volume now, those that get none any more, and what is added to the tallies by name of a
    storage class.
    """

    filled: tuple[int, ...] = ()
    emptied: tuple[int, ...] = ()
    tallies: Mapping[str, Tally] = {}


_NO_CHANGE: Final = Reassignment()


def add_to(tallies: dict[str, Tally], more: Mapping[str, Tally]) -> None:
    """Adds these tallies to those of the same names."""
    for name, (count, requested, available) in more.items():
        before = tallies.get(name, (0, 0, 0))
        tallies[name] = (before[0] + count, before[1] + requested, before[2] + available)


class Chains:
    """See the module. For the claims of one pool, in the order in which they choose, which is that of their
    requests.
    """

    def __init__(
        self,
        choosers: Sequence[Chooser],
        menus: Sequence[Menu],
        capacities: Sequence[int],
        weigh: Callable[[int, int], tuple[str, Tally]],
    ) -> None:
        """`capacities`: by rank, ascending. `weigh`: the tally for a claim that takes this volume, and the name to
        which it counts.
        """
        self._choosers = choosers
        self._menus = menus
        self._capacities = capacities
        self._weigh = weigh
        self._taker = {chooser.choice: index for index, chooser in enumerate(choosers) if chooser.choice is not None}
        self._users = [[i for i, c in enumerate(choosers) if c.menu == menu] for menu in range(len(menus))]
        self._choices = [[_rank(choosers[index].choice) for index in users] for users in self._users]
        self._menus_with: dict[int, list[int]] = {}
        self._known: dict[tuple[int, frozenset[int], frozenset[int]], Reassignment] = {}

    def change(self, more: frozenset[int], fewer: frozenset[int]) -> Reassignment | None:
        """Returns the changes with these volumes more and fewer; None if it is cheaper to choose again."""
        size = len(more) + len(fewer)
        steps = _NEVER if size <= 1 else len(self._choosers) // size
        path: list[tuple[tuple[int, frozenset[int], frozenset[int]], Reassignment]] = []
        found, start = _NO_CHANGE, 0
        while (index := self._next(start, more, fewer)) is not None:
            key = (index, more, fewer)
            known = self._known.get(key)
            if known is not None:
                found = known
                break
            if len(path) >= steps:
                return None
            before, after = self._choosers[index].choice, self._best(index, more, fewer)
            path.append((key, self._swap(index, before, after)))
            if after is not None:
                more, fewer = (more - {after}, fewer) if after in more else (more, fewer | {after})
            if before is not None:
                more, fewer = (more, fewer - {before}) if before in fewer else (more | {before}, fewer)
            start = index + 1
        for key, swap in reversed(path):
            tallies = dict(found.tallies)
            add_to(tallies, swap.tallies)
            found = self._known[key] = Reassignment(swap.filled + found.filled, swap.emptied + found.emptied, tallies)
        return found

    def _next(self, start: int, more: frozenset[int], fewer: frozenset[int]) -> int | None:
        """The first claim from `start` on that chooses otherwise."""
        first = min((index for rank in fewer if (index := self._taker.get(rank, -1)) >= start), default=_NEVER)
        for rank in more:
            for menu in self._menus_that_suit(rank):
                users = self._users[menu]
                # In one menu, later claims take larger volumes: each finds what the earlier ones have left, and
                # requests no less.
                at = max(bisect_right(self._choices[menu], rank), bisect_left(users, start))
                if at < len(users) and self._choosers[users[at]].request <= self._capacities[rank]:
                    first = min(first, users[at])
        return None if first == _NEVER else first

    def _best(self, index: int, more: frozenset[int], fewer: frozenset[int]) -> int | None:
        chooser = self._choosers[index]
        menu = self._menus[chooser.menu]
        best = _rank(self._next_best(index, menu, fewer))
        for rank in more:
            if rank < best and rank in menu.suiting and self._capacities[rank] >= chooser.request:
                best = rank
        return None if best == _NEVER else best

    def _next_best(self, index: int, menu: Menu, fewer: frozenset[int]) -> int | None:
        """Returns the volume that the claim takes if those in `fewer` are missing."""
        choice = self._choosers[index].choice
        if choice is None or choice not in fewer:
            return choice
        for at in range(bisect_right(menu.reached, choice), len(menu.reached)):
            rank = menu.reached[at]
            if rank not in fewer and self._taker.get(rank, index) >= index:
                return rank
        return None

    def _swap(self, index: int, before: int | None, after: int | None) -> Reassignment:
        claim = self._choosers[index].claim
        tallies: dict[str, Tally] = {}
        if before is not None:
            name, (count, requested, available) = self._weigh(claim, before)
            tallies[name] = (-count, -requested, -available)
        if after is not None:
            name, tally = self._weigh(claim, after)
            add_to(tallies, {name: tally})
        return Reassignment((claim,) if before is None else (), (claim,) if after is None else (), tallies)

    def _menus_that_suit(self, rank: int) -> Sequence[int]:
        found = self._menus_with.get(rank)
        if found is None:
            found = self._menus_with[rank] = [i for i, menu in enumerate(self._menus) if rank in menu.suiting]
        return found


def _rank(choice: int | None) -> int:
    return _NEVER if choice is None else choice
