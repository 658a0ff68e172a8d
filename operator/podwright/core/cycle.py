"""The scheduling cycle: one pending pod in, one Decision out. Start reading here.

    schedule ─► find_feasible: PreFilter, Filter ─┬─► feasible nodes: Score, select_host ─► Placement
                                                  └─► none: PostFilter ─────────────────► Rejection
                    a plugin raises ────────────────────────────────────────────────────► Fault

`schedule` changes nothing. Its caller carries the decision out: it assumes, reserves, permits and binds the pod, or
nominates it and evicts victims. The simulator runs the same filters and scores and reports every step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np

from podwright.core.framework.crowded_nodes import CrowdedNodes
from podwright.core.framework.diagnosis import NodeDiagnosis
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import (
    Bools,
    CycleState,
    Feasible,
    FollowUp,
    Int64s,
    PostFilterResult,
    WholeNumbers,
)
from podwright.core.framework.kept_totals import KEPT_SIZE
from podwright.core.framework.measured import measured
from podwright.core.framework.observer import Observer
from podwright.core.framework.status import Code, Status, unresolvable
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

RandomBelow = Callable[[int], int]
"""`below(n)`: a random whole number from 0 to n - 1."""

FEW_NODES: Final = 32
"""If PreFilter names at most this many nodes, they are filtered one by one, as for pods of DaemonSets: no column is
built for them.
"""
NO_NODES: Final = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class Placement:
    """The pod should run on `node_name`. `rejected`: how many nodes each plugin rejected.

    `score` is None if only one node is feasible: Score does not run then, as in kube-scheduler.
    """

    pod: PodInfo
    node_name: str
    state: CycleState
    score: int | None
    runner_up: tuple[str, int] | None
    evaluated: int
    feasible: int
    rejected: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Rejection:
    """No node is feasible. `post_filter`: what PostFilter wants done about it, or None."""

    pod: PodInfo
    message: str
    filter_message: str
    status_plugins: frozenset[str]
    """The plugins that rejected the pod: their queueing hints say which events may help."""
    pending_plugins: frozenset[str]
    """The plugins that returned Pending: such a pod skips backoff."""
    post_filter: PostFilterResult | None
    diagnosis: NodeDiagnosis
    post_filter_status: Status | None
    follow_ups: Sequence[FollowUp] = ()
    """See CycleState."""
    if_group_waits: Sequence[FollowUp] = ()
    """The follow-ups if the pod's group is not placed."""

    @property
    def nominated_node(self) -> str | None:
        """The node to nominate the pod to; "" clears the nomination, None keeps it."""
        return None if self.post_filter is None else self.post_filter.nominated_node

    @property
    def victims(self) -> tuple[PodInfo, ...]:
        return () if self.post_filter is None else self.post_filter.victims


@dataclass(frozen=True, slots=True)
class Fault:
    """A plugin failed. Whether the pod fits is not known."""

    pod: PodInfo
    plugin: str
    message: str


Decision = Placement | Rejection | Fault


@dataclass(frozen=True, slots=True)
class Search:
    """The result of filtering: the feasible nodes, and why the others are not feasible."""

    feasible: Feasible
    diagnosis: NodeDiagnosis
    evaluated: int


def schedule(
    framework: Framework,
    cache: Cache,
    pod: PodInfo,
    below: RandomBelow,
    *,
    within: Bools | None = None,
    preempt: bool = True,
    observer: Observer | None = None,
) -> Decision:
    """Decides on which node the pod should run. `below` chooses among equal scores; `observer`: see CycleState.

    `within`: bool[nodes], the only nodes that may be taken; None: all. Without `preempt`, PostFilter does not run: a
    pod group preempts as a whole.
    """
    state = CycleState(observer)
    if observer is not None:
        framework = measured(framework, observer)
    try:
        search = find_feasible(framework, cache, pod, state, within=within)
        if len(search.feasible):
            return place(framework, cache, pod, state, search, below)
        return reject(framework, cache, pod, state, search.diagnosis, preempt=preempt)
    except PluginError as error:
        return Fault(pod, error.plugin, str(error))


