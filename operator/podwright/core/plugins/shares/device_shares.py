"""DeviceShares: pods whose extended resources are shares of devices fit where one device has room, or so many whole
ones.

Scores, if the policy asks for them: BestFit prefers nodes with least left, LeastFragmentation those where the pod makes
the fewest fragments (`fragments`). Both also know the devices that claims share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal

import numpy as np

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.interface import (
    MAX_SCORE,
    CycleState,
    EnqueueExtensions,
    Feasible,
    FilterPlugin,
    FilterResult,
    Handle,
    Int64s,
    Plugin,
    PreFilterPlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.status import SKIP, Status, unresolvable, unschedulable
from podwright.core.framework.validation import declared, whole_number
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, MEMORY, resource_list
from podwright.core.plugins.resources.shared import Shared, shared
from podwright.core.plugins.shares.columns import Floats, ShareColumns, ShareDemand
from podwright.core.plugins.shares.fragments import Fragments
from podwright.core.plugins.shares.kinds import NOTHING, SharedDevices
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

_MICRO: Final = 1_000_000
_NOWHERE: Final = 1 << 40
"""The score, negative, of a node where the demand does not fit as far as is known here."""
_REJECTIONS: Final = (unschedulable, unresolvable)
Scored = Literal["Nothing", "BestFit", "LeastFragmentation"]


@dataclass(frozen=True, slots=True)
class TypicalPod:
    """A kind of pod that comes, and how often."""

    requests: Mapping[str, int | str] = declared(
        "What a typical pod requests, by resource, for example cpu: 4.", default_factory=dict, maxProperties=16
    )
    weight: int = whole_number("How often such pods come, relative to the others.", 1, 10_000, default=1)


@dataclass(frozen=True, slots=True)
class ScoringShares:
    """`workload`: the typical pods of LeastFragmentation; empty: the pods that run."""

    type: Scored = "Nothing"
    workload: tuple[TypicalPod, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceSharesArgs:
    """The kinds of devices that pods share, and how nodes are scored."""

    devices: tuple[SharedDevices, ...] = ()
    scoring: ScoringShares = field(default=ScoringShares())

    def validate(self, where: str) -> Iterable[tuple[str, str]]:
        for i, typical in enumerate(self.scoring.workload):
            try:
                resource_list(typical.requests, "requests")
            except InvalidObjectError as error:
                yield f"{where}.scoring.workload[{i}].requests", str(error)


class _Kept(Shared):
    """The columns, and the values made of them."""

    def __init__(self, args: DeviceSharesArgs, cache: Cache) -> None:
        super().__init__()
        self.columns = ShareColumns(cache, args.devices)
        given: Counter[ShareDemand] = Counter()
        for typical in args.scoring.workload:
            amounts = resource_list(typical.requests, "requests")
            asks = tuple(kind.ask_of(amounts) for kind in args.devices)
            given[ShareDemand(amounts.get(CPU, 0), amounts.get(MEMORY, 0), asks)] += typical.weight
        counted = args.scoring.type == "LeastFragmentation"
        self.fragments = Fragments(cache, self.columns, given, counted=counted)


class DeviceShares(Plugin, PreFilterPlugin, FilterPlugin, ScorePlugin, EnqueueExtensions):
    """See the module."""

    name = "DeviceShares"
    reason = "InsufficientDeviceShares"
    scoring_args = ("scoring",)
    scope = Scope.NODE_PODS
    args_type = DeviceSharesArgs

    def __init__(self, args: DeviceSharesArgs | None, handle: Handle) -> None:
        args = args or DeviceSharesArgs()
        super().__init__(args, handle)
        self._resources = [kind for kind in args.devices if kind.resource]
        self._statuses = [unschedulable()]
        for kind in args.devices:
            self._statuses += [reject(f"Insufficient {kind.resource} on single devices") for reject in _REJECTIONS]
        workload = tuple((tuple(sorted(each.requests.items())), each.weight) for each in args.scoring.workload)
        key = args.devices, args.scoring.type, workload
        self._kept = shared(handle.cache, self, key, lambda: _Kept(args, handle.cache))

    def hints(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), self._pod_deleted),
            EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)),
        )

    def _pod_deleted(self, pod: PodInfo, before: PodInfo, _after: None) -> Hint:
        mine, its = pod.requests.amounts, before.requests.amounts
        return Hint.QUEUE if any(mine.get(k.resource) and its.get(k.resource) for k in self._resources) else Hint.SKIP

    # For those who move pods

    @property
    def counts_fragments(self) -> bool:
        return bool(self.args.scoring.type == "LeastFragmentation")

    def shares(self, pod: PodInfo) -> bool:
        """True if the pod has shares of devices, or whole ones."""
        return self._kept.columns.demand(pod).of_devices

    def fragments(self) -> Floats:
        """float64[nodes]: the fragments now, in devices."""
        return self._kept.fragments.now()

    def growth(self, pod: PodInfo) -> Floats:
        """float64[nodes]: see `Fragments.growth`."""
        return self._kept.fragments.growth(self._kept.columns.demand(pod))

    # Filter

    def pre_filter(self, _state: CycleState, pod: PodInfo) -> Status | None:
        return None if any(pod.requests.amounts.get(kind.resource) for kind in self._resources) else SKIP

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        for i, kind in enumerate(self.args.devices):
            ask = kind.ask(pod, self.handle.cache) if kind.resource else NOTHING
            devices = kind.devices(node, self.handle.cache) if ask.devices else ()
            if devices and sum(each.free >= ask.share for each in devices) < ask.devices:
                return self._statuses[2 * i + 1 + (len(devices) < ask.devices)]
        return None

    def verdict_key(self, pod: PodInfo) -> Hashable:
        return pod.requests

    def filter_all(self, _state: CycleState, pod: PodInfo, _table: NodeTable) -> FilterResult:
        columns = self._kept.columns
        columns.sync()
        codes = columns.lacking(columns.demand(pod))
        return FilterResult(codes == 0, lambda: (codes, self._statuses))

    # Score

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return int(self._scores(pod)[node.slot])

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int64s:
        return feasible.take(self._scores(pod))

    def _scores(self, pod: PodInfo) -> Int64s:
        """int64[nodes]: in millionths of a device, negative."""
        growth = self.growth(pod)
        return np.where(np.isinf(growth), -_NOWHERE, np.rint(growth * -_MICRO)).astype(np.int64)

    def normalize(self, _state: CycleState, _pod: PodInfo, scores: Int64s, _feasible: Feasible) -> Int64s:
        """100 for the best nodes, and less the more others are behind, on a logarithmic scale: no difference is lost
        among far larger ones.
        """
        behind = np.log1p((scores.max(initial=-_NOWHERE) - scores) / 1000)
        most = behind.max(initial=0.0)
        if not most:
            return np.full(len(scores), MAX_SCORE, np.int64)
        ranked: Int64s = MAX_SCORE - np.ceil(behind / most * MAX_SCORE).astype(np.int64)
        return ranked
