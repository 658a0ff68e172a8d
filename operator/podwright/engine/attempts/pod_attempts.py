"""One attempt at a popped pod: finds its policy, asks the core for a decision, and has it carried out."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from podwright.api.policy_status import PackingStatus
from podwright.core.cycle import Decision, Fault, Placement, Rejection, schedule, still_fits
from podwright.core.framework.errors import PluginError
from podwright.core.framework.observer import Observer
from podwright.core.framework.program import Solver
from podwright.core.objects.control_flow import CONTROL_FLOW
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.rules.policy_rules import PolicyRules
from podwright.core.queue import QueuedPod
from podwright.core.queue.queued_pod import Place
from podwright.core.state.deadline import TookLongError
from podwright.core.state.transaction import CacheTransaction
from podwright.engine.attempts.batches import Batches
from podwright.engine.attempts.extended import ExtendedAttempts
from podwright.engine.attempts.gangs.attempts import Gangs
from podwright.engine.outcomes.outcomes import Outcomes
from podwright.engine.planning.placing import assume, still_preempts
from podwright.engine.planning.planning import Planning
from podwright.engine.plugins.slow_plugins import SLOW_SECONDS
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.process.slice import SLICE_SECONDS, Slice
from podwright.engine.process.steps import Steps, Turn
from podwright.engine.records.local_budgets import Account, LocalBudgets
from podwright.engine.records.log_fields import fields
from podwright.engine.state import EngineState

if TYPE_CHECKING:
    from podwright.core.gangs.decisions import Packed

log = logging.getLogger(__name__)


LONG_SECONDS: Final = 60.0
"""For how long pods go to the lane after an attempt at one of the same kind took longer than a slice."""
MOST_KINDS: Final = 1_000


class PodAttempts:
    """See the module."""

    def __init__(
        self,
        state: EngineState,
        policies: ActivePolicies,
        *,
        budgets: LocalBudgets,
        gangs: Gangs,
        extended: ExtendedAttempts,
        outcomes: Outcomes,
        planning: Planning,
        slices: Slice,
        batches: Batches,
        solve: Solver | None,
    ) -> None:
        self._state = state
        self._batches = batches
        self._solve = solve
        self._cache = state.cache
        self._queue = state.queue
        self._planning = planning
        self._slice = slices
        self._slow_plugins = state.slow_plugins
        self._sources = state.sources
        self._policies = policies
        self._budgets = budgets
        self._gangs = gangs
        self._extended = extended
        self._outcomes = outcomes
        self._failures = outcomes.failures
        self._long_until: dict[Hashable, float] = {}
        """By kind of pods: until when child processes decide about them."""
        self.count = 0
        """How many attempts at single pods were made."""

    def schedule_one(self, queued: QueuedPod) -> None:
        """One attempt at a popped pod, or at its pod group. Never raises: an error is a failed attempt."""
        started, cpu_started = self._sources.clock(), self._sources.cpu()
        try:
            policy = self._policies.of(queued.pod)
            if policy is None:
                self._failures.drop(queued)
            elif queued.pod.terminating:
                self._outcomes.skip(queued)
            elif policy.account is not None and self._is_slowed(queued, policy, policy.account):
                return
            elif queued.pod.group and self._cache.groups.is_member(queued.pod):
                self._gangs.attempt(queued, policy, started)
            elif policy.refusal:
                self._failures.wait_for_policy(queued, policy, self._sources.clock() - started)
            else:
                self._schedule(queued, policy, started, cpu_started)
        except CONTROL_FLOW:
            raise
        except BaseException as error:
            log.exception("an attempt failed", extra=fields(pod=queued.pod))
            self._outcomes.abandon(queued, error, started)

    def _schedule(self, queued: QueuedPod, policy: ActivePolicy, started: float, cpu_started: float) -> None:
        """An attempt at a pod outside of groups."""
        queued.policy = policy.label
        if (refused := self._policies.passed_over(queued.pod)) is not None:
            self._failures.warn_of_refusal(queued, refused)
        self.count += 1
        if policy.extenders and self._extended.start(queued, policy, started):
            return
        packs = policy.compiled.source.spec.packing == "Optimal"
        if packs and self._pack(queued, policy, started):
            return
        kind = _kind(queued.pod, policy)
        # Every pod that is packed is slow here: alone, it joins a child that starts anyway, or that others wait for.
        in_child = not packs or self._queue.costly > 0 or self._planning.has_room
        if queued.cost is not None or (queued.slow and in_child) or started < self._long_until.get(kind, started):
            self._later(queued, policy, started)
            return
        try:
            observer = self._slow_plugins.observer_for(policy.compiled.name)
            decision = self._slice.run(lambda: self.decide(queued, policy, observer))
        except TookLongError:
            if packs:
                self._queue.charge_lane(self._sources.clock() - started)
            self._took_long(kind)
            self._later(queued, policy, started)
            return
        seconds = self._sources.clock() - started
        if packs:
            placed = isinstance(decision, Placement)
            policy.activity.packing = PackingStatus(pods=1, placed=int(placed), certificate="Optimal")
            self._queue.charge_lane(seconds)
        policy.activity.took(policy.label, seconds)
        queued.slow = seconds >= SLOW_SECONDS and self._sources.cpu() - cpu_started >= SLOW_SECONDS
        self._outcomes.carry_out(queued, policy, decision, started)

    def _later(self, queued: QueuedPod, policy: ActivePolicy, started: float) -> None:
        """A child process decides, once it is the pod's turn in the lane."""
        if queued.costly:
            self._planning.add(_PodJob(queued, policy, started=started, attempts=self))
        else:
            self._queue.wait_in_lane(queued, ())

    def _pack(self, queued: QueuedPod, policy: ActivePolicy, started: float) -> bool:
        """The pod is gathered with others of its policy, or was: then they are decided together. False if it is
        alone.
        """
        if not queued.costly:
            self._batches.gather(queued, policy)
        elif self._batches.take_alone(queued, policy):
            return False
        else:
            self._planning.add_taken(self._take_batch(queued, policy, started))
        return True

    def _take_batch(self, first: QueuedPod, policy: ActivePolicy, started: float) -> Steps[_PackingJob | None]:
        pods = [first]
        try:
            yield from self._batches.take(pods, policy)
        except BaseException:  # also if the loop ends meanwhile
            self._gangs.give_back(pods)
            raise
        for each in pods:
            each.policy = policy.label
        return _PackingJob(
            pods,
            policy,
            state=self._state,
            solve=self._solve,
            attempts=self,
            started=started,
            turn=self._outcomes.turn,
        )

    def decide(self, queued: QueuedPod, policy: ActivePolicy, observer: Observer | None = None) -> Decision:
        return schedule(policy.framework, self._cache, queued.pod, self._sources.below, observer=observer)

    def _is_slowed(self, queued: QueuedPod, policy: ActivePolicy, account: Account) -> bool:
        """True if the pod goes to the lane first, because its local policy is over its budget or on trial."""
        group = self._cache.groups.of(queued.pod)
        pods = 1 if group is None else max(1, group.min_count)
        if self._budgets.begin(account, in_lane=queued.costly, pods=pods):
            return False
        queued.policy = policy.label
        self._failures.slow_down(queued, account.why)
        return True

    def seen(self, queued: QueuedPod) -> tuple[PodInfo, int]:
        """The pod as it is now, and the number of changes of nodes so far."""
        return queued.pod, self._cache.table.static_changes.seq

    def nominated(self) -> Mapping[str, str]:
        """By uid the nodes of nominated pods, as they are now."""
        return self._cache.nominator.copy().node_of

    def _is_unchanged(self, placement: Placement, pod: PodInfo, seq: int) -> bool:
        """True if neither the pod nor the node has changed since `seq`."""
        changed, info = self._cache.table.static_changes.since(seq), self._cache.present(placement.node_name)
        return placement.pod is pod and info is not None and changed is not None and info.slot not in changed

    def _took_long(self, kind: Hashable) -> None:
        """Pods of this kind go to the lane for a while, without an attempt in the loop."""
        if kind is not None:
            if len(self._long_until) >= MOST_KINDS:
                self._long_until.clear()
            self._long_until[kind] = self._sources.clock() + LONG_SECONDS

    # Decisions of child processes

    def may_decide(self, queued: QueuedPod, policy: ActivePolicy) -> bool:
        """True if a pod in flight still waits for a decision under this policy."""
        return (
            self._queue.get(queued.uid) is queued
            and queued.place is Place.IN_FLIGHT
            and not queued.pod.terminating
            and self._cache.placement(queued.uid) is None
            and self._policies.of(queued.pod) is policy
        )

    def carry_out(
        self,
        queued: QueuedPod,
        policy: ActivePolicy,
        decision: Decision,
        *,
        seconds: float,
        started: float,
        seen: tuple[PodInfo, int],
        nominated: Mapping[str, str],
    ) -> bool:
        """Carries out what a child has decided. False if it does not fit any more."""
        if isinstance(decision, Placement):
            try:
                state = still_fits(
                    policy.framework, self._cache, decision, unchanged=self._is_unchanged(decision, *seen)
                )
            except PluginError as error:
                decision, state = Fault(queued.pod, error.plugin, str(error)), None
            if isinstance(decision, Placement):
                if state is None:
                    return False
                decision = replace(decision, state=state)
        elif isinstance(decision, Rejection):
            nodes = (decision.nominated_node or "",)
            if not still_preempts(queued.pod, nodes, decision.victims, nominated, self._cache):
                return False
        policy.activity.took(policy.label, seconds)
        queued.slow = seconds >= SLICE_SECONDS
        if queued.slow:
            self._took_long(_kind(queued.pod, policy))
        self._outcomes.carry_out(queued, policy, decision, started)
        return True

    def give_back(self, queued: QueuedPod) -> None:
        """Returns a pod without a decision, unless it is gone."""
        self._gangs.give_back((queued,))

    def fail(self, queued: QueuedPod, message: str, started: float) -> None:
        self._failures.fail(queued, message, self._sources.clock() - started)