def find_feasible(
    framework: Framework,
    cache: Cache,
    pod: PodInfo,
    state: CycleState,
    *,
    take_nominated: bool = True,
    within: Bools | None = None,
) -> Search:
    """PreFilter and Filter. Raises PluginError.

    If the nominated node is feasible, it is the only result, unless `take_nominated` is False. `within`: see
    `schedule`.
    """
    search = _search(framework, cache, pod, state, take_nominated=take_nominated, within=within)
    if within is not None:
        slots = search.feasible.slots
        return Search(Feasible(cache.table, slots[within[slots]]), search.diagnosis, search.evaluated)
    return search


def _search(
    framework: Framework,
    cache: Cache,
    pod: PodInfo,
    state: CycleState,
    *,
    take_nominated: bool,
    within: Bools | None,
) -> Search:
    table = cache.table
    diagnosis = NodeDiagnosis(table)
    if not table.count:
        return Search(_none(cache), diagnosis, 0)
    outcome = framework.pre_filter(state, pod)
    if outcome.status is not None:
        diagnosis.reject_all(outcome.status)
        return Search(_none(cache), diagnosis, 0)
    nominated = cache.present(pod.nominated_node_name)
    if nominated is not None and within is not None and not within[nominated.slot]:
        nominated = None
    for taken in _first_nodes(cache, pod, nominated, within) if take_nominated else ():
        if _filter_one(framework, state, pod, taken) is None:
            return Search(_only(cache, taken.slot), diagnosis, 1)
    if outcome.node_names is not None:
        absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(outcome.narrowed_by)}]")
        # The nominated node is filtered even if PreFilter does not name it.
        names = outcome.node_names if nominated is None else outcome.node_names | {nominated.name}
        infos = [info for name in names if (info := cache.present(name)) is not None]
        diagnosis.consider_only([info.slot for info in infos], absent.by(outcome.narrowed_by[0]))
        if len(infos) <= FEW_NODES:
            return _search_some(framework, cache, pod, state, infos, diagnosis)
    return _search_all(framework, cache, pod, state, diagnosis)


def _first_nodes(cache: Cache, pod: PodInfo, nominated: NodeInfo | None, within: Bools | None) -> Sequence[NodeInfo]:
    """The node that the pod is nominated to, else those where room is reserved for it."""
    if nominated is not None:
        return (nominated,)
    if not cache.reservations:
        return ()
    infos = map(cache.present, cache.reservations.nodes_for(pod))
    return [info for info in infos if info is not None and (within is None or within[info.slot])]


def _search_all(
    framework: Framework, cache: Cache, pod: PodInfo, state: CycleState, diagnosis: NodeDiagnosis
) -> Search:
    table = cache.table
    alive = framework.filter_all(state, pod, table, diagnosis)
    if cache.nominator:
        alive = _with_nominated(framework, cache, pod, state, diagnosis, alive)
    return Search(Feasible.passing(table, alive), diagnosis, diagnosis.candidate_count)


def _with_nominated(
    framework: Framework,
    cache: Cache,
    pod: PodInfo,
    state: CycleState,
    diagnosis: NodeDiagnosis,
    alive: Bools,
) -> Bools:
    """Filters nodes to which other pods are nominated with these, and replaces the verdicts of those that do not pass
    in the diagnosis.

    All other nodes keep the verdict that `filter_all` gave without nominated pods.
    """
    crowd = cache.crowds.of(pod)
    crowded = CrowdedNodes(framework, state, pod)
    settled, rejected = crowded.settle(crowd, diagnosis, alive)
    if (own := cache.present(cache.nominator.node_of(pod.uid))) is not None:  # the pod itself is no other pod
        settled[crowd.slots == own.slot] = False
        rejected.pop(own.slot, None)
    considered = diagnosis.considered
    for slot in crowd.slots[~settled].tolist():
        cache.deadline.point()
        if considered is not None and slot not in considered:
            continue
        info = cache.node_at(slot)
        nominated = framework.nominated_before(pod, info.name)
        if not nominated:
            continue
        status = crowded.verdict(info, nominated)
        if status is not None:
            rejected[info.slot] = status
    if not rejected:
        return alive
    slots = np.fromiter(rejected, np.intp, len(rejected))
    diagnosis.filtered_again(slots[~alive[slots]])
    diagnosis.explicit.update(rejected)
    alive = alive.copy()
    alive[slots] = False
    return alive


