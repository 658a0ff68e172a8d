"""Signals: the numbers that sources outside say about nodes, as columns over the node table.

    kube/node_signals (a source's answer) ──► take ──┐
    the node's annotations (set_node)     ──► node_set ──► samples, with times ──► values: float64[nodes]
    time passes                           ──► tick ──┘     (the default where there is no sample, or one too old)

Values change only in these calls, never because time passes between them, so that a decision sees one state. `changes`
logs the rows whose value has changed. A sample that is no finite number within the signal's bounds is dropped: the node
keeps its last one, until that is too old. Invariant: a node has its default, or its last sample, and nothing else has
an influence. Next: `placed_pods`, for what the samples do not show yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import Final, NamedTuple
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo, parse_time
from podwright.core.state.columns.change_log import ChangeLog
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.observers import PlacementObserver
from podwright.core.state.signals.definition import SignalDefinition
from podwright.core.state.signals.placed_pods import Int64s, PlacedPods

Floats = NDArray[np.float64]
Slots = NDArray[np.intp]
MAX_TEXT: Final = 64
"""Characters of a number in an annotation."""


class Sample(NamedTuple):
    """A number from a source about a node, and how many seconds before the request it was measured."""

    value: float
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class Taken:
    """How many samples were `new`, `wrong` (no number within the bounds), of `unknown` nodes, or too `old`."""

    new: int = 0
    wrong: int = 0
    unknown: int = 0
    old: int = 0

    def __add__(self, other: Taken) -> Taken:
        return Taken(self.new + other.new, self.wrong + other.wrong, self.unknown + other.unknown, self.old + other.old)


class Coverage(NamedTuple):
    """The age of a signal's newest sample in seconds, inf without any; how many nodes have a sample that is not too
    old; and of how many the annotation is no sample.
    """

    age: float
    nodes: int
    malformed: int


class _Column:
    """One signal. Arrays have a row for each row of the table: `samples` in the source's unit, `times` of the samples,
    -inf without one.
    """

    __slots__ = (
        "cutoff",
        "definition",
        "fresh",
        "malformed",
        "mean",
        "placed",
        "readers",
        "samples",
        "times",
        "values",
        "view",
    )

    def __init__(self, definition: SignalDefinition) -> None:
        self.definition = definition
        self.samples: Floats = np.zeros(0)
        self.times: Floats = np.zeros(0)
        self.mean: float | None = None
        """The mean share of the resource that is in use; None: not calculated yet."""
        self.fresh: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.values: Floats = np.zeros(0)
        self.view: Floats = self.values
        self.placed: Int64s | None = None
        """The requests of pods that were placed after `cutoff`. None: not requested yet."""
        self.cutoff: Floats = np.zeros(0)
        self.readers: WeakSet[object] = WeakSet()
        """The readers of `placed`."""
        self.malformed: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Where the annotation is no number within the bounds, or has no time."""

    def grow(self, size: int) -> None:
        if len(self.values) >= size:
            return
        more = max(size, 2 * len(self.values)) - len(self.values)
        self.samples = np.pad(self.samples, (0, more))
        self.times = np.pad(self.times, (0, more), constant_values=-inf)
        self.fresh = np.pad(self.fresh, (0, more))
        self.malformed = np.pad(self.malformed, (0, more))
        self.values = np.pad(self.values, (0, more), constant_values=self.definition.default)
        self.cutoff = np.pad(self.cutoff, (0, more), constant_values=-inf)
        if self.placed is not None:
            self.placed = np.pad(self.placed, (0, more))
        self.view = self.values.view()
        self.view.setflags(write=False)


