"""TaintSets: the distinct taint lists of the nodes, numbered. Rules about taints are evaluated once for each of them.

Invariant: a list has a number as long as a node has it. Numbers of lists that no node has any more are reused, and are
at most twice as many as those in use, plus a few.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.taints import Taint

TaintList = tuple[Taint, ...]
_UNUSED: Final = 64
"""This many unused numbers are kept in any case."""


class TaintSets:
    """See the module. Number 0 is the empty list, which unused numbers stand for, too."""

    def __init__(self) -> None:
        self.lists: list[TaintList] = [()]
        self.version = 0
        """Rises whenever `lists` changes."""
        self._ids: dict[TaintList, int] = {(): 0}
        self._nodes: list[int] = [0]
        self._unused: list[int] = []
        compact_regularly(self)

    def add(self, taints: TaintList) -> int:
        """The number of the list, which one more node has now."""
        number = self._ids.get(taints)
        if number is None:
            self.version += 1
            if self._unused:
                number = self._unused.pop()
                self.lists[number] = taints
            else:
                number = len(self.lists)
                self.lists.append(taints)
                self._nodes.append(0)
            self._ids[taints] = number
        self._nodes[number] += 1
        return number

    def remove(self, taints: TaintList) -> None:
        """One node fewer has the list."""
        number = self._ids[taints]
        self._nodes[number] -= 1
        if number and not self._nodes[number]:
            self.version += 1
            del self._ids[taints]
            self.lists[number] = ()
            self._unused.append(number)

    def renumber(self) -> NDArray[np.int32] | None:
        """Drops unused numbers if there are too many of them. Returns the new numbers by the old ones; None if nothing
        changed.
        """
        if len(self._unused) <= _UNUSED + len(self._ids):
            return None
        new = np.zeros(len(self.lists), np.int32)
        nodes = [self._nodes[number] for number in self._ids.values()]
        for position, number in enumerate(self._ids.values()):
            new[number] = position
        self.lists = list(self._ids)
        self._ids = {taints: position for position, taints in enumerate(self.lists)}
        self._nodes = nodes
        self._unused = []
        self.version += 1
        return new