def _search_some(
    framework: Framework,
    cache: Cache,
    pod: PodInfo,
    state: CycleState,
    infos: Collection[NodeInfo],
    diagnosis: NodeDiagnosis,
) -> Search:
    """Filters the nodes that PreFilter named, `infos`, one by one."""
    slots = []
    for info in sorted(infos, key=_slot):
        status = _filter_one(framework, state, pod, info)
        if status is None:
            slots.append(info.slot)
        else:
            diagnosis.explicit[info.slot] = status
    return Search(Feasible(cache.table, np.array(slots, np.intp)), diagnosis, len(infos))


def still_fits(
    framework: Framework, cache: Cache, placement: Placement, *, unchanged: bool = False
) -> CycleState | None:
    """The state of a new cycle for a placement that was decided on an earlier state of the cluster; None if its node
    does not take the pod any more.

    `unchanged`: pod and node are the same as then, though not the pods of the node. Filters that only look at these are
    not run again: a rule may take long even for one node. Raises PluginError.
    """
    pod, info = placement.pod, cache.present(placement.node_name)
    if info is None:
        return None
    state = CycleState()
    outcome = framework.pre_filter(state, pod)
    if outcome.status is not None or (outcome.node_names is not None and info.name not in outcome.node_names):
        return None
    if unchanged:
        state.skip_filter |= framework.only_node_filters
    return None if _filter_one(framework, state, pod, info) is not None else state


