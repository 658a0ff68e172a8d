"""Shadow: lets the policies in shadow mode decide, one decision at a time, and counts how often they agree with the
scheduler that places the pods.

A pod is compared when it gets its node (`placed_pods`). A pod for which the other scheduler finds no node is compared
when its condition says so, and then every minute (`unplaced_pods`). `waiting_arrivals` and `due_checks` hold those that
wait for their turn, and `shadow_time` says when a decision may be made.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from podwright.api.policy_status import ShadowWork
from podwright.api.spec.match import Subject
from podwright.core.objects.control_flow import CONTROL_FLOW
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.pod_groups import PodGroups
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.records.metrics import Metrics
from podwright.engine.records.policy_metrics import (
    SHADOW_NODES_IN_USE,
    SHADOW_UNPLACED,
    SHADOW_UTILIZATION,
    SHADOW_WAITING,
)
from podwright.engine.shadow.answers import ShadowAnswers
from podwright.engine.shadow.comparison import ComparisonOutcome
from podwright.engine.shadow.due_checks import DueChecks
from podwright.engine.shadow.placed_pods import ObservedPlacement, ShadowPlacedPods
from podwright.engine.shadow.shadow_pods import ShadowPods, WatchedPod
from podwright.engine.shadow.tally import AgreementStats, Tallies
from podwright.engine.shadow.unplaced_pods import UnplacedPods
from podwright.engine.shadow.waiting_arrivals import WaitingArrivals
from podwright.engine.shadow.worlds import Worlds
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Job:
    """A pod, and the policies that are still to decide about it. `arrival`: None for a pod that waits."""

    uid: str
    arrival: ObservedPlacement | None
    turns: deque[AgreementStats]


class Shadow:
    """See the module."""

    def __init__(self, state: EngineState, policies: ActivePolicies, metrics: Metrics, answers: ShadowAnswers) -> None:
        self._cache = state.cache
        self._wake = state.wake
        self._arrivals = state.arrivals
        self._policies = policies
        self.tallies = Tallies(metrics, wall=state.sources.wall)
        self.worlds = Worlds(state, policies=policies)
        self.pods = ShadowPods(state.queue, changed=self._pod_changed, left=self._pod_left)
        """The sink for pending pods of `names`."""
        self.answers = answers
        self._placed = ShadowPlacedPods(state, tallies=self.tallies, answers=answers)
        self.unplaced = UnplacedPods(
            state, pods=self.pods, tallies=self.tallies, answers=answers, again=self._claim_changed
        )
        self._by_name: dict[str, list[AgreementStats]] = {}
        self.names: frozenset[str] = frozenset()
        """The scheduler names of the policies in shadow mode."""
        self.deciding = False
        """True if this instance decides: a standby does not."""
        self._waiting = WaitingArrivals(state, tallies=self.tallies)
        self._checks = DueChecks(state.clock)
        self._check_is_next = self._world_is_next = False
        self._job: _Job | None = None
        self._listeners: list[Callable[[], None]] = []
        metrics.compute(SHADOW_WAITING, lambda: {(): len(self._waiting)})
        metrics.compute(SHADOW_UNPLACED, self.unplaced.counts)
        metrics.compute(SHADOW_UTILIZATION, self.worlds.ratios)
        metrics.compute(SHADOW_NODES_IN_USE, self.worlds.nodes_in_use)

    # What others ask

    @property
    def groups(self) -> PodGroups:
        """The pod groups of the cluster."""
        return self._cache.groups

    def listen(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when `names` may have changed."""
        self._listeners.append(listener)

    @property
    def waiting(self) -> int:
        """How many pods with nodes wait for their turn."""
        return len(self._waiting)

    def work_of(self, name: str) -> ShadowWork | None:
        """Returns the findings of the policy of this name; None if it is not in shadow mode."""
        tally = self.tallies.of(name)
        if tally is None:
            return None
        return ShadowWork(
            since=tally.since,
            agreed=tally.agreements,
            tied=tally.outcomes[ComparisonOutcome.TIED],
            disagreed=tally.differences,
        )

    def due(self, now: float) -> float | None:
        """When there is something to decide, by the clock; None if that is not known."""
        if self._job is not None or self._waiting or self.worlds.has_work:
            return now
        return self._checks.due(now)

    # What happens

    def policies_changed(self) -> None:
        """Other policies may be in shadow mode, or other generations of them. A new generation begins a new tally."""
        self.deciding = True
        if not self.tallies.keep(self._policies.shadows):
            return
        self._by_name = {}
        for tally in self.tallies:
            self._by_name.setdefault(tally.policy.compiled.spec.scheduler_name, []).append(tally)
        self.names = frozenset(self._by_name)
        self._keep_job()
        self._waiting.keep({*self.tallies})
        self.worlds.keep(self.tallies)
        if self._by_name:
            self._arrivals.listener = self._pod_arrived
            self._checks.add(self.pods.uids)
        else:
            self._arrivals.listener = None
            for each in (self._checks, self.pods, self._placed, self.unplaced.claims):
                each.clear()
        for listener in self._listeners:
            listener()
        self._wake()

    def _keep_job(self) -> None:
        """Leaves out the policies that are not in shadow mode any more. All pods without nodes are due again anyway."""
        if self._job is None:
            return
        tallies = {*self.tallies}
        self._job.turns = deque(tally for tally in self._job.turns if tally in tallies)
        if self._job.arrival is None or not self._job.turns:
            self._job = None

    def _pod_changed(self, watched: WatchedPod) -> None:
        """A pod has appeared, or lost its gates, or got its claims, or the other scheduler says something else about
        it.
        """
        arrival = self._waiting.pop_unseen(watched.pod.uid, watched.seen)
        if arrival is not None:
            self._take(arrival)
        if self.unplaced.is_subject(watched):
            self._checks.add((watched.pod.uid,))
            self._wake()

    def _claim_changed(self, uid: str) -> None:
        if (watched := self.pods.get(uid)) is not None:
            self._pod_changed(watched)

    def _pod_left(self, uid: str) -> None:
        """Handles a pod without a node that has got one, or was deleted."""
        self.unplaced.claims.forget(uid)
        self.worlds.pod_stopped_waiting(uid)
        self._wake()

    def _pod_arrived(self, pod: PodInfo, node: str, certain: bool) -> None:
        seen = self.pods.last_seen(pod.uid)
        arrival = self._placed.arrived(pod.uid, node, seen=seen, tallies=self._looking_at(pod))
        if not arrival.tallies:
            return
        if certain or seen is not None:
            self._take(arrival)
        else:
            self._waiting.put_unseen(arrival)

    def _take(self, arrival: ObservedPlacement) -> None:
        """A scheduler has placed the pod."""
        self._waiting.put(arrival)
        for tally in arrival.tallies:
            self.worlds.pod_arrived(tally, arrival.uid)
        self._wake()

    # Decisions

    def attempt(self) -> None:
        """Makes one decision for one policy, if there is any to make. Raises only TookLongError: then call
        `answers.compute`, and try again.

        Comparisons and worlds take turns.
        """
        job = self._job
        if job is None and not (self._world_is_next and self.worlds.has_work):
            job = self._job = self._next_job()
        self._world_is_next = job is not None
        if job is None:
            self._step_world()
            return
        tally = job.turns[0]
        try:
            self._decide(job, tally)
            job.turns.popleft()
        except CONTROL_FLOW:
            raise
        except BaseException:
            log.exception("a decision in shadow mode failed")
            job.turns.clear()
        if not job.turns and self._job is job:
            self._job = None
            self._ended(job)

    def _step_world(self) -> None:
        try:
            self.worlds.step()
        except CONTROL_FLOW:
            raise
        except BaseException:
            log.exception("a world in shadow mode failed")

    def _next_job(self) -> _Job | None:
        """The next pod that any policy selects. Pods with nodes and pods without take turns."""
        self._checks.collect()
        while self._waiting or self._checks:
            self._check_is_next = bool(self._checks) and not (self._waiting and self._check_is_next)
            job = self._next_check() if self._check_is_next else self._next_arrival()
            if job is not None and job.turns:
                return job
        return None

    def _next_check(self) -> _Job:
        uid = self._checks.pop()
        watched = self.pods.get(uid)
        return _Job(uid, None, turns=deque(() if watched is None else self._looking_at(watched.pod)))

    def _next_arrival(self) -> _Job | None:
        arrival = self._waiting.pop()
        return None if arrival is None else _Job(arrival.uid, arrival, turns=deque(arrival.tallies))

    def _looking_at(self, pod: PodInfo) -> Sequence[AgreementStats]:
        """The tallies of the policies that match the pod."""
        tallies = self._by_name.get(pod.scheduler_name)
        if not tallies:
            return ()
        subject = Subject.of(pod, self._cache.namespace_labels(pod.namespace))
        return [tally for tally in tallies if tally.policy.compiled.matches(subject)]

    def _decide(self, job: _Job, tally: AgreementStats) -> None:
        if job.arrival is not None:
            self._placed.compare(job.arrival, tally)
            return
        watched = self.pods.get(job.uid)
        if watched is None or not self.unplaced.is_subject(watched):
            return
        self.unplaced.check(watched, tally)
        if watched.seen.fits.get(tally.number):
            self.worlds.pod_fits(tally, watched.pod)

    def _ended(self, job: _Job) -> None:
        watched = self.pods.get(job.uid) if job.arrival is None else None
        if watched is not None and watched.seen.message is not None:
            self._checks.add_again(job.uid)
