"""The nodes as rows of plain values, all of them or those that have changed since the last time.

A row is a node's slot in the node table with what rarely changes: name, zone, rack, flags and what it can allocate. Its
pods' requests are separate, because they change all the time. Rows refer to no node and no column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import islice
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.node import Node
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.objects.resources import CPU, MEMORY, PODS
from podwright.core.state.cache import Cache
from podwright.engine.process.steps import Steps

MOST_RESOURCES: Final = 12
"""How many resources are shown: CPU, memory and pods, then those that most nodes have."""
NAMES_OF_A_NODE: Final = 64
"""How many resources of one node are read."""
MOST_NAMES: Final = 1024
"""How many names of resources are counted."""
NODES_A_STEP: Final = 200
ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
RACK_LABELS: Final = ("topology.kubernetes.io/rack", "kubernetes.io/rack", "rack")
"""Kubernetes has no label for racks. The first that a node has counts."""
NOT_READY_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
CORDONED: Final = 1
NOT_READY: Final = 2
TAINTED: Final = 4
TERMINATING: Final = 8


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """How far a reader has read: entries of the table's change logs. `resources`: in the order of amounts."""

    static: int
    usage: int
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node without its pods. A slot without a node has no name. `allocatable`: milli-CPU, bytes and units, in the
    order of the resources.
    """

    slot: int
    name: str = ""
    zone: str = ""
    rack: str = ""
    flags: int = 0
    allocatable: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """`complete`: these are all nodes, else those that have changed. `usage`: (slot, what its pods request, at most
    MAX_INT64 of each resource, as orjson takes it).

    `further_resources`: a changed node has one that is not among the resources, although there is room for it.
    """

    position: ReadPosition
    complete: bool
    rows: Sequence[NodeRow] = ()
    usage: Sequence[tuple[int, tuple[int, ...]]] = ()
    further_resources: bool = False


@dataclass(slots=True)
class _Reading:
    resources: tuple[str, ...]
    rows: list[NodeRow] = field(default_factory=list)
    usage: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    further_resources: bool = False


def node_changes(cache: Cache, since: ReadPosition | None) -> Steps[NodeChanges]:
    """Reads what has changed. `since`: None for all nodes.

    The cache may change between two steps. Such a change is given out now or the next time, or both.
    """
    table = cache.table
    static_seq, usage_seq = table.static_changes.seq, table.usage_changes.seq
    static = None if since is None else table.static_changes.since(since.static)
    usage = None if since is None else table.usage_changes.since(since.usage)
    if since is None or static is None or usage is None:
        resources = yield from _resources(cache)
        reading = _Reading(resources)
        yield from _read(cache, reading, range(table.size), ())
        return NodeChanges(
            ReadPosition(static_seq, usage_seq, resources), complete=True, rows=reading.rows, usage=reading.usage
        )
    reading = _Reading(since.resources)
    nodes = dict.fromkeys(static)
    yield from _read(cache, reading, [*nodes], [slot for slot in dict.fromkeys(usage) if slot not in nodes])
    return NodeChanges(
        ReadPosition(static_seq, usage_seq, since.resources),
        complete=False,
        rows=reading.rows,
        usage=reading.usage,
        further_resources=reading.further_resources,
    )


def _resources(cache: Cache) -> Steps[tuple[str, ...]]:
    """The resources that are shown. The first three always are."""
    first = (CPU, MEMORY, PODS)
    counts = Counter[str]()
    nodes = cache.table.nodes
    for start in range(0, len(nodes), NODES_A_STEP):
        for node in nodes[start : start + NODES_A_STEP]:
            if node is not None:
                offered = [name for name, amount in islice(node.allocatable.items(), NAMES_OF_A_NODE) if amount > 0]
                counts.update(name for name in offered if name in counts or len(counts) < MOST_NAMES)
        yield
    others = sorted((name for name in counts if name not in first), key=lambda name: (-counts[name], name))
    return (*first, *others[: MOST_RESOURCES - len(first)])


def _read(cache: Cache, reading: _Reading, nodes: Sequence[int], usage: Sequence[int]) -> Steps[None]:
    """Reads the slots of `nodes` with their pods' requests, then only the requests of the slots in `usage`."""
    for start in range(0, len(nodes), NODES_A_STEP):
        for slot in nodes[start : start + NODES_A_STEP]:
            _read_node(cache, reading, slot)
        yield
    for start in range(0, len(usage), NODES_A_STEP):
        for slot in usage[start : start + NODES_A_STEP]:
            _read_usage(cache, reading, slot)
        yield


def _read_node(cache: Cache, reading: _Reading, slot: int) -> None:
    table = cache.table
    node = table.nodes[slot] if slot < table.size else None
    if node is None:
        reading.rows.append(NodeRow(slot))
        return
    offered, names = node.allocatable, reading.resources
    reading.rows.append(
        NodeRow(
            slot,
            node.name,
            first_label(node, ZONE_LABELS),
            first_label(node, RACK_LABELS),
            flags_of(node),
            tuple([offered.get(name, 0) for name in names]),
        )
    )
    if len(names) < MOST_RESOURCES and not reading.further_resources:
        known = frozenset(names)
        reading.further_resources = any(
            amount > 0 and name not in known for name, amount in islice(offered.items(), NAMES_OF_A_NODE)
        )
    _read_usage(cache, reading, slot)


def _read_usage(cache: Cache, reading: _Reading, slot: int) -> None:
    table = cache.table
    info = cache.nodes.get(table.names[slot]) if slot < table.size else None
    if info is not None and info.slot == slot:
        requested, pods = info.requested, len(info.pods)
        amounts = [pods if name == PODS else min(requested.get(name, 0), MAX_INT64) for name in reading.resources]
        reading.usage.append((slot, tuple(amounts)))


def first_label(node: Node, keys: Iterable[str]) -> str:
    """The value of the first of these labels that the node has; "" without one."""
    return next((node.labels[key] for key in keys if key in node.labels), "")


def flags_of(node: Node) -> int:
    """CORDONED and so on, added up."""
    found = CORDONED if node.unschedulable else 0
    if node.conditions.get("Ready", "True") != "True":
        found |= NOT_READY
    for taint in node.taints:
        if taint.key in NOT_READY_TAINTS:
            found |= NOT_READY
        elif taint.key != "node.kubernetes.io/unschedulable" and taint.effect != "PreferNoSchedule":
            found |= TAINTED
    return found | (TERMINATING if node.terminating else 0)
