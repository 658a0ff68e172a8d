"""One attempt at a popped pod: finds its policy, asks the core for a decision, and has it carried out."""

from __future__ import annotations

import logging

from podwright.core.cycle import schedule
from podwright.core.objects.control_flow import CONTROL_FLOW
from podwright.core.queue import QueuedPod
from podwright.engine.accounting.local_budgets import Account, LocalBudgets
from podwright.engine.attempts.extended import ExtendedAttempts
from podwright.engine.attempts.outcomes import Outcomes
from podwright.engine.gangs.attempts import Gangs
from podwright.engine.log_fields import fields
from podwright.engine.pauses.slices import STILL_CHANGING, Undecided
from podwright.engine.plugins.slow_plugins import SLOW_SECONDS
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)


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
    ) -> None:
        self._cache = state.cache
        self._queue = state.queue
        self._slices = state.slices
        self._slow_plugins = state.slow_plugins
        self._sources = state.sources
        self._policies = policies
        self._budgets = budgets
        self._gangs = gangs
        self._extended = extended
        self._outcomes = outcomes
        self._failures = outcomes.failures
        self.count = 0
        """How many attempts at single pods were made."""

    def schedule_one(self, queued: QueuedPod) -> None:
        """One attempt at a popped pod, or at its pod group. Never raises: an error is a failed attempt."""
        started, cpu_started = self._sources.clock(), self._slices.cpu()
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
        """An attempt at a pod that is no member of a group."""
        queued.policy = policy.label
        if (refused := self._policies.passed_over(queued.pod)) is not None:
            self._failures.warn_of_refusal(queued, refused)
        self.count += 1
        if policy.extenders and self._extended.start(queued, policy, started):
            return
        observer = self._slow_plugins.observer_for(policy.compiled.name)
        decision = self._slices.decide(
            lambda: schedule(policy.framework, self._cache, queued.pod, self._sources.below, observer=observer),
            wanted=lambda: self._may_decide(queued, policy),
            in_lane=queued.costly,
            about=(queued,),
        )
        seconds = self._sources.clock() - started
        if isinstance(decision, Undecided):
            self._undecided(queued, decision, seconds)
            return
        queued.slow = seconds >= SLOW_SECONDS and self._slices.cpu() - cpu_started >= SLOW_SECONDS
        self._outcomes.carry_out(queued, policy, decision, started)

    def _is_slowed(self, queued: QueuedPod, policy: ActivePolicy, account: Account) -> bool:
        """Whether the pod goes to the lane first, because its local policy is over its budget or on trial."""
        group = self._cache.groups.get(queued.pod.group) if queued.pod.group else None
        pods = 1 if group is None else max(1, group.min_count)
        if self._budgets.begin(account, in_lane=queued.costly, pods=pods):
            return False
        queued.policy = policy.label
        self._failures.slow_down(queued, account.why)
        return True

    def _may_decide(self, queued: QueuedPod, policy: ActivePolicy) -> bool:
        """Whether a pod whose attempt was paused still waits for a decision under this policy."""
        return (
            self._queue.get(queued.uid) is queued
            and not queued.pod.terminating
            and self._policies.of(queued.pod) is policy
        )

    def _undecided(self, queued: QueuedPod, why: Undecided, seconds: float) -> None:
        """A pod was deleted, or another policy applies to it, while its attempt was paused; or the cluster changed all the time."""
        if why is Undecided.STILL_CHANGING:
            self._failures.fail(queued, STILL_CHANGING, seconds)
        elif self._queue.get(queued.uid) is queued:
            self._queue.wait_in_lane(queued, ())
