"""The verdict of every filter on every node, also where another filter has already rejected the node, and how near each
node is. The scheduler stops at the first filter that rejects a node. An explanation needs all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.cycle import find_feasible
from podwright.core.framework.contract import call, filter_result, said, status_of
from podwright.core.framework.diagnosis import NodeDiagnosis
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, CycleState, Feasible, FilterPlugin
from podwright.core.framework.profile import Point
from podwright.core.framework.status import Code, Status
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo
from podwright.simulator.explain.results import Rejected

_FAR: Final = 3.0
"""How far a node is that PreFilter leaves out."""
_EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One decision about a pod, and each filter's verdict on all nodes.

    `rejects`: by plugin, bool[nodes]. `distance`: float[nodes], 0 for a feasible node, infinite for a row without a
    node. Both are meaningless without nodes, or if PreFilter rejected the pod.
    """

    state: CycleState
    feasible: Feasible
    diagnosis: NodeDiagnosis
    rejects: Mapping[str, Bools]
    distance: NDArray[np.float64]

    def nearest(self, most: int) -> Sequence[int]:
        """The rows of the nearest nodes that are not feasible, the nearest first."""
        rows = np.flatnonzero(np.isfinite(self.distance) & (self.distance > 0))
        return [int(row) for row in rows[np.argsort(self.distance[rows], kind="stable")[:most]]]


def verdicts_of(framework: Framework, cache: Cache, pod: PodInfo) -> Verdicts:
    """Raises PluginError."""
    state = CycleState()
    search = find_feasible(framework, cache, pod, state, take_nominated=False)
    table, diagnosis = cache.table, search.diagnosis
    distance = np.where(table.valid, 0.0, np.inf)
    rejects: dict[str, Bools] = {}
    if diagnosis.pre_filter is None and table.count and not len(search.feasible):
        for plugin in framework.filter_plugins:
            if plugin.name in state.skip_filter:
                continue
            mask = _rejected(plugin, state, pod, cache)
            if mask.any():
                rejects[plugin.name] = mask
                distance += mask * _remoteness(plugin, pod, table)
        if diagnosis.considered is not None:
            outside = table.valid & ~diagnosis.considered_rows(diagnosis.considered)
            name = diagnosis.absent.plugin
            rejects[name] = rejects.get(name, np.zeros(table.size, np.bool_)) | outside
            distance += outside * _FAR
        for row in diagnosis.explicit:
            if not distance[row]:
                distance[row] = 1.0  # rejected because of nominated pods alone
    return Verdicts(state, search.feasible, diagnosis, rejects, distance)


def _rejected(plugin: FilterPlugin, state: CycleState, pod: PodInfo, cache: Cache) -> Bools:
    table = cache.table
    if plugin.filter_all is not None:
        state.left = table.valid
        answer = call(plugin, Point.FILTER, plugin.filter_all, state, pod, table)
        result = filter_result(plugin, answer, table.size)
        return np.zeros(table.size, np.bool_) if result is None else table.valid & ~result.ok
    mask = np.zeros(table.size, np.bool_)
    for row in np.flatnonzero(table.valid):
        mask[row] = verdict(plugin, state, pod, cache.node_at(int(row))) is not None
    return mask


def verdict(plugin: FilterPlugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
    """One filter's verdict on one node."""
    return status_of(plugin, Point.FILTER, call(plugin, Point.FILTER, plugin.filter, state, pod, node))


def _remoteness(plugin: FilterPlugin, pod: PodInfo, table: NodeTable) -> NDArray[np.float64]:
    """float[nodes]: how far the nodes are that the plugin rejects."""
    own: Any = plugin
    far = said(own, "remoteness_of", lambda: np.asarray(own.remoteness_of(pod, table), np.float64), np.asarray(_FAR))
    return np.broadcast_to(far if far.shape in ((), (table.size,)) else np.asarray(_FAR), (table.size,))


def grouped(verdicts: Verdicts, cache: Cache) -> tuple[Rejected, ...]:
    """The rejections by plugin and reason, as the scheduler counts them: the first filter that rejects a node. The
    nearest group first.
    """
    diagnosis, table = verdicts.diagnosis, cache.table
    if diagnosis.pre_filter is not None:
        return _by_pre_filter(diagnosis.pre_filter, diagnosis.total)
    alone = np.zeros(table.size, np.int64)
    for mask in verdicts.rejects.values():
        alone += mask
    rows: dict[tuple[str, str], list[int]] = {}
    resolvable: dict[tuple[str, str], bool] = {}
    for row, status in diagnosis.statuses().items():
        for reason in status.reasons:
            rows.setdefault((status.plugin, reason), []).append(row)
            resolvable[status.plugin, reason] = status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    found = []
    for (plugin, reason), members in rows.items():
        members.sort(key=lambda row: (verdicts.distance[row], table.names[row]))
        group = Rejected(
            plugin=plugin,
            reason=reason,
            nodes=len(members),
            only=sum(int(alone[row]) <= 1 for row in members),
            examples=tuple(table.names[row] for row in members[:_EXAMPLES]),
            resolvable=resolvable[plugin, reason],
        )
        found.append((float(verdicts.distance[members[0]]), -len(members), plugin, reason, group))
    return tuple(each[-1] for each in sorted(found, key=lambda each: each[:-1]))


def _by_pre_filter(status: Status, nodes: int) -> tuple[Rejected, ...]:
    resolvable = status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return tuple(
        Rejected(plugin=status.plugin, reason=reason, nodes=nodes, only=nodes, examples=(), resolvable=resolvable)
        for reason in status.reasons
    )
