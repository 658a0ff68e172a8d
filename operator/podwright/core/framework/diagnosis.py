"""Why nodes were rejected: stored as masks. The reasons are computed only when they are needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.contract import explained
from podwright.core.framework.interface import Bools, FilterResult, Slots
from podwright.core.framework.status import Code, Status, unresolvable
from podwright.core.objects.dataclass import dataclass
from podwright.core.state.columns.table import NodeTable


@dataclass(slots=True)
class Stage:
    """One filter run over all nodes: the nodes that were left before and after it, bool[nodes] each."""

    plugin: str
    before: Bools
    after: Bools
    result: FilterResult
    _explained: tuple[NDArray[np.integer[Any]], Sequence[Status]] | None = None

    @property
    def rejected(self) -> Bools:
        return self.before & ~self.after

    def statuses(self) -> tuple[NDArray[np.integer[Any]], Sequence[Status]]:
        """int[nodes] codes and the statuses they index, stamped with the plugin's name."""
        if self._explained is None:
            self._explained = explained(self.plugin, self.result, self.rejected)
        return self._explained


_NO_REASON = unresolvable()


class NodeDiagnosis:
    """The first rejection of every node.

    A node's status is in `explicit` (the node was filtered by itself), in a stage (filtered with all others), or it is
    `absent`: PreFilter's verdict on all nodes, or on the nodes that it excluded.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.total = table.count
        self.candidate_count = table.count
        """How many rows are to be filtered."""
        self.stages: list[Stage] = []
        self.explicit: dict[int, Status] = {}
        self.elsewhere: list[Status] = []
        """The statuses of unknown nodes that extenders named. kube-scheduler's message counts them as well."""
        self.pre_filter: Status | None = None
        self.absent: Status = _NO_REASON
        self.considered: frozenset[int] | None = None
        """The only rows that were filtered, if PreFilter excluded the others; None: all."""

    def reject_all(self, status: Status) -> None:
        """PreFilter rejected the pod on all nodes."""
        self.pre_filter = self.absent = status

    def consider_only(self, slots: Iterable[int], absent: Status) -> None:
        """Only these rows are filtered; `absent` is the status of all others."""
        self.considered, self.absent = frozenset(slots), absent
        self.candidate_count = len(self.considered)

    def considered_rows(self, considered: frozenset[int]) -> Bools:
        """`considered` as bool[nodes]."""
        rows = np.zeros(self._table.size, np.bool_)
        rows[list(considered)] = True
        return rows

    def reject_explicitly(self, statuses: Mapping[int, Status]) -> None:
        """The statuses of rows that were filtered by themselves."""
        self.explicit.update(statuses)

    def filtered_again(self, slots: Slots) -> None:
        """Removes rows from the stages that rejected them, because they were filtered again by themselves."""
        for index, stage in enumerate(self.stages if len(slots) else ()):
            again = slots[stage.before[slots] & ~stage.after[slots]]
            if len(again):
                after = stage.after.copy()
                after[again] = True
                self.stages[index] = Stage(stage.plugin, stage.before, after, stage.result)

    def status_of(self, slot: int) -> Status | None:
        """The status that rejected the node in this row; None if none did."""
        status = self.explicit.get(slot)
        if status is not None:
            return status
        if self._is_absent(slot):
            return self.absent
        for stage in self.stages:
            if stage.before[slot] and not stage.after[slot]:
                codes, statuses = stage.statuses()
                return statuses[int(codes[slot])]
        return None

    def _is_absent(self, slot: int) -> bool:
        return self.pre_filter is not None or (self.considered is not None and slot not in self.considered)

    def statuses(self) -> Mapping[int, Status]:
        """The status of every rejected row, including absent ones."""
        found: dict[int, Status] = {}
        if self.pre_filter is not None or self.considered is not None:
            absent = (int(slot) for slot in np.flatnonzero(self._table.valid) if self._is_absent(int(slot)))
            found = dict.fromkeys(absent, self.absent)
        for stage in self.stages:
            codes, statuses = stage.statuses()
            for slot in np.flatnonzero(stage.rejected):
                found[int(slot)] = statuses[codes[slot]]
        found.update(self.explicit)
        return found

    def reasons(self) -> Counter[str]:
        """How many nodes have each reason."""
        counted: Counter[str] = Counter()
        for _, reason, nodes in self._reasons():
            counted[reason] += nodes
        return counted

    def reasons_by_plugin(self) -> dict[str, Counter[str]]:
        """The same for each plugin."""
        counted: dict[str, Counter[str]] = {}
        for plugin, reason, nodes in self._reasons():
            counted.setdefault(plugin, Counter())[reason] += nodes
        return counted

    def _reasons(self) -> Iterator[tuple[str, str, int]]:
        """Plugins, reasons, and numbers of nodes; some more than once."""
        for stage in self.stages:
            codes, statuses = stage.statuses()
            used, nodes = np.unique(codes[stage.rejected], return_counts=True)
            for code, count in zip(used, nodes, strict=True):
                for reason in statuses[code].reasons:
                    yield stage.plugin, reason, int(count)
        for status in (*self.explicit.values(), *self.elsewhere):
            for reason in status.reasons:
                yield status.plugin, reason, 1
        outside = 0 if self.considered is None else self.total - len(self.considered)
        if outside:
            for reason in self.absent.reasons:
                yield self.absent.plugin, reason, outside

    def plugins(self) -> dict[str, int]:
        """How many nodes each plugin rejected."""
        counted: dict[str, int] = {}
        for stage in self.stages:
            rejected = int(np.count_nonzero(stage.before)) - int(np.count_nonzero(stage.after))
            counted[stage.plugin] = counted.get(stage.plugin, 0) + rejected
        for status in self.explicit.values():
            counted[status.plugin] = counted.get(status.plugin, 0) + 1
        return counted

    def resolvable(self) -> Slots:
        """The rows where preemption may help: those rejected with the code Unschedulable."""
        if self.pre_filter is not None:
            everything = self.absent.code is Code.UNSCHEDULABLE
            return np.flatnonzero(self._table.valid) if everything else np.empty(0, np.intp)
        chosen = np.zeros(self._table.size, np.bool_)
        for stage in self.stages:
            codes, statuses = stage.statuses()
            resolvable = np.array([status.code is Code.UNSCHEDULABLE for status in statuses], np.bool_)
            chosen |= stage.rejected & resolvable[codes]
        for slot, status in self.explicit.items():
            chosen[slot] = status.code is Code.UNSCHEDULABLE
        return np.flatnonzero(chosen)

    def message(self, post_filter: str = "") -> str:
        """The message of FailedScheduling: `0/N nodes are available: …`, then the message of PostFilter."""
        text = f"0/{self.total} nodes are available:"
        if self.pre_filter is not None and self.pre_filter.reasons:
            text += f" {self.pre_filter.message}."
        else:
            words = sorted(f"{count} {reason}" for reason, count in self.reasons().items())
            if words:
                text += f" {', '.join(words)}."
        return f"{text} {post_filter}" if post_filter else text