def _filter_one(framework: Framework, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
    """The first rejection of a node that is filtered by itself, or None."""
    status = framework.filter_node_with_nominated(state, pod, node)
    rules = framework.handle.cache.place_rules
    return rules.refuse(pod, node.slot) if status is None and rules is not None else status


def _slot(info: NodeInfo) -> int:
    return info.slot


def place(
    framework: Framework,
    cache: Cache,
    pod: PodInfo,
    state: CycleState,
    search: Search,
    below: RandomBelow,
    *,
    extra: Int64s | None = None,
) -> Placement:
    """Score, and the choice of a node, if there is at least one: among those that the cache's place rules prefer.
    `extra`: int64[feasible], to be added to the scores.
    """
    feasible = search.feasible
    found = count = len(feasible)
    if cache.place_rules is not None and (kept := cache.place_rules.preferred(pod, feasible.slots)) is not None:
        feasible = Feasible(cache.table, feasible.slots[kept])
        extra = None if extra is None else extra[kept]
        count = len(feasible)
    names = cache.table.names
    rejected = search.diagnosis.plugins() if search.diagnosis.stages or search.diagnosis.explicit else {}
    if count == 1:
        _report(framework, state, search.evaluated, rejected)
        return Placement(
            pod=pod,
            node_name=names[feasible.slot(0)],
            state=state,
            score=None,
            runner_up=None,
            evaluated=search.evaluated,
            feasible=found,
            rejected=rejected,
        )
    total, best = framework.score(state, pod, feasible, None, extra is None), state.best
    state.best = None  # it is of all nodes, and the state stays until the pod is bound
    if extra is not None:
        total, best = total + extra, None  # not in place: scores may be cached
    elif best is None and feasible.table.size >= KEPT_SIZE:
        total, feasible = feasible.in_rows(total)  # so that the same is drawn as from kept totals
    elif best is not None and not feasible.all_rows:
        feasible = Feasible.whole(cache.table)
    _report(framework, state, search.evaluated, rejected, scored=count)
    chosen, runner_up = select_host(total, below, best)
    second = None if runner_up is None else (names[feasible.slot(runner_up)], int(total[runner_up]))
    return Placement(
        pod=pod,
        node_name=names[feasible.slot(chosen)],
        state=state,
        score=int(total[chosen]),
        runner_up=second,
        evaluated=search.evaluated,
        feasible=found,
        rejected=rejected,
    )


def always_first(_count: int) -> int:
    """A `RandomBelow` with which results can be reproduced."""
    return 0


def select_host(total: WholeNumbers, below: RandomBelow, best: Sequence[int] | None = None) -> tuple[int, int | None]:
    """The index of the greatest total and of the runner-up. Among equals, `below` chooses; the runner-up may be equal,
    too. `best`: the indices of the greatest, in ascending order, if they are known.
    """
    if best is None:
        best = (total == total[total.argmax()]).nonzero()[0]
    if len(best) > 1:
        which = below(len(best))
        return int(best[which]), int(best[which - 1])
    first = int(best[0])
    if len(total) == 1:
        return first, None
    before = int(total[:first].argmax()) if first else -1
    after = first + 1 + int(total[first + 1 :].argmax()) if first + 1 < len(total) else -1
    if before < 0 or (after >= 0 and total[after] > total[before]):
        return first, after
    return first, before


def reject(
    framework: Framework,
    cache: Cache,
    pod: PodInfo,
    state: CycleState,
    diagnosis: NodeDiagnosis,
    *,
    preempt: bool,
) -> Rejection:
    """PostFilter, and why no node is feasible."""
    if not cache.table.count:
        return Rejection(
            pod=pod,
            message=NO_NODES,
            filter_message=NO_NODES,
            status_plugins=frozenset(),
            pending_plugins=frozenset(),
            post_filter=None,
            diagnosis=diagnosis,
            post_filter_status=None,
        )
    result, status = framework.post_filter(state, pod, diagnosis) if preempt else (None, None)
    rejected = diagnosis.plugins()
    pre_filter = diagnosis.pre_filter
    ends = pre_filter is not None and pre_filter.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    ended_by = pre_filter.plugin if pre_filter is not None and ends else ""
    _report(framework, state, sum(rejected.values()), rejected, ended_by=ended_by)
    filter_message = diagnosis.message()
    return Rejection(
        pod=pod,
        message=f"{filter_message} {status.message}" if status is not None and status.message else filter_message,
        filter_message=filter_message,
        status_plugins=_rejecting(diagnosis, rejected),
        pending_plugins=frozenset(
            s.plugin for s in (diagnosis.pre_filter, *diagnosis.explicit.values()) if s and s.code is Code.PENDING
        ),
        post_filter=result,
        diagnosis=diagnosis,
        post_filter_status=status,
        follow_ups=tuple(state.follow_ups),
        if_group_waits=() if preempt else tuple(framework.group_waits(state, pod)),
    )


def _report(
    framework: Framework,
    state: CycleState,
    nodes: int,
    rejected: Mapping[str, int],
    *,
    scored: int = 0,
    ended_by: str = "",
) -> None:
    framework.observer.attempt_ended(
        framework.plugin_names, (state.skip_filter, state.skip_score), nodes, rejected, scored, ended_by
    )


def _rejecting(diagnosis: NodeDiagnosis, rejected: Mapping[str, int]) -> frozenset[str]:
    if diagnosis.pre_filter is not None:
        return frozenset((diagnosis.pre_filter.plugin,))
    return frozenset(rejected) | (
        frozenset((diagnosis.absent.plugin,)) if diagnosis.considered is not None else frozenset()
    )


def _none(cache: Cache) -> Feasible:
    return Feasible(cache.table, np.empty(0, np.intp))


def _only(cache: Cache, slot: int) -> Feasible:
    return Feasible(cache.table, np.array([slot], np.intp))