def _kind(pod: PodInfo, policy: ActivePolicy) -> Hashable:
    """Returns a key that is equal for pods with the same cause of long attempts: rules of the policy, or selectors of
    devices that the namespace writes. Pods that are packed have one, too; None for other pods.
    """
    if PolicyRules.name in policy.framework.plugins or policy.compiled.source.spec.packing == "Optimal":
        return policy.label
    return ("claims", pod.namespace) if pod.resource_claims else None


class _PodJob:
    """See `planning.Job`. For a pod outside of groups."""

    def __init__(self, queued: QueuedPod, policy: ActivePolicy, *, started: float, attempts: PodAttempts) -> None:
        self.pods = (queued,)
        self.policy = policy
        self.turn: Turn = None
        self._queued = queued
        self._started = started
        self._attempts = attempts
        self._seen = attempts.seen(queued)
        self._nominated = attempts.nominated()

    def decide(self) -> Decision:
        return self._attempts.decide(self._queued, self.policy)

    def assume(self, decision: Decision, transaction: CacheTransaction) -> bool:
        return assume(decision, self.policy, transaction)

    def wanted(self) -> bool:
        return self._attempts.may_decide(self._queued, self.policy)

    def carry_out(self, decision: Decision, seconds: float) -> Steps[bool]:
        yield
        return self._attempts.carry_out(
            self._queued,
            self.policy,
            decision,
            seconds=seconds,
            started=self._started,
            seen=self._seen,
            nominated=self._nominated,
        )

    def charged(self, _decision: Decision) -> Sequence[QueuedPod]:
        return self.pods

    def give_back(self) -> Steps[None]:
        yield
        self._attempts.give_back(self._queued)

    def fail(self, message: str) -> Steps[None]:
        yield
        self._attempts.fail(self._queued, message, self._started)


