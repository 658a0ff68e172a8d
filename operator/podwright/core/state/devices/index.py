"""DeviceIndex: the pools that each node reaches, kept while the slices stay the same.

Changes of slices, rules, nodes and use are only noted when they happen, and applied at the next `refresh`: so pods
without claims pay nothing for a driver that republishes its slices all the time. `versions` rises in the row of a node
when anything about its devices changes. Results that were computed for a node are valid while its version is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.devices.classes import DeviceTaintRule, parse_taint_rule
from podwright.core.objects.devices.slices import PoolId, ResourceSlice, parse_slice
from podwright.core.objects.items_by_key import drop
from podwright.core.state.columns import DerivedColumns, NodeTable
from podwright.core.state.devices.pools import Pool, pool_as_seen
from podwright.core.state.devices.reach import SharedReach
from podwright.core.state.devices.shapes import ShapeNumbers
from podwright.core.state.devices.unreadable import Unreadable
from podwright.core.state.devices.usage import DeviceUsage
from podwright.core.state.object_store import Object, ObjectStore

SLICE_KIND: Final = "ResourceSlice"
RULE_KIND: Final = "DeviceTaintRule"

Int64s = NDArray[np.int64]
Pools = tuple[Pool, ...]


class DeviceIndex:
    """See the module."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        table: NodeTable,
        derived: DerivedColumns,
        usage: DeviceUsage,
        unreadable: Unreadable,
        pause: Callable[[], None],
    ) -> None:
        self._store = store
        self._unreadable = unreadable
        self._table = table
        self._derived = derived
        self._usage = usage
        self._pause = pause
        self.numbers = ShapeNumbers()
        self._slices: dict[str, ResourceSlice] = {}
        self._by_pool: dict[PoolId, dict[str, ResourceSlice]] = {}
        self._local: dict[str, dict[str, ResourceSlice]] = {}
        """Slices by the name of the only node that reaches them, and by their name."""
        self._shared: dict[str, ResourceSlice] = {}
        self._reach: SharedReach | None = None
        self._shared_touched = False
        self._local_touched: dict[str, None] = {}
        """Names of nodes whose local slices have changed since the last refresh."""
        self._with_counters: set[str] = set()
        """Names of slices with counter sets."""
        self._dirty: dict[PoolId, None] = {}
        """Pools of which a slice or a rule has changed since the last refresh."""
        self._rules: tuple[DeviceTaintRule, ...] = ()
        self._pools: dict[int, Pools] = {}
        """By row of the node."""
        self._views: dict[PoolId, dict[tuple[str, ...], Pool | None]] = {}
        """How nodes see a pool, by the names of the slices that they reach."""
        self._versions = np.zeros(64, np.int64)
        self._nodes_seen = table.static_changes.seq
        self._changed: dict[str, None] = {}
        self._rules_version = -1
        self._listeners: list[Callable[[Collection[PoolId]], None]] = []
        self.gathered = 0
        """How many devices `pools_of` has gathered."""
        store.listen(SLICE_KIND, self._slice_changed)
        compact_regularly(self)

    # Reading, after `refresh`

    @property
    def empty(self) -> bool:
        """True if there are no slices."""
        return not self._slices and not self._changed

    @property
    def any_counters(self) -> bool:
        """True if a slice has counter sets."""
        return bool(self._with_counters)

    def slices_of(self, pool_id: PoolId) -> Collection[ResourceSlice]:
        """All slices of a pool, of all generations."""
        return self._by_pool.get(pool_id, _NO_SLICES).values()

    def pools(self) -> Collection[PoolId]:
        """All pools."""
        return self._by_pool.keys()

    def whole_pool(self, pool_id: PoolId) -> Pool | None:
        """The pool as a node would see it that reaches all of its devices. None if it does not exist."""
        slices = [*self._by_pool.get(pool_id, _NO_SLICES).values()]
        return pool_as_seen(slices, slices, self._rules_for(pool_id), self.numbers) if slices else None

    def listen(self, callback: Callable[[Collection[PoolId]], None]) -> None:
        """Calls `callback` in `refresh` with the pools of which a slice, a rule or the use of a device has changed."""
        self._listeners.append(callback)

    @property
    def versions(self) -> Int64s:
        """int64[nodes]: see the module. Read-only."""
        return self._versions[: self._table.size]

    def pools_of(self, slot: int) -> Pools:
        """The pools that the node in this row reaches, in the order in which they are tried."""
        found = self._pools.get(slot)
        if found is None:
            found = self._pools[slot] = self._gather(slot)
        return found

    def read(self, most: float = inf) -> bool:
        """Reads slices that have changed, until it has read so many devices. Returns whether all are read. May pause
        between slices, and then keeps what it has read.
        """
        while self._changed and most > 0:
            name = next(iter(self._changed))
            del self._changed[name]
            most -= 1 + self._read(name)
            self._pause()
        return not self._changed

    def refresh(self) -> None:
        """Applies all changes since the last call. May pause: see `read`."""
        table = self._table
        self.read()
        if self._store.version(RULE_KIND) != self._rules_version:
            self._read_rules()
        if table.size > len(self._versions):
            self._versions = np.pad(self._versions, (0, 2 * table.size - len(self._versions)))
        touched = dict.fromkeys(self._moved_nodes())
        touched.update(dict.fromkeys(slot for name in self._local_touched if (slot := table.slot_of(name)) is not None))
        self._local_touched.clear()
        before = self._reach
        if self._shared_touched or (touched and self._shared):
            self._reach = (
                SharedReach(tuple(self._shared.values()), table=table, derived=self._derived) if self._shared else None
            )
            self._shared_touched = False
        for pool_id in self._dirty:
            self._views.pop(pool_id, None)
            touched.update(dict.fromkeys(self._rows_of(pool_id, self._reach)))
            if before is not None and before is not self._reach:
                touched.update(dict.fromkeys(before.of_pool(pool_id).tolist()))
        self._tell(self._dirty)
        self._dirty.clear()
        for slot in touched:
            self._pools.pop(slot, None)
        if touched:
            self._versions[list(touched)] += 1
        self._note_use()

    # Internals

    def _slice_changed(self, before: Object | None, after: Object | None) -> None:
        raw = after if after is not None else before
        if raw is not None:
            self._changed[raw["metadata"]["name"]] = None

    def _tell(self, pools: Collection[PoolId]) -> None:
        for listener in self._listeners if pools else ():
            listener(pools)

    def _read(self, name: str) -> int:
        """Replaces one slice by its stored version. Returns how many devices that has."""
        raw = self._store.get(SLICE_KIND, name)
        before = self._slices.get(name)
        if raw is not None and before is not None and before.raw is raw:
            return 0
        after = None if raw is None else parse_slice(raw, before)
        for device in () if after is None else after.devices:
            self.numbers.add(device.shape)
        if before is not None:
            self._take(before)
            for device in before.devices:
                self.numbers.remove(device.shape)
        self._unreadable.note((SLICE_KIND, name), () if after is None else after.problems)
        if after is None:
            self._slices.pop(name, None)
            return 0
        self._slices[name] = after
        self._put(after)
        return len(after.devices)

    def _put(self, source: ResourceSlice) -> None:
        self._dirty[source.pool_id] = None
        self._by_pool.setdefault(source.pool_id, {})[source.name] = source
        if source.counter_sets:
            self._with_counters.add(source.name)
        if source.uses_compatibility_groups or not source.driver or not source.pool:
            return
        if source.reach.node_name:
            self._local.setdefault(source.reach.node_name, {})[source.name] = source
            self._local_touched[source.reach.node_name] = None
        elif source.reach.given or source.per_device:
            self._shared[source.name] = source
            self._shared_touched = True

    def _take(self, source: ResourceSlice) -> None:
        self._dirty[source.pool_id] = None
        drop(self._by_pool, source.pool_id, source.name)
        self._with_counters.discard(source.name)
        if source.reach.node_name:
            drop(self._local, source.reach.node_name, source.name)
            self._local_touched[source.reach.node_name] = None
        elif self._shared.pop(source.name, None) is not None:
            self._shared_touched = True

    def _read_rules(self) -> None:
        self._rules_version = self._store.version(RULE_KIND)
        rules = tuple(parse_taint_rule(raw) for raw in self._store.list(RULE_KIND))
        for name in {rule.name for rule in self._rules} - {rule.name for rule in rules}:
            self._unreadable.note((RULE_KIND, name), ())
        for rule in rules:
            self._unreadable.note((RULE_KIND, rule.name), rule.problems)
        for pool_id in self._by_pool:
            if any(rule.applies_to(*pool_id) for rule in (*self._rules, *rules)):
                self._dirty[pool_id] = None
        self._rules = rules

    def _moved_nodes(self) -> Sequence[int]:
        """The rows whose node was added, changed or removed since the last call."""
        changes = self._table.static_changes
        moved = changes.since(self._nodes_seen)
        self._nodes_seen = changes.seq
        return range(self._table.size) if moved is None else moved

    def _rows_of(self, pool_id: PoolId, reach: SharedReach | None) -> Sequence[int]:
        """The rows of the nodes that reach a slice of the pool."""
        names = {s.reach.node_name for s in self._by_pool.get(pool_id, _NO_SLICES).values() if s.reach.node_name}
        rows = [slot for name in names if (slot := self._table.slot_of(name)) is not None]
        return rows if reach is None else [*rows, *reach.of_pool(pool_id).tolist()]

    def _note_use(self) -> None:
        """The devices whose use has changed: results for the nodes that reach them are no longer valid."""
        changed = self._usage.changed
        if not changed:
            return
        pools = dict.fromkeys(device[:2] for device in changed)
        for pool_id in pools:
            self._versions[self._rows_of(pool_id, self._reach)] += 1
        changed.clear()
        self._tell(pools)

    def _gather(self, slot: int) -> Pools:
        node = self._table.nodes[slot]
        reached: dict[PoolId, list[ResourceSlice]] = {}
        local = () if node is None else self._local.get(node.name, _NO_SLICES).values()
        shared = () if self._reach is None or node is None else self._reach.of(slot)
        for source in (*local, *shared):
            reached.setdefault(source.pool_id, []).append(source)
        self.gathered += sum(len(source.devices) for slices in reached.values() for source in slices)
        pools = [pool for pool_id, slices in reached.items() if (pool := self._view(pool_id, slices)) is not None]
        pools.sort(key=lambda pool: pool.order)
        return tuple(pools)

    def _view(self, pool_id: PoolId, reached: list[ResourceSlice]) -> Pool | None:
        views = self._views.setdefault(pool_id, {})
        key = tuple(source.name for source in reached)
        if key not in views:
            everything = tuple(self._by_pool[pool_id].values())
            views[key] = pool_as_seen(reached, everything, self._rules_for(pool_id), self.numbers)
        return views[key]

    def _rules_for(self, pool_id: PoolId) -> Sequence[DeviceTaintRule]:
        return [rule for rule in self._rules if rule.applies_to(*pool_id)]


_NO_SLICES: Final[dict[str, ResourceSlice]] = {}