class Signals(PlacementObserver):
    """See the module. `clock` never steps back, `wall` is seconds since the epoch."""

    def __init__(
        self,
        definitions: Sequence[SignalDefinition] = (),
        clock: Callable[[], float] = lambda: 0.0,
        wall: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._clock, self._wall = clock, wall
        self._columns = {each.name: _Column(each) for each in definitions}
        self._table: NodeTable | None = None
        self._pods: PlacedPods | None = None
        self._horizon = max((each.horizon for each in definitions), default=0.0)
        self.changes = ChangeLog()
        """The rows where any signal has changed."""
        self.version = 0
        """Rises when a value, or what was placed since, has changed."""

    def __bool__(self) -> bool:
        return bool(self._columns)

    def attach(self, table: NodeTable) -> None:
        """The table whose nodes the columns are about. Only for the cache."""
        self._table = table

    def define(self, definitions: Sequence[SignalDefinition], afresh: Collection[str]) -> None:
        """Changes the defined signals. Removed signals must not be read any more. Those of `afresh` have no samples,
        not even of annotations before `read`; the others are as before. Only for the cache.
        """
        before, now = self._columns, self._clock()
        self._columns = {}
        for each in definitions:
            known = before.get(each.name)
            column = self._columns[each.name] = _Column(each) if known is None or each.name in afresh else known
            column.grow(self._size)
            if known is not None and known is not column and known.placed is not None:
                column.readers, column.placed = known.readers, np.zeros(len(column.values), np.int64)
        self._horizon = max((each.horizon for each in definitions), default=0.0)
        for name in afresh:
            if name in self._columns:
                self._recount(self._columns[name], now)
        for slot in range(self._size):
            self.changes.append(slot)
        self.version += 1

    def read(self, names: Collection[str], nodes: Iterable[NodeInfo]) -> None:
        """Takes the samples of these signals in the annotations of these nodes."""
        now = self._clock()
        rows = [(info.slot, info.node) for info in nodes if info.node is not None]
        slots = np.array([slot for slot, _ in rows], np.intp)
        for column in [self._columns[name] for name in names if name in self._columns]:
            for slot, node in rows:
                self._read_node(column, slot, None, node, now)
            self._refresh(column, slots, now)

    # Reading

    def definition(self, name: str) -> SignalDefinition:
        """Raises KeyError for an unknown signal."""
        return self._columns[name].definition

    @property
    def definitions(self) -> Mapping[str, SignalDefinition]:
        """All signals, by name."""
        return {name: column.definition for name, column in self._columns.items()}

    def column(self, name: str) -> Floats:
        """float64[nodes], read-only. Raises KeyError for an unknown signal."""
        column = self._columns[name]
        size = self._size
        column.grow(size)
        return column.view[:size]

    def value(self, name: str, node: str) -> float:
        """The value of one node; the default for an unknown one. Raises KeyError for an unknown signal."""
        column = self._columns[name]
        slot = None if self._table is None else self._table.slot_of(node)
        if slot is None or slot >= len(column.values):
            return column.definition.default
        return float(column.values[slot])

    def known(self, name: str) -> NDArray[np.bool_]:
        """bool[nodes]: where the value is that of a sample. Raises KeyError for an unknown signal."""
        column = self._columns[name]
        column.grow(self._size)
        return column.fresh[: self._size]

    def mean_share(self, name: str) -> float:
        """Which part of the signal's resource is in use, as the mean of the nodes with a sample, each from 0 to 1; 0
        without any.
        """
        column, table = self._columns[name], self._table
        if column.mean is None and table is not None:
            allocatable = table.allocatable(column.definition.resource)
            rows = np.flatnonzero(self.known(name) & (allocatable > 0))
            shares = column.definition.share(column.values[rows], allocatable[rows])
            column.mean = float(np.clip(shares, 0.0, 1.0).mean()) if len(rows) else 0.0
        return column.mean or 0.0

    def of_node(self, node: str) -> Mapping[str, float]:
        """The values of all signals of one node."""
        return {name: self.value(name, node) for name in self._columns}

    def placed(self, name: str) -> Int64s:
        """int64[nodes]: what pods request of the signal's resource that its samples do not show yet, with scoring's
        defaults; in milli-CPU or bytes.

        `track` must have been called before.
        """
        column = self._columns[name]
        column.grow(self._size)
        assert column.placed is not None, f"nobody tracks the pods of signal {name}"
        return column.placed[: self._size]

    def coverage(self, name: str) -> Coverage:
        """How many nodes have a value of their own. Raises KeyError for an unknown signal."""
        column = self._columns[name]
        newest = float(column.times[: self._size].max(initial=-inf))
        fresh = int(np.count_nonzero(column.fresh[: self._size]))
        return Coverage(self._clock() - newest, fresh, int(np.count_nonzero(column.malformed[: self._size])))

    @property
    def _size(self) -> int:
        return 0 if self._table is None else self._table.size

    # Samples

    @property
    def now(self) -> float:
        """The time by which samples are dated, in seconds of the steady clock."""
        return self._clock()

    def take(self, name: str, samples: Mapping[str, Sample], asked: float | None = None) -> Taken:
        """Takes the samples of a source that was asked at this time (None: now), by name of the node. Samples older
        than the last one are dropped.

        No sample is newer than the question: the source may have measured before it took long to answer. Raises
        KeyError for an unknown signal.
        """
        column, table = self._columns[name], self._table
        if table is None or not samples:
            return Taken(unknown=len(samples))
        column.grow(table.size)
        definition, now = column.definition, self._clock()
        slots = table.slots_of([*samples])
        values = np.fromiter((each.value for each in samples.values()), np.float64, len(samples))
        ages = np.fromiter((each.age for each in samples.values()), np.float64, len(samples))
        known = slots >= 0
        right = np.isfinite(values) & (values >= definition.least) & (values <= definition.greatest) & ~np.isnan(ages)
        times = (now if asked is None else asked) - np.maximum(np.where(np.isnan(ages), 0.0, ages), 0.0)
        chosen = known & right
        chosen &= times >= column.times[np.where(known, slots, 0)] if table.size else chosen
        rows = slots[chosen]
        column.samples[rows], column.times[rows] = values[chosen], times[chosen]
        self._refresh(column, rows, now)
        self._recount(column, now)
        old = known & right & (times < now - definition.staleness)
        return Taken(
            new=len(rows),
            wrong=int(np.count_nonzero(known & ~right)),
            unknown=int(np.count_nonzero(~known)),
            old=int(np.count_nonzero(old)),
        )

    def tick(self) -> None:
        """Replaces values that are too old by the default, and stops counting pods that were placed long ago."""
        now = self._clock()
        for column in self._columns.values():
            old = column.fresh & (now - column.times > column.definition.staleness)
            self._refresh(column, np.flatnonzero(old), now)
        if self._pods is not None:
            self._untrack()
        if self._pods is not None:
            self._pods.forget(now - self._horizon)
        for column in self._columns.values():
            self._recount(column, now)

    def _refresh(self, column: _Column, rows: Slots, now: float) -> None:
        """Writes the values of these rows, and logs those that have changed."""
        definition, table = column.definition, self._table
        if table is None or not len(rows):
            return
        times = column.times[rows]
        fresh = (times > -inf) & (times >= now - definition.staleness) & table.valid[rows]
        values = column.samples[rows]
        if definition.amounts and definition.full:
            allocatable = table.allocatable(definition.resource)[rows]
            fresh &= allocatable > 0
            values = values * definition.per_amount / np.maximum(allocatable, 1) * definition.full
        fresh &= np.isfinite(values)
        values = np.where(fresh, values, definition.default)
        if definition.mean_if_unknown and (column.fresh[rows] != fresh).any():
            self.version += 1
        column.fresh[rows] = fresh
        column.mean = None
        changed = rows[column.values[rows] != values]
        column.values[rows] = values
        for slot in changed.tolist():
            self.changes.append(slot)
        self.version += len(changed)

    # The nodes, as an observer of the cache

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        now = self._clock()
        for column in self._columns.values():
            column.grow(slot + 1)
            if before is None or after is None:
                column.times[slot] = column.cutoff[slot] = -inf
                column.samples[slot] = 0.0
                if column.placed is not None:
                    column.placed[slot] = 0
            if after is not None:
                self._read_node(column, slot, before, after, now)
            if after is None:
                self._reset(column, slot)
            elif before is None or before.allocatable != after.allocatable or column.definition.annotation:
                self._refresh(column, np.array([slot], np.intp), now)
            if column.placed is not None and before is None:
                column.cutoff[slot] = max(column.times[slot] - column.definition.lag, now - column.definition.horizon)

    def _reset(self, column: _Column, slot: int) -> None:
        column.fresh[slot] = column.malformed[slot] = False
        column.mean = None
        if column.values[slot] != column.definition.default:
            column.values[slot] = column.definition.default
            self.changes.append(slot)
            self.version += 1

    def _read_node(self, column: _Column, slot: int, before: Node | None, after: Node, now: float) -> None:
        """Takes the sample that the node or the definition has."""
        if column.definition.annotation:
            self._read(column, slot, before, after, now)
        elif column.definition.fixed is not None:
            self._read_fixed(column, slot, after, now)

    def _read(self, column: _Column, slot: int, before: Node | None, after: Node, now: float) -> None:
        """Takes the sample in the node's annotations, if there is one and it is new."""
        definition = column.definition
        keys = (definition.annotation, definition.time_annotation)
        texts = [after.annotations.get(key) for key in keys]
        if before is not None and texts == [before.annotations.get(key) for key in keys]:
            return
        sample = _number(texts[0])
        age = _age(texts[1], self._wall()) if definition.time_annotation else 0.0
        right = sample is not None and age is not None and definition.least <= sample <= definition.greatest
        column.malformed[slot] = texts[0] is not None and not right
        column.times[slot] = -inf
        if right and sample is not None and age is not None:
            column.samples[slot], column.times[slot] = sample, now - age

    def _read_fixed(self, column: _Column, slot: int, after: Node, now: float) -> None:
        sample = (column.definition.fixed or {}).get(after.name)
        if sample is not None and isfinite(sample):
            column.samples[slot], column.times[slot] = sample, now

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        pods = self._pods
        if pods is None:
            return
        now = self._clock()
        age = 0.0 if pod.start_time is None else max(self._wall() - pod.start_time, 0.0)
        placed = pods.added(pod, slot, now - age, now - self._horizon)
        self._count(placed.time, slot, placed.amounts, 1)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        pods = self._pods
        if pods is None:
            return
        placed = pods.removed(pod.uid)
        if placed is not None:
            self._count(placed.time, slot, placed.amounts, -1)

    def _count(self, time: float, slot: int, amounts: Mapping[str, int], sign: int) -> None:
        for column in self._columns.values():
            if column.placed is not None:
                column.grow(slot + 1)
                if time > column.cutoff[slot]:
                    column.placed[slot] += sign * amounts[column.definition.resource]

    # What was placed since

    def track(self, name: str, reader: object, nodes: Iterable[NodeInfo]) -> None:
        """`placed` counts pods for this signal, which measures a resource, as long as a reader lives. `nodes`: those of
        the cache, with their pods.
        """
        column = self._columns[name]
        column.readers.add(reader)
        if column.placed is not None:
            return
        if self._pods is None:
            self._pods = PlacedPods()
            self._add_recent(nodes)
        column.placed = np.zeros(len(column.values), np.int64)
        self._recount(column, self._clock())

    @property
    def tracked(self) -> int:
        """The number of pods whose time of placement is known."""
        return 0 if self._pods is None else len(self._pods)

    @property
    def tracked_rows(self) -> int:
        """The memory that this takes, in rows."""
        return 0 if self._pods is None else self._pods.rows

    def _add_recent(self, nodes: Iterable[NodeInfo]) -> None:
        """Adds the pods that may have been placed within the horizon. Of all others nothing is kept."""
        since = self._wall() - self._horizon
        for info in nodes:
            if info.node is not None:
                for pod in info.pods.values():
                    if pod.start_time is None or pod.start_time >= since:
                        self.pod_added(pod, info.slot)

    def _untrack(self) -> None:
        """Stops counting for signals without readers."""
        for column in self._columns.values():
            if column.placed is not None and not column.readers:
                column.placed = None
        if all(column.placed is None for column in self._columns.values()):
            self._pods = None

    def _recount(self, column: _Column, now: float) -> None:
        """Counts again what was placed after the last samples."""
        if column.placed is None or self._pods is None:
            return
        definition = column.definition
        np.maximum(column.times - definition.lag, now - definition.horizon, out=column.cutoff)
        placed = self._pods.sums(definition.resource, column.cutoff)
        if not np.array_equal(placed, column.placed):
            column.placed = placed
            self.version += 1


def _number(text: str | None) -> float | None:
    """The finite number that the text stands for; None if it stands for no such number."""
    if text is None or len(text) > MAX_TEXT or "_" in text:
        return None
    try:
        found = float(text)
    except ValueError:
        return None
    return found if isfinite(found) else None


def _age(text: str | None, now: float) -> float | None:
    """Returns how many seconds ago an RFC 3339 time was; None without a valid time."""
    if text is None or len(text) > MAX_TEXT:
        return None
    try:
        found = parse_time(text, "")
    except InvalidObjectError:
        return None
    return None if found is None else max(now - found, 0.0)


NO_SIGNALS: Final[Mapping[str, SignalDefinition]] = {}
