"""The scheduling cycle of a pod whose profile has extenders: in two calls, between which the engine asks them.

    begin ─► PreFilter, Filter ─┬─► feasible nodes ─► Question ─► (the engine asks) ─► finish ─► Decision or Changed
                                └─► none: PostFilter ─► Rejection

`finish` runs the whole cycle again, on the current state, and considers only nodes that the extenders have kept. So no
pod is placed on a node that no longer fits. Source of the rules: `findNodesThatFitPod` and `prioritizeNodes` in
kube-scheduler's schedule_one.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from podwright.core.cycle import Decision, Fault, RandomBelow, Rejection, Search, find_feasible, place, reject
from podwright.core.framework.diagnosis import NodeDiagnosis
from podwright.core.framework.errors import PluginError
from podwright.core.framework.extenders import EXTENDER, ExtenderAnswers
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, CycleState, Feasible, Int64s, PostFilterResult
from podwright.core.framework.measured import measured
from podwright.core.framework.observer import Observer
from podwright.core.framework.status import Code, Status, unschedulable
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.evaluator import Candidate, acceptable
from podwright.core.state.cache import Cache


@dataclass(frozen=True, slots=True)
class Question:
    """The nodes that passed the filters. `nominated`: only the nominated node was filtered."""

    nodes: tuple[str, ...]
    nominated: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """The answers are outdated: none of the nodes that the extenders have kept is feasible any more."""


def begin(
    framework: Framework,
    cache: Cache,
    pod: PodInfo,
    *,
    take_nominated: bool = True,
    preempt: bool = True,
    observer: Observer | None = None,
) -> Question | Rejection | Fault:
    """Finds the nodes to ask extenders about, or decides without. For `take_nominated` and `preempt`, see `cycle`."""
    framework, state = measured(framework, observer), CycleState(observer)
    try:
        search = find_feasible(framework, cache, pod, state, take_nominated=take_nominated)
        if len(search.feasible):
            names = cache.table.names
            nodes = tuple([names[slot] for slot in search.feasible.slots.tolist()])
            return Question(nodes, take_nominated and nodes == (pod.nominated_node_name,))
        return reject(framework, cache, pod, state, search.diagnosis, preempt=preempt)
    except PluginError as error:
        return Fault(pod, error.plugin, str(error))


def finish(
    framework: Framework,
    cache: Cache,
    pod: PodInfo,
    below: RandomBelow,
    answers: ExtenderAnswers,
    *,
    preempt: bool = True,
    observer: Observer | None = None,
) -> Decision | Changed:
    """The decision with the extenders' answers, on the current state. Without `preempt`, PostFilter does not run."""
    framework, state = measured(framework, observer), CycleState(observer)
    try:
        search = find_feasible(framework, cache, pod, state, take_nominated=False)
        slots = search.feasible.slots
        kept = Feasible(cache.table, slots[_rows(cache, answers.kept)[slots]])
        if len(kept):
            extra = None
            if answers.scores and len(kept) > 1:
                names = cache.table.names
                extra = _int64s([answers.scores.get(names[slot], 0) for slot in kept.slots.tolist()])
            diagnosis = search.diagnosis
            _explain(cache, diagnosis, answers, search.feasible)
            return place(framework, cache, pod, state, Search(kept, diagnosis, search.evaluated), below, extra=extra)
        if answers.kept:
            return Changed()
        _explain(cache, search.diagnosis, answers, search.feasible)
        return reject(framework, cache, pod, state, search.diagnosis, preempt=preempt)
    except PluginError as error:
        return Fault(pod, error.plugin, str(error))


def _int64s(numbers: Sequence[int]) -> Int64s:
    """The numbers as Go's int64, which wrap around."""
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        return np.array([(number + 2**63) % 2**64 - 2**63 for number in numbers], np.int64)


def _rows(cache: Cache, names: Iterable[str]) -> Bools:
    """The nodes as bool[nodes]."""
    rows, present = np.zeros(cache.table.size, np.bool_), cache.present
    rows[[info.slot for name in names if (info := present(name)) is not None]] = True
    return rows


def _explain(cache: Cache, diagnosis: NodeDiagnosis, answers: ExtenderAnswers, feasible: Feasible) -> None:
    """Adds what the extenders rejected to the diagnosis. What they say of a node replaces what a filter says."""
    passed = _rows(cache, ())
    passed[feasible.slots] = True
    for name in answers.asked - answers.kept:
        info = cache.present(name)
        if info is not None and passed[info.slot]:
            diagnosis.explicit[info.slot] = answers.status_of(name)
    for name, status in answers.failed.items():
        if name in answers.asked:
            continue
        info = cache.present(name)
        if info is None:
            diagnosis.elsewhere.append(status)
        elif (rejected := diagnosis.status_of(info.slot)) is not None:
            diagnosis.filtered_again(np.array([info.slot]))
            diagnosis.explicit[info.slot] = Status(status.code, status.reasons, rejected.plugin or EXTENDER)


def preempting(rejection: Rejection, candidates: Sequence[Candidate], failure: Status | None, now: float) -> Rejection:
    """The rejection with the best of these candidates to preempt, or with the `failure` to find one. `now`: seconds
    since the epoch.
    """
    if failure is None and candidates:
        best = acceptable(candidates, now)[0]
        result = PostFilterResult(best.node_name, best.victims, None, best.violations)
        text = f"found a potential placement for pod on node {best.node_name}, preempting {len(best.victims)} victims"
        status = Status(Code.SUCCESS, (f"preemption: {text}",))
    else:
        result = None
        failure = failure or unschedulable("no candidate node for preemption")
        status = Status(failure.code, (f"preemption: {failure.message}",))
    message = rejection.diagnosis.message(status.message)
    return replace(rejection, post_filter=result, post_filter_status=status, message=message)
