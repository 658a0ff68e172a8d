"""Total scores of all nodes, and which are the greatest, kept for the pods of one template.

The plugins that score most pods keep an array for each template, and compute the rows again that have changed. Sums of
such arrays are kept in the same way. So a decision adds up and compares a few rows, not all of them, with equal
results.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Sequence
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import Bools, Slots, WholeNumbers
from podwright.core.objects.compaction import RecentCache, compact_regularly
from podwright.core.state.columns.change_log import ChangeLog

KEPT_SIZE: Final = 16_384
"""In smaller tables, passes over all rows take no longer."""
MAX_TOTALS: Final = 256
MAX_BYTES: Final = 128 << 20
"""Enough for all templates on 100,000 nodes for which a `RowCache` has arrays. With fewer, those that take turns would
cost more than without.
"""
SHARED_GAPS: Final = 64
"""Templates for which at most one row in this many is infeasible share totals. Others have their own, by what keeps
their pods off nodes: otherwise they would turn most rows of each other's.
"""
_MOST_GONE: Final = 64
_SLOT_BYTES: Final = np.dtype(np.intp).itemsize
_NO_ROWS: Final[Slots] = np.empty(0, np.intp)

Number = type[np.signedinteger[Any]] | np.dtype[np.signedinteger[Any]]
Parts = Sequence[tuple[NDArray[Any], int]]
"""Arrays over all rows, each with its weight."""


class KeptTotal(Sequence[int]):
    """The `total` of some arrays and a constant, [nodes], and as a sequence the rows where it is greatest, in ascending
    order. The total of a row that is not feasible is the least number of its type.
    """

    __slots__ = ("_all", "_best", "_constant", "_gone", "_least", "_parts", "_seq", "total")

    def __init__(self, parts: Parts, constant: int, dtype: Number) -> None:
        self._parts = parts
        self._constant = constant
        self._seq = -1
        self._all = True
        """True if all rows were feasible."""
        self._least = int(np.iinfo(dtype).min)
        self.total: WholeNumbers = np.empty(0, dtype)
        self._best: Slots = np.empty(0, np.intp)
        self._gone: list[int] = []
        """Positions in `_best` of rows whose total is not the greatest any more."""

    def __len__(self) -> int:
        return len(self._best) - len(self._gone)

    def __getitem__(self, index: Any) -> Any:
        position = index if index >= 0 else len(self) + index
        for gone in self._gone:
            if gone > position:
                break
            position += 1
        return int(self._best[position])

    def update(self, log: ChangeLog, alive: Bools | None = None) -> None:
        """Adds up again what has changed. `alive`, bool[nodes]: the feasible rows; None: all. Their changes are found
        by comparison, because a filter may depend on more than the node.
        """
        rows = log.rows_since(self._seq) if self._seq >= 0 else None
        self._seq = log.seq
        turned = _NO_ROWS
        if rows is not None and not (self._all and alive is None):
            turned = ((self.total == self._least) == (True if alive is None else alive)).nonzero()[0]
        self._all = alive is None
        if rows is None or len(rows) + len(turned) > len(self.total) // 8:
            self.total = self._added_up(slice(None), alive)
            self._find_best()
            return
        for changed in (rows, turned):
            if len(changed):
                self._change(changed, self._added_up(changed, alive))

    def _added_up(self, rows: Slots | slice, alive: Bools | None) -> WholeNumbers:
        parts = [(scores[rows], weight) for scores, weight in self._parts]
        total = added_up(parts, self._constant, self.total.dtype)
        if alive is not None:
            total[~alive[rows]] = self._least
        return total

    def _change(self, rows: Slots, totals: WholeNumbers) -> None:
        greatest, most = self.total[self[0]], totals[totals.argmax()]
        before = self.total[rows] == greatest
        self.total[rows] = totals
        if most > greatest:
            self._best, self._gone = np.sort(rows[totals == most]), []
            return
        now = totals == greatest
        left = rows[before > now]
        if np.count_nonzero(now > before) or len(left) > _MOST_GONE:
            self._find_best()
            return
        for position in self._best.searchsorted(left).tolist():
            insort(self._gone, position)
        if not len(self):
            self._find_best()
        elif len(self._gone) > _MOST_GONE:
            self._best, self._gone = np.delete(self._best, self._gone), []

    def _find_best(self) -> None:
        self._best, self._gone = (self.total == self.total[self.total.argmax()]).nonzero()[0], []


class KeptTotals:
    """The last few of them. All policies share one, because many have equal scores."""

    def __init__(self) -> None:
        self._known: RecentCache[Hashable, KeptTotal] = RecentCache(MAX_TOTALS // 2, MAX_BYTES // 2)
        self._once: dict[Hashable, Parts] = {}
        """The parts that were requested only once, as for pods that all differ. They must not displace totals."""
        compact_regularly(self)

    def compact(self) -> None:
        self._once.clear()

    def get(self, parts: Parts, constant: int, dtype: Number, rules: Hashable = None) -> KeptTotal | None:
        """The total of these arrays, which the caller has to update; None if they are asked for the first time.
        `rules`: what keeps the pod off many rows.
        """
        # Both maps refer to the arrays, so that their ids are of no others.
        key = (dtype, constant, rules, *[(id(scores), weight) for scores, weight in parts])
        known = self._known.get(key)
        if known is None:
            once = self._once
            if once.pop(key, None) is not None:
                known = KeptTotal(parts, constant, dtype)
                self._known.put(key, known, (known.total.itemsize + _SLOT_BYTES) * len(parts[0][0]))
                return known
            if len(once) >= MAX_TOTALS:
                del once[next(iter(once))]
            once[key] = parts
        return known


def added_up(parts: Parts, constant: int, dtype: Number) -> WholeNumbers:
    """The constant plus each array times its weight. `parts`: at least one."""
    total: Any = None
    for scores, weight in parts:
        part = scores if scores.dtype == dtype else scores.astype(dtype)
        part = part if weight == 1 else part * weight
        if total is None:
            total = part + constant
        else:
            total += part
    return cast("WholeNumbers", total)
