"""A running scheduler's knowledge of one pod, for /debug/explain: its place in the queue, its last decisions, and its
node.

The answer is bounded, and computed in steps of a fraction of a millisecond, between which the loop decides. No
hypothesis is tried here: `podwright explain` does that in the process of the person who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from podwright.core.objects.pod import PodInfo, body_of
from podwright.core.objects.raw import condition_of
from podwright.core.queue import QueuedPod, SchedulingQueue, Waits
from podwright.core.queue.queued_pod import Place
from podwright.core.queue.scheduling_queue import FLUSH_INTERVAL
from podwright.core.state.cache import Cache
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.process.steps import Steps
from podwright.engine.records.recent_decisions import LONGEST, RecentDecision, RecentDecisions

PODS_A_STEP: Final = 1000
Answer = dict[str, Any]


class PodAnswers:
    """See the module. `clock` is the queue's; `waits`: the queue's waiting times; `instance`: what this process is
    called.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        cache: Cache,
        *,
        policies: ActivePolicies,
        decisions: RecentDecisions,
        clock: Callable[[], float],
        waits: Waits,
    ) -> None:
        self._queue = queue
        self._cache = cache
        self._policies = policies
        self._decisions = decisions
        self._clock = clock
        self._waits = waits

    def about(self, namespace: str, name: str) -> Steps[Answer]:
        """Answers what is known of the pod; empty if nothing is."""
        key = f"{namespace}/{name}"
        queued = None
        for number, uid in enumerate(self._queue.uids(), start=1):
            found = self._queue.get(uid)
            if found is not None and found.pod.key == key:
                queued = found
                break
            if number % PODS_A_STEP == 0:
                yield
        decisions = [_decision(each, namespace) for each in self._decisions.of(key)]
        answer: Answer = {}
        if queued is not None:
            ahead = (yield from self._ahead_of(queued)) if queued.place is Place.ACTIVE else None
            answer = {"queue": self._place(queued, ahead), **self._policy(queued.pod), **self._nomination(queued.pod)}
        if not decisions and queued is not None:
            decisions = _written(queued)  # newer decisions about other pods have displaced those about this one
        if decisions:
            answer["decisions"] = decisions
        return {"pod": key, **answer} if answer else {}

    def _ahead_of(self, queued: QueuedPod) -> Steps[int]:
        """Counts the active pods that sort before this one, step by step."""
        rank, ahead = self._policies.sort_key(queued.pod, queued.timestamp), 0
        for number, other in enumerate(self._queue.active(), start=1):
            ahead += other is not queued and self._policies.sort_key(other.pod, other.timestamp) < rank
            if number % PODS_A_STEP == 0:
                yield
        return ahead

    def _place(self, queued: QueuedPod, ahead: int | None) -> Answer:
        now = self._clock()
        place: Answer = {
            "place": queued.place.value,
            "attempts": queued.attempts,
            "waited": round(max(0.0, now - queued.queued_at), 1),
        }
        if (tried_in := self._tried_in(queued, now)) is not None:
            place["triedIn"] = round(max(0.0, tried_in), 1)
        if ahead is not None:
            place["ahead"] = ahead
        if queued.rejectors:
            place["rejectedBy"] = sorted(queued.rejectors)
        if queued.gated_by:
            place["gatedBy"] = queued.gated_by
        if queued.costly:
            place["costly"] = True
        if workload := self._workload(queued.pod):
            place["workload"] = workload
        return place

    def _workload(self, pod: PodInfo) -> str:
        """Returns what a pod waits for that is in a gang of a workload, or waits for its owner; "" for others."""
        groups = self._cache.groups
        group = groups.of(pod)
        if group is None:
            return groups.awaited.get(pod.group, "")
        return groups.progress(group) if group.gang and group.workload else ""

    def _tried_in(self, queued: QueuedPod, now: float) -> float | None:
        """The next attempt begins within this many seconds, if no pod before it takes long."""
        match queued.place:
            case Place.ACTIVE:
                return 0.0
            case Place.BACKOFF:
                return queued.backoff_until + 1.0 - now
            case Place.UNSCHEDULABLE:
                since = max(queued.timestamp, queued.flushed_at)
                return since + self._waits.max_unschedulable + FLUSH_INTERVAL - now
        return None

    def _policy(self, pod: PodInfo) -> Answer:
        policy = self._policies.of(pod)
        if policy is None:
            return {}
        found: Answer = {"policy": {"name": policy.compiled.name, "generation": policy.compiled.generation}}
        return {**found, "refusal": policy.refusal} if policy.refusal else found

    def _nomination(self, pod: PodInfo) -> Answer:
        node = self._cache.nominator.node_of(pod.uid)
        return {"nominated": node} if node else {}


def _decision(decision: RecentDecision, namespace: str) -> Mapping[str, Any]:
    """The decision, without the names of pods in other namespaces: who may see the pod need not be allowed to see
    these.
    """
    name, _, generation = decision.policy.rpartition("@")
    found: Answer = {
        "outcome": decision.outcome,
        "at": decision.at,
        "policy": {"name": name, "generation": int(generation) if generation.isdecimal() else 0},
        "node": decision.node,
        "score": decision.score,
        "evaluated": decision.evaluated or None,
        "feasible": decision.feasible or None,
        "rejected": decision.rejected,
        "message": decision.message,
        "reasons": decision.reasons,
        "nominated": decision.nominated,
        "victims": [key for key in decision.victims if key.startswith(f"{namespace}/")],
        "victimCount": decision.victim_count or None,
    }
    if decision.runner_up is not None:
        found["runnerUp"], found["runnerUpScore"] = decision.runner_up
    return {key: value for key, value in found.items() if value is not None and value not in ("", [], {})}


def _written(queued: QueuedPod) -> list[Mapping[str, Any]]:
    """The last rejection as the pod's status has it, if it has one."""
    condition = condition_of(body_of(queued.pod), "PodScheduled")
    if condition.get("status") != "False":
        return []
    name, _, generation = queued.policy.rpartition("@")
    policy = {"policy": {"name": name, "generation": int(generation)}} if generation.isdecimal() else {}
    outcome = "Failed" if condition.get("reason") == "SchedulerError" else "Rejected"
    return [{"outcome": outcome, "message": str(condition.get("message") or "")[:LONGEST], **policy}]