class _PackingJob:
    """See `planning.Job`. Of pods that are packed together."""

    def __init__(
        self,
        pods: Sequence[QueuedPod],
        policy: ActivePolicy,
        *,
        state: EngineState,
        solve: Solver | None,
        attempts: PodAttempts,
        started: float,
        turn: Turn,
    ) -> None:
        self.pods = pods
        self.turn = turn
        self.policy = policy
        self._state = state
        self._solve = solve
        self._attempts = attempts
        self._started = started
        self._seen = {queued.uid: attempts.seen(queued) for queued in pods}
        self._nominated = attempts.nominated()

    def decide(self) -> Packed:
        from podwright.core.gangs.packing import Packing  # noqa: PLC0415 -- few policies pack

        spec, sources = self.policy.compiled.spec, self._state.sources
        packing = Packing(
            self.policy.framework,
            self._state.cache,
            sources.below,
            self._solve,
            seconds=spec.packing_times.budget_seconds,
            clock=sources.clock,
            preempts_at=sources.wall() if spec.packing_may_preempt else None,
        )
        return packing.pack([queued.pod for queued in self.pods])

    def assume(self, packed: Packed, transaction: CacheTransaction) -> bool:
        return all(assume(decision, self.policy, transaction) for decision in packed.decisions)

    def wanted(self) -> bool:
        return any(self._attempts.may_decide(queued, self.policy) for queued in self.pods)

    def carry_out(self, packed: Packed, seconds: float) -> Steps[bool]:
        """A pod whose decision does not fit any more, or that has none, waits in the lane for another one."""
        self.policy.activity.packing = PackingStatus(
            pods=len(self.pods), placed=packed.placed, certificate=packed.certificate, message=packed.message[:1024]
        )
        left = {queued.uid: queued for queued in self.pods}
        for decision in packed.decisions:
            yield
            # A pod that is gone has not come back as an object.
            queued = left.get(decision.pod.uid) if decision.pod is not None else None
            if queued is None or not self._attempts.may_decide(queued, self.policy):
                continue
            if self._attempts.carry_out(
                queued,
                self.policy,
                decision,
                seconds=0.0,
                started=self._started,
                seen=self._seen[queued.uid],
                nominated=self._nominated,
            ):
                del left[queued.uid]
        if len(left) == len(self.pods):
            return False
        for queued in left.values():
            yield
            self._attempts.give_back(queued)
        return True

    def charged(self, _packed: Packed) -> Sequence[QueuedPod]:
        return self.pods

    def give_back(self) -> Steps[None]:
        for queued in self.pods:
            yield
            self._attempts.give_back(queued)

    def fail(self, message: str) -> Steps[None]:
        for queued in self.pods:
            yield
            if self._attempts.may_decide(queued, self.policy):
                self._attempts.fail(queued, message, self._started)
