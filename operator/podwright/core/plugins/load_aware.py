"""LoadAware: prefers nodes with a low load, by signals that measure the use of CPU or memory.

    used = what the signal says + what the pods request that were placed too late to show in it + what the pod requests
    score = (1 - used / allocatable) · 100, from 0 to 100, rounded; the weighted mean of several signals

So a burst does not pile onto the node that was idle when the signal was measured last. Requests are those of scoring,
with defaults for pods that request nothing, because these pods also use something. A node without a recent number
counts as the signal's default, or as the mean of the others if the signal has none, because a node whose measurement
has failed is not necessarily idle. A node that has none of the resource scores 0. A pod that has ended counts until the
next sample if it shows in the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import Final

import numpy as np

from podwright.core.framework.interface import (
    MAX_SCORE,
    CycleState,
    Feasible,
    Handle,
    Int64s,
    Plugin,
    Scope,
    ScorePlugin,
)
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.signals import SignalDefinition

MAX_WEIGHT: Final = 100


@dataclass(frozen=True, slots=True)
class WeightedSignal:
    """A signal, and its weight among those that are given."""

    name: str = ""
    weight: int = field(default=1, metadata={"schema": {"minimum": 1, "maximum": MAX_WEIGHT}})


@dataclass(frozen=True, slots=True)
class LoadAwareArgs:
    """The signals that count, each of which measures the use of a resource."""

    signals: tuple[WeightedSignal, ...] = ()

    def validate(self, where: str) -> Iterable[tuple[str, str]]:
        if not self.signals:
            yield f"{where}.signals", "at least one signal is required"
        counts = Counter(signal.name for signal in self.signals)
        for i, signal in enumerate(self.signals):
            if counts[signal.name] > 1:
                yield f"{where}.signals[{i}].name", f"{signal.name!r} is given twice"


class LoadAware(Plugin, ScorePlugin):
    """See the module."""

    name = "LoadAware"
    scoring_args = ("signals",)
    scope = Scope.NODE_PODS
    args_type = LoadAwareArgs

    def __init__(self, args: LoadAwareArgs | None, handle: Handle) -> None:
        """Raises ValueError for a signal that does not exist, or measures no resource."""
        args = args or LoadAwareArgs()
        super().__init__(args, handle)
        self._signals = signals = handle.cache.signals
        self._loads = args.signals
        if not self._loads:
            raise ValueError("args.signals: at least one signal is required")
        self._weights = sum(load.weight for load in self._loads)
        for load in self._loads:
            _check(load.name, handle)
            signals.track(load.name, self, handle.cache.nodes.values())

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        total = 0.0
        for load in self._loads:
            definition, weight = self._signals.definition(load.name), load.weight
            allocatable = float(node.allocatable(definition.resource))
            if allocatable:
                placed = int(self._signals.placed(definition.name)[node.slot])
                used = max(self._share(definition, node, allocatable), 0.0)
                used += (placed + _request(pod, definition)) / allocatable
                total += weight * ((1.0 - min(used, 1.0)) * MAX_SCORE)
        return round(total / self._weights)

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int64s:
        total = np.zeros(len(feasible))
        for load in self._loads:
            definition, weight = self._signals.definition(load.name), load.weight
            amounts = feasible.take(feasible.table.allocatable(definition.resource)).astype(np.float64)
            there = amounts != 0.0
            allocatable = np.where(there, amounts, 1.0)
            values = feasible.take(self._signals.column(definition.name))
            placed = feasible.take(self._signals.placed(definition.name))
            used = np.maximum(definition.share(values, allocatable), 0.0)
            if definition.mean_if_unknown:
                known = feasible.take(self._signals.known(definition.name))
                used = np.where(known, used, self._signals.mean_share(definition.name))
            used += (placed + _request(pod, definition)) / allocatable
            total += np.where(there, weight * ((1.0 - np.minimum(used, 1.0)) * MAX_SCORE), 0.0)
        scores: Int64s = np.rint(total / self._weights).astype(np.int64)
        return scores

    def _share(self, definition: SignalDefinition, node: NodeInfo, allocatable: float) -> float:
        name = definition.name
        if definition.mean_if_unknown and not self._signals.known(name)[node.slot]:
            return self._signals.mean_share(name)
        return float(definition.share(self._signals.value(name, node.name), allocatable))


def _check(name: str, handle: Handle) -> None:
    """Raises ValueError for a signal that does not exist, or measures no resource."""
    found = handle.cache.signals.definitions.get(name)
    if found is None:
        raise ValueError(f"signal {name!r} is not defined; only the operator's option --signals defines signals")
    if not found.resource:
        raise ValueError(f"signal {name!r} measures no resource: its definition needs one")


def _request(pod: PodInfo, definition: SignalDefinition) -> float:
    requests = pod.requests
    return float(requests.scoring_cpu if definition.resource == CPU else requests.scoring_memory)
