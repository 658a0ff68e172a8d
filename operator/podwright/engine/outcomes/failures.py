"""Failed attempts: the pod returns to the queue, and its condition PodScheduled and an event FailedScheduling say why.

Status and event are written only if the pod is still in the queue: it may have been deleted or bound meanwhile.
`preemption` evicts the victims that an attempt has chosen.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Final

from podwright.core.cycle import Rejection
from podwright.core.framework.framework import Framework
from podwright.core.framework.status import Code, Status
from podwright.core.gangs.decisions import GangRejection
from podwright.core.gangs.rules import without_counts
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.core.queue import QueuedPod
from podwright.core.queues.queues import QUEUE_QUOTA
from podwright.engine.intake.object_changes import ASSIGNED_POD_DELETE
from podwright.engine.outcomes.follow_ups import FollowUps
from podwright.engine.outcomes.preemption import Preemptions
from podwright.engine.policies.active_policy import WAITS_FOR_POLICY, ActivePolicy
from podwright.engine.ports import SCHEDULER_ERROR, WAITING_FOR_QUOTA, Ports, Regarding, Verdict
from podwright.engine.ports import UNSCHEDULABLE as REASON_UNSCHEDULABLE
from podwright.engine.process.steps import Steps
from podwright.engine.process.token_bucket import TokenBucket
from podwright.engine.records.log_fields import fields
from podwright.engine.records.metrics import ERROR, PREEMPTION_ATTEMPTS, UNSCHEDULABLE
from podwright.engine.records.policy_metrics import SLOW_LANE
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

_QUOTA: Final = frozenset((QUEUE_QUOTA, GangScheduling.name))
REPEAT_SECONDS: Final = 300.0
"""Seconds after which an event of the same cause is recorded again, for members of groups."""
MEMBER_EVENTS: Final = 200
MEMBER_EVENTS_PER_SECOND: Final = 1.0
"""How many events about waiting groups their members may get at once, and how many more each second. Events of the
groups, and of the first members of a group that fit on no node, do not count."""


class Failures:
    """See the module."""

    def __init__(self, state: EngineState, ports: Ports, preemptions: Preemptions) -> None:
        self._cache = state.cache
        self._queue = state.queue
        self._clock = state.clock
        self._recorder = ports.recorder
        self._status = ports.status
        self._metrics = ports.metrics
        self._preemptions = preemptions
        self._member_events = TokenBucket(state.clock, per_second=MEMBER_EVENTS_PER_SECOND, at_once=MEMBER_EVENTS)
        self.follow_ups = FollowUps()
        """The follow-ups of failed attempts and of binding cycles."""

    def reject(self, queued: QueuedPod, decision: Rejection, framework: Framework, seconds: float) -> None:
        """Rejects a pod for which no node was feasible. `seconds`, here and below: how long the attempt took."""
        self._metrics.attempt_took(UNSCHEDULABLE, queued.pod.scheduler_name, seconds)
        if decision.post_filter_status is not None and any(p.preempts for p in framework.post_filter_plugins):
            self._metrics.count(PREEMPTION_ATTEMPTS)
        nominated = decision.nominated_node
        if nominated is None and not (decision.post_filter_status and framework.post_filter_plugins):
            nominated = ""  # No PostFilter plugin could renew an earlier nomination, so it ends.
        if nominated is not None and self._queue.get(queued.uid) is queued:
            self._nominate(queued.pod, nominated)  # first, so that the queue knows for which events it waits
        self._queue.reject(queued, decision.status_plugins, decision.pending_plugins)
        self.follow_ups.run(decision.follow_ups, queued.pod)
        if self._queue.get(queued.uid) is not queued:
            return
        self._publish(
            queued, _reason(decision.status_plugins), decision.message, nominated, cause=_cause(decision), counts=True
        )
        if nominated and decision.post_filter is not None:
            self._preemptions.carry_out(framework, queued.pod, decision.post_filter)

    def reject_group(
        self,
        members: Sequence[QueuedPod],
        decision: GangRejection,
        framework: Framework,
        started: float,
        still_preempts: Callable[[], bool],
    ) -> Steps[bool]:
        """Rejects a group, in steps, between which nobody may try a part of it. If it preempts, all its members wait
        for the victims. Returns False if `still_preempts` says no by then: no pod is evicted, and the members are in
        flight again.
        """
        self._record_group(members, decision)
        group = self._cache.groups.of(members[0].pod) if members else None
        preemption = decision.preemption
        nominations = {} if preemption is None else preemption.nominations
        cause = (without_counts(decision.message), decision.plugins)
        first = not any(member.reported and cause in member.reported for member in members)
        before: dict[str, str] = {}
        for member in members:  # first, so that the queue knows for which events they wait
            if self._queue.get(member.uid) is member:
                before[member.uid] = self._cache.nominator.node_of(member.uid)
                self._nominate(member.pod, nominations.get(member.uid, ""))
            yield
        if preemption is not None and preemption.victims:
            self._preemptions.hold_room([member.pod for member in members])
        for member in members:
            # A more important pod may have taken the nomination since.
            nominated = self._cache.nominator.node_of(member.uid)
            self._reject_member(member, decision, nominated, self._clock() - started, cause, urgent=first)
            yield
        still = still_preempts()
        if still and group is not None and preemption is not None:
            pods = [member.pod for member in members if self._queue.get(member.uid) is member]
            preempt = self._preemptions.carry_out_gang
            still = yield from preempt(framework, group, pods, preemption, still_preempts)
        if not still:
            yield from self._take_back(members, before)
        return still

    def _take_back(self, members: Sequence[QueuedPod], before: Mapping[str, str]) -> Steps[None]:
        """Gives rejected members, which are in flight again, the nominations that they had `before`, by uid."""
        for member in members:
            if self._queue.get(member.uid) is member:
                node_name = before.get(member.uid, "")
                self._nominate(member.pod, node_name)
                self._status.write(member.pod, None, node_name)
                self._queue.take(member.uid)
            yield
        self._preemptions.hold_room([member.pod for member in members if before.get(member.uid)])

    def _record_group(self, members: Sequence[QueuedPod], decision: GangRejection) -> None:
        """An event for a group whose minimum is not placed. The group's status has the counts: in the event, each
        change of them would begin a new series.
        """
        group = decision.group
        if members and not self._cache.groups.minimum_placed(group):
            regarding = Regarding.group(group, members[0].pod.scheduler_name)
            note = without_counts(decision.message)
            policy = members[0].policy
            self._recorder.record(regarding, "Warning", "FailedScheduling", "Scheduling", note, policy=policy)

    def _reject_member(
        self,
        queued: QueuedPod,
        decision: GangRejection,
        nominated: str,
        seconds: float,
        cause: Hashable,
        *,
        urgent: bool,
    ) -> None:
        """The event of a member that fitted on no node says why; the other members' events say why the group was not
        placed. The cause of each event is the group's, because other members fit in each attempt. `urgent`: no member
        has reported this cause yet, so the event of a member that fitted on no node does not wait.
        """
        own = decision.attempts.get(queued.uid)
        message, plugins, pending = decision.message, decision.plugins, decision.pending_plugins
        if isinstance(own, Rejection):
            message, plugins, pending = own.message, plugins | own.status_plugins, own.pending_plugins
        urgent = urgent and isinstance(own, Rejection)
        self._metrics.attempt_took(UNSCHEDULABLE, queued.pod.scheduler_name, seconds)
        self._queue.reject(queued, plugins, pending)
        self.follow_ups.run(decision.follow_ups.get(queued.uid, ()), queued.pod)
        if self._queue.get(queued.uid) is queued:
            self._publish(queued, _reason(plugins), message, nominated, cause=cause, urgent=urgent)

    def drop(self, queued: QueuedPod) -> None:
        """Drops a pod that we no longer schedule: it leaves the queue and its group, and its nomination ends."""
        uid, nominator = queued.uid, self._cache.nominator
        self._queue.done(uid)
        self._cache.groups.remove_waiting(uid)
        if nominator.node_of(uid):
            nominator.remove(uid)
            behind = nominator.highest_behind(queued.pod)
            self._queue.move(ASSIGNED_POD_DELETE, queued.pod, None, up_to_priority=behind)

    def reject_by(
        self,
        queued: QueuedPod,
        message: str,
        plugins: Collection[str],
        seconds: float,
        *,
        cause: Hashable | None = None,
    ) -> None:
        """Reports that these plugins rejected the pod before a node was chosen. Ends its nomination. `cause`: see
        `_publish`.
        """
        self._metrics.attempt_took(UNSCHEDULABLE, queued.pod.scheduler_name, seconds)
        self._queue.reject(queued, plugins)
        if self._queue.get(queued.uid) is queued:
            self._nominate(queued.pod, "")
            self._publish(queued, REASON_UNSCHEDULABLE, message, "", cause=cause)

    def wait_for_policy(self, queued: QueuedPod, policy: ActivePolicy, seconds: float) -> None:
        """The pod's policy has a refusal, so the pod waits until another policy, or another generation, decides about
        it.
        """
        queued.policy = policy.label
        self._metrics.attempt_took(ERROR, queued.pod.scheduler_name, seconds)
        self._queue.reject(queued, {WAITS_FOR_POLICY}, count=False)
        if self._queue.get(queued.uid) is queued:
            self._nominate(queued.pod, "")
            self._publish(queued, SCHEDULER_ERROR, f"the pod waits because {policy.why_waits(queued.pod)}", "")

    def slow_down(self, queued: QueuedPod, why: str) -> None:
        """Moves the pod to the lane of costly pods, because its local policy is over its time budget or, without `why`,
        on trial.
        """
        self._queue.wait_in_lane(queued, ())
        if not why:
            return
        self._metrics.count(SLOW_LANE)
        note = (
            f"policy {queued.policy.rpartition('@')[0]} is over its time budget ({why}), so this pod waits for others"
        )
        self._recorder.record(queued.pod, "Warning", "PolicyOverBudget", "Scheduling", note, policy=queued.policy)

    def warn_of_refusal(self, queued: QueuedPod, refused: ActivePolicy) -> None:
        """Warns that another policy decides about a pod of a refused one, as the operator's options say."""
        note = (
            f"policy {queued.policy.rpartition('@')[0]} decides about the pod because {refused.why_waits(queued.pod)}"
        )
        self._recorder.record(queued.pod, "Warning", "PolicyNotAccepted", "Scheduling", note, policy=refused.label)

    def reject_node(self, queued: QueuedPod, status: Status, seconds: float, *, permit_over: bool) -> None:
        """A plugin rejected the chosen node in Reserve or Permit, or with `permit_over` in PreBind or Bind.

        In Reserve or Permit this makes the pod unschedulable. Later, the pod is retried after its backoff, and
        condition and event carry the plugin's own message.
        """
        self._metrics.attempt_took(UNSCHEDULABLE, queued.pod.scheduler_name, seconds)
        if permit_over:
            self._queue.fault(queued)
            self._publish_if_queued(queued, REASON_UNSCHEDULABLE, status.message)
            return
        by = {status.plugin} if status.plugin else set()
        waits = status.code is Code.PENDING
        self._queue.reject(queued, () if waits else by, by if waits else ())
        reasons = sorted(f"{count} {reason}" for reason, count in Counter(status.reasons).items())
        message = f"0/1 nodes are available: {', '.join(reasons)}." if reasons else "0/1 nodes are available:"
        self._publish_if_queued(queued, REASON_UNSCHEDULABLE, message)

    def fail(self, queued: QueuedPod, message: str, seconds: float, *, cause: Hashable | None = None) -> None:
        """Ends an attempt that failed with an error. `cause`: see `_publish`."""
        self._metrics.attempt_took(ERROR, queued.pod.scheduler_name, seconds)
        self._queue.fault(queued)
        if self._publish_if_queued(queued, SCHEDULER_ERROR, message, cause=cause):
            log.warning("an attempt failed; trying again", extra=fields(pod=queued.pod, err=message))

    def _publish_if_queued(
        self, queued: QueuedPod, reason: str, message: str, *, cause: Hashable | None = None
    ) -> bool:
        """Ends the pod's nomination, in the cache and in its status, and publishes the failure. False if there was no
        event.
        """
        self._cache.nominator.remove(queued.uid)
        if self._queue.get(queued.uid) is not queued:
            return True
        return self._publish(queued, reason, message, "", cause=cause)

    def _publish(
        self,
        queued: QueuedPod,
        reason: str,
        message: str,
        nominated: str | None,
        *,
        cause: Hashable | None = None,
        counts: bool = False,
        urgent: bool = True,
    ) -> bool:
        """Writes the status and records the event. False if the event was skipped.

        `cause`: no event of the same cause follows within `REPEAT_SECONDS`, and later ones repeat the first one's text,
        which has the numbers of that time with `counts`. None: each call is an event. Unless it is `urgent`, the event
        is left to a later attempt while many groups wait.
        """
        self._status.write(queued.pod, Verdict(reason, message), nominated)  # skips what the status says already
        note = message
        if cause is None:
            queued.forget_reports()
        else:
            first, recorded_at = queued.last_report(cause)
            if queued.timestamp < recorded_at + REPEAT_SECONDS or not (urgent or not self._member_events.take()):
                return False
            note = first or (message if counts else without_counts(message))
            queued.report(cause, note, keep_seconds=2 * REPEAT_SECONDS)
        self._recorder.record(queued.pod, "Warning", "FailedScheduling", "Scheduling", note, policy=queued.policy)
        return True

    def _nominate(self, pod: PodInfo, node_name: str) -> None:
        if node_name:
            self._cache.nominator.add(pod, node_name)
        else:
            self._cache.nominator.remove(pod.uid)


def _reason(plugins: Collection[str]) -> str:
    """The reason of the condition of a pod that these plugins have rejected."""
    return WAITING_FOR_QUOTA if QUEUE_QUOTA in plugins and _QUOTA.issuperset(plugins) else REASON_UNSCHEDULABLE


def _cause(decision: Rejection) -> Hashable | None:
    """The cause of the rejection, if its message has numbers that change while it lasts."""
    status = decision.post_filter_status
    lasting = "" if status is None else without_counts(status.message)
    return None if status is None or lasting == status.message else (decision.filter_message, lasting)
