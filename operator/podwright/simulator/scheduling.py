"""Scheduling without a cluster: the scheduler's queue, decisions and preemption, carried out in memory at once.

    pop ─► policy ─► core.cycle.schedule, or core.gangs for a group ─► place, or reject
        ─► victims leave at once, events retry others

The core decides, with the policies, filters, scores, queue order and preemption of the operator. Only the execution
differs: a Binding always succeeds, a victim leaves at once, and a pod that would wait in Permit is approved. Time is
the cluster's clock, which advances only to the next pod that is due. Extenders are not called. Room for large gangs is
held when `gather` is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from random import Random
from typing import Final

from podwright.core.cycle import Decision, Placement, Rejection, schedule
from podwright.core.framework.cluster_events import ClusterEvent
from podwright.core.framework.errors import PluginError
from podwright.core.framework.status import Code, Status
from podwright.core.gangs.decisions import GangPlacement, GangRejection
from podwright.core.gangs.gathering import GatheringGangs
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.gangs.start_times import earliest_start
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.gang_scheduling import GangScheduling, args_of
from podwright.core.preemption.queue_claims import has_queue
from podwright.core.queue import DEFAULT_WAITS, QueuedPod, SchedulingQueue, Waits
from podwright.core.queue.queued_pod import Place
from podwright.core.state.devices.claims import CLAIM_KIND
from podwright.core.state.nominator import reservation_of
from podwright.core.state.reservations import Reservation
from podwright.engine.attempts.gangs.members import GONE
from podwright.engine.intake.object_changes import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    UNSCHEDULED_POD_ADD,
    object_event,
)
from podwright.engine.policies.active_policy import WAITS_FOR_POLICY, ActivePolicy
from podwright.engine.process.steps import at_once
from podwright.simulator.carrying import Carrier
from podwright.simulator.claims import Change
from podwright.simulator.hypotheses.hypothesis import never
from podwright.simulator.loaded import LoadedCluster

MAX_FAULTS: Final = 3
"""After this number of attempts that fail with an error, a pod is not tried again."""
MAX_PREEMPTIONS: Final = 3
"""How often a pod, or a group, may evict others. Controllers recreate the victims, so two pods could evict each other's
forever.
"""
NOT_TRIED: Final = "the simulation ended before the pod was tried"
TERMINATING: Final = "the pod is being deleted"


@dataclass(frozen=True, slots=True)
class Landed:
    """The pod has a node. `policy`: name and generation of the policy that decided. `score`: None if only one node was
    feasible.
    """

    pod: PodInfo
    node_name: str
    policy: str
    score: int | None


@dataclass(frozen=True, slots=True)
class StillPending:
    """The pod has no node. `message`: why, in the words of the event FailedScheduling. `plugins`: those that rejected
    or gate it.
    """

    pod: PodInfo
    message: str
    plugins: frozenset[str]
    policy: str


@dataclass(frozen=True, slots=True)
class Preempted:
    """A pod that had to leave its node for a more important one."""

    pod: PodInfo
    node_name: str
    by: PodInfo


@dataclass(slots=True)
class SchedulingOutcome:
    """The results by uid of the pod. A pod that was preempted after it had got a node is in `preempted` only."""

    landed: dict[str, Landed] = field(default_factory=dict)
    pending: dict[str, StillPending] = field(default_factory=dict)
    preempted: list[Preempted] = field(default_factory=list)
    attempts: int = 0
    complete: bool = True
    """False if the simulation was stopped before all pods were tried."""


class Scheduling:
    """See the module. `carrier` carries out; `seed` decides among equal scores; `stopped` ends a run early."""

    def __init__(
        self,
        cluster: LoadedCluster,
        carrier: Carrier,
        *,
        seed: int = 0,
        waits: Waits = DEFAULT_WAITS,
        stopped: Callable[[], bool] = never,
    ) -> None:
        self.outcome = SchedulingOutcome()
        self._cluster = cluster
        self._cache = cluster.cache
        self._carrier = carrier
        self._stopped = stopped
        self._faults: dict[str, int] = {}
        self._preemptions: Counter[str] = Counter()
        """How often a pod (by uid) or a group (by key) has evicted others."""
        self._below = Random(seed).randrange
        self.gangs = GatheringGangs(cluster.cache)
        """The gangs that gather room."""
        self.queue = SchedulingQueue(
            cluster.clock,
            cluster.policies.sort_key,
            pre_enqueue=self._pre_enqueue,
            hints_of=lambda pod: cluster.policy_for(pod).hints,
            estimate=lambda pod: cluster.policy_for(pod).framework.estimate(pod),
            also_due=cluster.queues.turns.due_claims,
            waits=waits,
        )
        if cluster.queues.active:
            self.queue.order_by(cluster.queues.turns)
        self.on_landed: Callable[[Landed], object] = lambda _: None
        """Called with each pod that gets a node."""
        self.on_rejected: Callable[[PodInfo, frozenset[str]], object] = lambda _pod, _plugins: None
        """Called with each pod that was rejected and is nominated to no node, and with the plugins that rejected it."""
        self.on_preempted: Callable[[Preempted], object] = lambda _: None
        """Called with each victim, after it has left its node."""

    # Pods

    def add(self, pod: PodInfo) -> None:
        """Adds a pod that waits for a node. Its group, if it has one, must already know it."""
        if pod.terminating:
            self.outcome.pending[pod.uid] = StillPending(pod, TERMINATING, frozenset(), "")
            return
        self.queue.add(pod)
        if pod.group and self._cache.groups.just_completed(pod):
            self.happened(UNSCHEDULED_POD_ADD, None, pod, exclude=pod.uid)

    def happened(self, event: ClusterEvent, before: object = None, after: object = None, *, exclude: str = "") -> None:
        """Retries the waiting pods that this event may help."""
        self.queue.move(event, before, after, exclude=exclude)

    def claims_changed(self, changes: Iterable[Change]) -> None:
        """Retries the waiting pods that these changes of ResourceClaims may help."""
        for before, after in changes:
            self.queue.move(object_event(CLAIM_KIND, before, after), before, after)

    # Running

    def run(self) -> None:
        """Attempts all pods that are due at the clock's time."""
        queue = self.queue
        while not self._stopped():
            queued = queue.pop()
            if queued is None:
                return
            self._attempt(queued)
        self.outcome.complete = False

    def settle(self) -> SchedulingOutcome:
        """Attempts all pods until only events could help the others. Advances the clock past backoffs."""
        self.run()
        while self.outcome.complete and self.is_due_later:
            wakeup = self.queue.next_wakeup()
            if wakeup is None:
                break
            self._cluster.clock.now = max(self._cluster.clock.now + 0.001, wakeup)
            self.run()
        self._explain_others()
        return self.outcome

    @property
    def is_due_later(self) -> bool:
        """True if a pod will be tried again without an event."""
        counts = self.queue.counts()
        return bool(counts[Place.ACTIVE.value] or counts[Place.BACKOFF.value])

    def _explain_others(self) -> None:
        """Gives a reason to pods that wait without a decision: they are gated, or there was no time."""
        for uid in self.queue.uids():
            found = self.why_waits(uid)
            if found is not None:
                self.outcome.pending[uid] = found

    def why_waits(self, uid: str) -> StillPending | None:
        """Why the pod waits: why it is not tried, or else the result of the last attempt. None for a pod that does not
        wait.
        """
        known, queued = self.outcome.pending.get(uid), self.queue.get(uid)
        if queued is None:
            return known
        pod, policy = queued.pod, self._cluster.policy_for(queued.pod)
        gate = self._pre_enqueue(pod) if queued.place is Place.GATED else None
        if gate is not None:
            return StillPending(pod, "; ".join(gate.reasons), frozenset((gate.plugin,)), policy.label)
        return known or StillPending(pod, NOT_TRIED, frozenset(), policy.label)

    def gather(self) -> Sequence[Reservation]:
        """Holds room for large gangs as the scheduler would at the clock's time. Returns the new reservations."""
        now, made = self._cluster.clock.now, []
        for due in (due for queue in self.gangs.names() for due in self.gangs.due(queue, now)):
            policy = self._cluster.policy_for(due.members[0])
            if policy.refusal:
                continue
            start = earliest_start(self._planner(due.group, policy), due.members, self.gangs.may_end(), now)
            reservation = at_once(self.gangs.gather(due, start, now))
            if reservation is not None:
                self._carrier.hold(reservation)
                made.append(reservation)
        return made

    # One attempt

    def _attempt(self, queued: QueuedPod) -> None:
        self.outcome.attempts += 1
        pod = queued.pod
        policy = self._cluster.policy_for(pod)
        queued.policy = policy.label
        if pod.group and self._cache.groups.is_member(pod):
            self._attempt_group(queued, policy)
        elif policy.refusal:
            self.queue.reject(queued, {WAITS_FOR_POLICY}, count=False)
            self._pends(queued, f"the pod waits because {policy.why_waits(pod)}", {WAITS_FOR_POLICY})
        else:
            preempt = self._preemptions[pod.uid] < MAX_PREEMPTIONS
            decision = schedule(policy.framework, self._cache, pod, self._below, preempt=preempt)
            self._carry_out(queued, policy, decision)

    def _carry_out(self, queued: QueuedPod, policy: ActivePolicy, decision: Decision) -> None:
        if isinstance(decision, Placement):
            self._place(queued, policy, decision)
        elif isinstance(decision, Rejection):
            self._reject(queued, policy, decision)
        else:
            self._fail(queued, decision.message, decision.plugin)

    def _place(self, queued: QueuedPod, policy: ActivePolicy, placement: Placement) -> None:
        try:
            refused = self._carrier.place(policy.framework, placement)
        except PluginError as error:
            self._fail(queued, str(error), error.plugin)
            return
        if refused is not None:
            by = {refused.plugin} if refused.plugin else {plugin.name for plugin in policy.framework.filter_plugins}
            waits = refused.code is Code.PENDING
            self.queue.reject(queued, () if waits else by, by if waits else ())
            self._nominate(queued, "")
            self._pends(queued, refused.message or refused.code.text, by)
            return
        pod = queued.pod
        self.queue.done(pod.uid)
        landed = Landed(pod, placement.node_name, policy.label, placement.score)
        self.outcome.pending.pop(pod.uid, None)
        self.outcome.landed[pod.uid] = landed
        self.on_landed(landed)
        if len(self.queue):
            self.queue.move(ASSIGNED_POD_ADD, None, pod.on(placement.node_name))

    def _reject(self, queued: QueuedPod, policy: ActivePolicy, decision: Rejection) -> None:
        plugins = _waits_for(policy, decision.status_plugins, decision.pending_plugins)
        nominated = decision.nominated_node
        if nominated is None and not (decision.post_filter_status and policy.framework.post_filter_plugins):
            nominated = ""
        if nominated is not None:
            self._nominate(queued, nominated)  # first, so that the queue knows for which events it waits
        self.queue.reject(queued, plugins, decision.pending_plugins)
        self._pends(queued, decision.message, decision.status_plugins | decision.pending_plugins)
        self.claims_changed(self._carrier.follow_up(decision.follow_ups))
        if nominated:
            self._clear_lower_nominations({nominated}, queued.pod, {queued.uid})
            self._evict(decision.victims, queued.pod, queued.uid)
        else:
            self.on_rejected(queued.pod, decision.status_plugins | decision.pending_plugins)

    def _fail(self, queued: QueuedPod, message: str, plugin: str = "") -> None:
        """An attempt failed with an error."""
        self._nominate(queued, "")
        faults = self._faults[queued.uid] = self._faults.get(queued.uid, 0) + 1
        if faults < MAX_FAULTS:
            self.queue.fault(queued)
        else:
            self.queue.done(queued.uid)
        self._pends(queued, message, {plugin} if plugin else ())

    def _pends(self, queued: QueuedPod, message: str, plugins: Iterable[str]) -> None:
        self.outcome.pending[queued.uid] = StillPending(queued.pod, message, frozenset(plugins), queued.policy)

    # Groups

    def _attempt_group(self, first: QueuedPod, policy: ActivePolicy) -> None:
        group = self._cache.groups.of(first.pod)
        if group is None:
            self.queue.reject(first, {GangScheduling.name})
            self._pends(first, GONE, {GangScheduling.name})
            return
        members = self._members(group, first)
        if policy.refusal:
            for member in members:
                self.queue.reject(member, {WAITS_FOR_POLICY}, count=False)
                self._pends(member, f"the pod waits because {policy.why_waits(member.pod)}", {WAITS_FOR_POLICY})
            return
        planner = self._planner(group, policy)
        pods = [member.pod for member in members]
        if self._preemptions[group.key] < MAX_PREEMPTIONS:
            decision = decide(planner, pods, self._cluster.clock.now)
        else:
            decision = planner.plan(pods)
        if isinstance(decision, GangPlacement):
            self._place_group(members, policy, decision)
        elif isinstance(decision, GangRejection):
            self._reject_group(members, policy, decision)
        else:
            for member in members:
                self._fail(member, decision.message, decision.plugin)

    def _planner(self, group: PodGroup, policy: ActivePolicy) -> GangPlanner:
        pack_by = args_of(policy.framework.profile).topology_key
        return GangPlanner(policy.framework, self._cache, group, self._below, pack_by)

    def _members(self, group: PodGroup, first: QueuedPod) -> Sequence[QueuedPod]:
        """All waiting members that are not gated, in flight from now on, in the order in which they were added."""
        members = []
        for pod in self._cache.groups.members(group.key).unplaced():
            queued = first if pod.uid == first.uid else self.queue.take(pod.uid)
            if queued is not None:
                queued.policy = first.policy
                members.append(queued)
        return members

    def _place_group(self, members: Sequence[QueuedPod], policy: ActivePolicy, decision: GangPlacement) -> None:
        queued = {member.uid: member for member in members}
        for placement in decision.placements:
            self._place(queued[placement.pod.uid], policy, placement)
        for rejection in decision.rejections:
            self._reject(queued[rejection.pod.uid], policy, rejection)
            self.queue.activate(rejection.pod.uid)

    def _reject_group(self, members: Sequence[QueuedPod], policy: ActivePolicy, decision: GangRejection) -> None:
        nominations: Mapping[str, str] = {} if decision.preemption is None else decision.preemption.nominations
        for member in members:
            own = decision.attempts.get(member.uid)
            message, plugins, pending = decision.message, decision.plugins, decision.pending_plugins
            if isinstance(own, Rejection):
                message, plugins, pending = own.message, plugins | own.status_plugins, own.pending_plugins
            self._nominate(member, nominations.get(member.uid, ""))
            self.queue.reject(member, _waits_for(policy, plugins, pending), pending)
            self._pends(member, message, plugins | pending)
            self.claims_changed(self._carrier.follow_up(decision.follow_ups.get(member.uid, ())))
        if decision.preemption is not None and members:
            uids = {member.uid for member in members}
            self._clear_lower_nominations(set(nominations.values()), members[0].pod, uids)
            self._evict(decision.preemption.victims, members[0].pod, decision.group.key)

    # Preemption

    def _clear_lower_nominations(self, nodes: Iterable[str], pod: PodInfo, spared: set[str]) -> None:
        nominator = self._cache.nominator
        if has_queue(self._cache, pod):
            nominator.hold_room(spared)
        for node_name in nodes:
            for lower in [p for p in nominator.behind(pod, node_name) if p.uid not in spared]:
                if reservation_of(lower):
                    self._cache.reservations.give_way(lower, pod)
                    continue
                self._carrier.nominate(lower, "")
                queued = self.queue.get(lower.uid)
                if queued is not None:
                    self._nominate(queued, "")

    def _nominate(self, queued: QueuedPod, node_name: str) -> None:
        """Nominates the pod, in the cache and in its status. An empty name withdraws the nomination."""
        if queued.pod.nominated_node_name != node_name and self.queue.get(queued.uid) is queued:
            self.queue.update(replace(queued.pod, nominated_node_name=node_name))
        self._carrier.nominate(queued.pod, node_name)

    def _evict(self, victims: Sequence[PodInfo], by: PodInfo, counted_as: str) -> None:
        self._preemptions[counted_as] += bool(victims)
        there = [(victim, info.name) for victim in victims if (info := self._cache.placement(victim.uid)) is not None]
        freed = self._carrier.evict([victim for victim, _ in there])
        self.claims_changed(freed)
        if freed:
            # A nomination keeps no devices, and in a cluster the pod's backoff is over before the victim has ended.
            self.queue.activate(by.uid)
        for victim, node_name in there:
            self.outcome.landed.pop(victim.uid, None)
            preempted = Preempted(victim, node_name, by)
            self.outcome.preempted.append(preempted)
            self.queue.move(ASSIGNED_POD_DELETE, victim.on(node_name), None)
            self.on_preempted(preempted)

    # What the queue asks

    def _pre_enqueue(self, pod: PodInfo) -> Status | None:
        try:
            return self._cluster.policy_for(pod).framework.pre_enqueue(pod)
        except PluginError as error:
            return Status(Code.ERROR, (str(error),), error.plugin)


def _waits_for(policy: ActivePolicy, plugins: frozenset[str], pending: frozenset[str]) -> frozenset[str]:
    """Returns the plugins for whose events a rejected pod waits. If no plugin rejected it, the cluster has no nodes,
    and any new node helps: then all filter plugins, or the queue would retry the pod forever.
    """
    return plugins if plugins or pending else frozenset(plugin.name for plugin in policy.framework.filter_plugins)
