"""DefaultPreemption: if no node is feasible, finds the node where evicting pods of lower priority costs least.

The plugin only decides. The engine evicts the victims and nominates the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from math import inf
from typing import Any, ClassVar, Final

import numpy as np

from podwright.core.framework.args import INT32
from podwright.core.framework.cluster_events import ASSIGNED_POD, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.diagnosis import NodeDiagnosis
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import (
    Bools,
    CycleState,
    EnqueueExtensions,
    Handle,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    Slots,
)
from podwright.core.framework.observer import NO_OBSERVER
from podwright.core.framework.status import Code, Status, unresolvable, unschedulable
from podwright.core.framework.verdict_cache import NodeVerdicts, VerdictCache
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.budgets import BudgetRules, StoredBudgets
from podwright.core.preemption.evaluator import NO_VICTIMS, Candidate, DryRun, acceptable, select_victims
from podwright.core.preemption.placed_priorities import may_be_below
from podwright.core.preemption.queue_claims import QueueClaim, claim_of, has_queue
from podwright.core.preemption.units import Unit, complete, victims_are_going
from podwright.core.queues.flavors import NOWHERE
from podwright.core.queues.queues import QUEUE_QUOTA, queues_of
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.transaction import CacheTransaction

NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
FEW: Final = 16
"""How many candidate nodes are enough for a pod of a queue. They are searched where evictions cost least."""
GOING: Final = "not eligible due to terminating pods in its queue."
WAITING: Final = "waiting for the preemption for this pod to be finished"
GROUP_WAITING: Final = "waiting for the preemption for this pod group to be finished"


@dataclass(frozen=True, slots=True)
class DefaultPreemptionArgs:
    """How many candidate nodes to find: a percentage of the nodes where preemption may help, and a minimum."""

    min_candidate_nodes_percentage: int = field(default=10, metadata=INT32)
    min_candidate_nodes_absolute: int = field(default=100, metadata=INT32)

    def validate(self, where: str) -> Iterable[tuple[str, str]]:
        if not 0 <= self.min_candidate_nodes_percentage <= 100:
            yield f"{where}.minCandidateNodesPercentage", "must be between 0 and 100"
        if self.min_candidate_nodes_absolute < 0:
            yield f"{where}.minCandidateNodesAbsolute", "must be at least 0"
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            yield where, "minCandidateNodesPercentage and minCandidateNodesAbsolute must not both be 0"


class DefaultPreemption(Plugin, PreEnqueuePlugin, PostFilterPlugin, EnqueueExtensions):
    """See the module."""

    name: ClassVar[str] = "DefaultPreemption"
    preempts = True
    args_type = DefaultPreemptionArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._framework: Framework
        self._observer = NO_OBSERVER
        self._start = 0
        self._preempting = handle.cache.nominator.preempting
        self._verdicts: VerdictCache[Candidate | Status] = VerdictCache()
        self._budgets = StoredBudgets(handle.cache.store, handle.cache.deadline.point)
        self._budgets_of_verdicts = self._budgets.rules()
        self._holds = handle.features.enabled("SchedulerAsyncPreemption")

    def attach(self, framework: Framework) -> None:
        self._framework = framework
        self._observer = framework.observer

    def started(self, preemptor: str) -> None:
        """Evictions for the pod or group start. It waits in PreEnqueue until `finished`."""
        if self._holds:
            self._preempting.add(preemptor)

    def finished(self, preemptor: str) -> None:
        self._preempting.discard(preemptor)

    def clear_cache(self) -> None:
        self._verdicts.clear()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if not self._preempting:
            return None
        if pod.group and self.handle.cache.groups.key_of(pod) in self._preempting:
            return unresolvable(GROUP_WAITING)
        return unresolvable(WAITING) if pod.uid in self._preempting else None

    def hints(self) -> Sequence[EventHint]:
        # No requeue here: the hints of the plugins that rejected the pod react to the deletion of its victims.
        # No event opens the gate: `finished` does.
        deleted = ClusterEvent(ASSIGNED_POD, Action.DELETE)
        return (EventHint(deleted, lambda _pod, _before, _after: Hint.SKIP, opens_gate=False),)

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Any) -> tuple[PostFilterResult | None, Status]:
        started, code = self._observer.start(), Code.ERROR
        try:
            result, status = self._preempt(state, pod, diagnosis)
            code = status.code
        finally:
            self._observer.victims_searched(started, "pod", code.text)
        reasons = (f"preemption: {status.message}",) if status.reasons else ()
        return result, Status(status.code, reasons)

    def _preempt(
        self, state: CycleState, pod: PodInfo, diagnosis: NodeDiagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        objection = self._not_eligible(pod, diagnosis)
        if objection:
            return None, unschedulable(objection)
        cache = self.handle.cache
        found: PostFilterResult | None = None
        status = unschedulable()
        for place, nodes in queues_of(cache).places.shared_by((pod,)) if has_queue(cache, pod) else ((NOWHERE, None),):
            claim = claim_of(cache, (pod,), pod.priority, self._budgets.rules(), self.handle.now(), place)
            if claim is not None and claim.is_vain:
                helps = _is_refused(diagnosis) or len(diagnosis.resolvable())
                found, status = _nowhere((claim.why_nothing if helps else "") or NO_VICTIMS)
            elif claim is not None and (place or _is_refused(diagnosis)) and claim.bound_by_limit:
                found, status = self._preempt_at_limit(pod, claim, nodes)
            elif claim is not None and (bound := claim.bound) is not None:
                found, status = _nowhere(bound.message)
            else:
                found, status = self._preempt_on_nodes(state, pod, diagnosis, claim, nodes)
            if found is None or found.nominated_node:
                break
        return found, status

    def _preempt_on_nodes(
        self,
        state: CycleState,
        pod: PodInfo,
        diagnosis: NodeDiagnosis,
        claim: QueueClaim | None,
        within: Bools | None,
    ) -> tuple[PostFilterResult | None, Status]:
        """`within`: bool[nodes], those where room is looked for; None: all."""
        run = self._dry_run(state, pod, diagnosis, claim, within)
        if claim is not None and not run.candidates and claim.may_split_units:
            claim.splits_units = True
            run = self._dry_run(state, pod, diagnosis, claim, within)
        if run.failures and not run.candidates:
            return None, Status(Code.ERROR, (_aggregated(run.failures),))
        if not run.candidates:
            return PostFilterResult("", (), run), unschedulable(self._why_not(run, claim))
        found = list(run.candidates.values())
        if claim is None:
            best = acceptable(found, self.handle.now())[0]
        else:
            best = min(found, key=lambda candidate: claim.cost(candidate.victims))
        return _chosen(best, run)

    def _preempt_at_limit(
        self, pod: PodInfo, claim: QueueClaim, within: Bools | None
    ) -> tuple[PostFilterResult | None, Status]:
        """Frees what a limit forbids the pod, then looks for a node, if need be with further victims. If that is not
        possible, the pod's nomination ends, so that it holds no room in vain.
        """
        cache, framework = self.handle.cache, self._framework
        if not claim.free_limits():
            return _nowhere(claim.why_nothing or NO_VICTIMS)
        evicted = complete(claim.taken)
        if not evicted:
            return None, unschedulable(GOING)
        with CacheTransaction(cache) as transaction:
            transaction.remove({each.uid: each for each in (*evicted, *claim.going())}.values())
            state, diagnosis = CycleState(), NodeDiagnosis(cache.table)
            outcome = framework.pre_filter(state, pod)
            if outcome.status is not None:
                return _nowhere(outcome.status.message)
            if (bound := claim.bound) is not None:
                return _nowhere(bound.message)
            alive = framework.filter_all(state, pod, cache.table, diagnosis)
            if outcome.node_names is not None:
                infos = [info for name in outcome.node_names if (info := cache.present(name)) is not None]
                diagnosis.consider_only([info.slot for info in infos], unresolvable(NOT_HELPFUL))
                alive = alive & diagnosis.considered_rows(frozenset(info.slot for info in infos))
            alive = alive if within is None else alive & within
            nodes = [cache.node_at(int(slot)) for slot in np.flatnonzero(alive)]
            left = {transaction.removed_from(each.uid) for each in evicted}
            for node in sorted(nodes, key=lambda node: node.name not in left):
                cache.deadline.point()
                if framework.filter_node_with_nominated(state, pod, node) is None:
                    return _chosen(Candidate(node.name, evicted, 0), DryRun())
            result, status = self._preempt_on_nodes(state, pod, diagnosis, claim, within)
        if result is None or not result.nominated_node:
            return result, status
        return _chosen(Candidate(result.nominated_node, (*evicted, *result.victims), 0), DryRun())

    def _not_eligible(self, pod: PodInfo, diagnosis: NodeDiagnosis) -> str:
        if pod.preemption_policy == "Never":
            return NEVER
        cache = self.handle.cache
        # The watch may not have delivered our own nomination yet.
        nominated = cache.present(cache.nominator.node_of(pod.uid) or pod.nominated_node_name)
        if nominated is None:
            return ""
        status = diagnosis.status_of(nominated.slot)
        if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        return TERMINATING if victims_are_going(pod, pod.priority, nominated, cache) else ""

    def _dry_run(
        self,
        state: CycleState,
        pod: PodInfo,
        diagnosis: NodeDiagnosis,
        claim: QueueClaim | None,
        within: Bools | None,
    ) -> DryRun:
        cache = self.handle.cache
        budgets = self._budgets.rules()
        if budgets is not self._budgets_of_verdicts:  # budgets change without the nodes
            self._budgets_of_verdicts = budgets
            self._verdicts.clear()
        cached = self._verdicts.of(self._framework.verdict_key(state, pod))
        slots = diagnosis.resolvable()
        slots = slots if within is None else slots[within[slots]]
        run = DryRun()
        if claim is None and not may_be_below(pod.priority, cache):  # as each node would say
            run.rejected = dict.fromkeys(
                (cache.node_at(slot).name for slot in slots.tolist()), unresolvable(NO_VICTIMS)
            )
            return run
        faults: list[PluginError] = []
        for node in self._nodes_in_turn(slots, run) if claim is None else self._nodes_of_claim(slots, run, claim):
            cache.deadline.point()
            try:
                if claim is None:
                    found = self._victims(cached, state, pod, node, budgets)
                else:
                    found = self._victims_of_claim(claim, state, pod, node, budgets)
            except PluginError as fault:
                faults.append(fault)
                continue
            if isinstance(found, Candidate) and not found.victims:
                run.failures.append(f'expected at least one victim pod on node "{node.name}"')
            elif isinstance(found, Candidate):
                run.candidates[node.name] = found
            else:
                run.rejected[node.name] = found
        if faults and not run.candidates:
            raise faults[0]
        return run

    def _nodes_in_turn(self, slots: Slots, run: DryRun) -> Iterator[NodeInfo]:
        """Starting elsewhere each time spreads evictions; kube-scheduler starts at random."""
        wanted = self._enough(len(slots))
        start = self._start % len(slots) if len(slots) else 0
        for slot in np.roll(slots, -start).tolist():
            self._start += 1
            yield self.handle.cache.node_at(slot)
            if len(run.candidates) >= wanted and not all(each.violations for each in run.candidates.values()):
                return

    def _nodes_of_claim(self, slots: Slots, run: DryRun, claim: QueueClaim) -> Iterator[NodeInfo]:
        """The nodes where evictions cost least first, until those that are left cannot cost less."""
        left, best = {*slots.tolist()}, tuple[float, ...]((inf,))
        for least, node in claim.nodes() if left else ():
            self.handle.cache.deadline.point()
            if best <= least or len(run.candidates) >= FEW or not left:
                break
            if node.slot in left:
                left.remove(node.slot)
                yield node
                if (found := run.candidates.get(node.name)) is not None:
                    best = min(best, claim.cost(found.victims))
        if not run.candidates:
            run.rejected |= {self.handle.cache.node_at(slot).name: unresolvable(NO_VICTIMS) for slot in left}

    def _victims(
        self,
        cached: NodeVerdicts[Candidate | Status] | None,
        state: CycleState,
        pod: PodInfo,
        node: NodeInfo,
        budgets: BudgetRules,
    ) -> Candidate | Status:
        nominated = self._framework.nominated_before(pod, node.name)
        known = None if cached is None else cached.get(node, nominated)
        if known is not None:
            return known[0]
        found = select_victims(self._framework, state, pod, node, self.handle.cache, budgets, self.handle.now())
        if cached is not None and _stands_alone(node):
            cached.put(node, nominated, found)
        return found

    def _victims_of_claim(
        self, claim: QueueClaim, state: CycleState, pod: PodInfo, node: NodeInfo, budgets: BudgetRules
    ) -> Candidate | Status:
        units = claim.candidates(node.pods.values())
        least = self._least(pod, node, units)
        found: Candidate | Status = unresolvable(NO_VICTIMS)
        # Mostly the least important units are enough, and then the others need not be tried.
        for some in (units[-least:], units) if 0 < least < len(units) else (units,):
            taken = [unit for unit in reversed(some) if claim.take(unit)]
            try:
                found = select_victims(
                    self._framework,
                    state,
                    pod,
                    node,
                    self.handle.cache,
                    budgets,
                    self.handle.now(),
                    potential=taken,
                    claim=claim,
                )
            finally:
                claim.release([unit for unit in taken if unit in claim.taken])
            if isinstance(found, Candidate):
                break
        return found

    def _least(self, pod: PodInfo, node: NodeInfo, units: Sequence[Unit]) -> int:
        """How many of these units, from the last one on, must leave the node at least for the pod's resources to
        fit.
        """
        before = self._framework.nominated_before(pod, node.name)
        lacking = {
            resource: amount
            + sum(other.requests.amounts.get(resource, 0) for other in before)
            + node.requested.get(resource, 0)
            - node.allocatable(resource)
            for resource, amount in pod.requests.spec_requests
        }
        for count, unit in enumerate(reversed(units)):
            if all(amount <= 0 for amount in lacking.values()):
                return count
            for other in unit.pods:
                if other.uid in node.pods:
                    for resource in lacking:
                        lacking[resource] -= other.requests.amounts.get(resource, 0)
        return len(units)

    def _enough(self, nodes: int) -> int:
        share = nodes * self.args.min_candidate_nodes_percentage // 100
        return int(min(nodes, max(share, self.args.min_candidate_nodes_absolute)))

    def _why_not(self, run: DryRun, claim: QueueClaim | None) -> str:
        cache = self.handle.cache
        why = claim.why_nothing if claim is not None and run.rejected else ""
        if why and all(status.message == NO_VICTIMS for status in run.rejected.values()):
            return why
        diagnosis = NodeDiagnosis(cache.table)
        rejected = {cache.nodes[name].slot: status for name, status in run.rejected.items()}
        diagnosis.reject_explicitly(rejected)
        diagnosis.consider_only(rejected, unresolvable(NOT_HELPFUL))
        return f"{diagnosis.message()[:-1]}; {why}" if why else diagnosis.message()


def _is_refused(diagnosis: NodeDiagnosis) -> bool:
    """True if PreFilter has rejected the pod because of a bound of its queue, or of one above."""
    return diagnosis.pre_filter is not None and diagnosis.pre_filter.plugin == QUEUE_QUOTA


def _nowhere(why: str) -> tuple[PostFilterResult, Status]:
    """No node, although none was tried. The pod's nomination ends."""
    return PostFilterResult("", (), DryRun()), unschedulable(why)


def _chosen(best: Candidate, run: DryRun) -> tuple[PostFilterResult, Status]:
    text = f"found a potential placement for pod on node {best.node_name}, preempting {len(best.victims)} victims"
    return PostFilterResult(best.node_name, best.victims, run, best.violations), Status(Code.SUCCESS, (text,))


def _aggregated(failures: Sequence[str]) -> str:
    """The failures as one text. Source: `NewAggregate` in k8s.io/apimachinery."""
    return failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"


def _stands_alone(node: NodeInfo) -> bool:
    """True if the victims depend on the pods of the node alone: on no other member of a group, and not on the time."""
    pods = node.pods.values()
    return not any(pod.group for pod in pods) and len({pod.start_time is None for pod in pods}) < 2
