"""The stream of pods that have no node and ask for a scheduler that we serve, by uid.

They all come through here, whether Kopf or a reflector watches them. A pod that leaves this stream was bound or
deleted; only the cache knows which.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podwright.core.framework.cost import NODES, AttemptCost
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME, PodInfo, parse_pod
from podwright.core.objects.raw import Raw
from podwright.core.objects.versions import version_number
from podwright.core.queues.queues import queues_of
from podwright.engine.intake.foreign_pods import ForeignPods
from podwright.engine.intake.object_changes import ASSIGNED_POD_DELETE, UNSCHEDULED_POD_ADD
from podwright.engine.intake.stream import Stream, name_of
from podwright.engine.intake.unread_groups import UnreadGroups
from podwright.engine.intake.workloads import Workloads
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.ports import Ports, Regarding
from podwright.engine.state import EngineState

ADDED: Final = "UnscheduledPodAdd"
UPDATED: Final = "UnscheduledPodUpdate"
DELETED: Final = "UnscheduledPodDelete"
TWO_QUEUES: Final = "TwoQueues"
"""The reason of the event for pods that name several queues."""
TWO_GROUPS: Final = "TwoPodGroups"
"""The reason of the event for pods that name several pod groups."""
COSTLY: Final = "CostlyPod"
"""The reason of the event for pods that wait in the lane of costly pods."""


class PendingPods(Stream):
    """See the module."""

    def __init__(
        self,
        state: EngineState,
        ports: Ports,
        policies: ActivePolicies,
        foreign_pods: ForeignPods,
        workloads: Workloads,
    ) -> None:
        super().__init__(state, ports)
        self._workloads = workloads
        self._unread_groups = UnreadGroups(state.cache.groups, ports.recorder, has_minimum=workloads.has_minimum)
        self._binding_cycles = state.binding_cycles
        self._decisions = state.decisions
        self._status = ports.status
        self._recorder = ports.recorder
        self._policies = policies
        self._foreign_pods = foreign_pods
        self._queues = queues_of(state.cache)

    def is_ours(self, raw: Raw) -> bool:
        """True if the pod has no node and asks for a scheduler name that we serve. Never raises."""
        spec = raw.get("spec")
        if not isinstance(spec, Mapping):
            return False
        name = spec.get("schedulerName") or KUBERNETES_DEFAULT_SCHEDULER_NAME
        return isinstance(name, str) and not spec.get("nodeName") and self._policies.serves(name)

    def key(self, raw: Raw) -> str:
        return str(raw["metadata"]["uid"])

    def knows(self, uid: str) -> bool:
        """True if the pod is in the queue, in flight or placed."""
        return self._queue.get(uid) is not None or self._cache.placement(uid) is not None

    def waiting(self) -> dict[str, str]:
        """The queued pods that are not on a node in the cache: their scheduler names by uid."""
        pods = ((uid, self._queue.get(uid)) for uid in self._queue.uids() if self._cache.placement(uid) is None)
        return {uid: queued.pod.scheduler_name for uid, queued in pods if queued is not None}

    def put(self, raw: Raw) -> None:
        if not self.is_ours(raw):
            self._foreign_pods.seen(raw)
            return
        try:
            pod = self._cache.groups.ranked(parse_pod(raw, keep_raw=True))
            grouped = self._workloads.active
            if grouped:
                pod = self._workloads.joined(pod, raw)
            self._take(pod, raw)
            if grouped:
                self._workloads.pod_known(pod.uid)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._report(raw, error)

    def put_listed(self, raw: Raw) -> None:
        """Takes in a pod from one of Kopf's lists, unless it is not ours or the queue has it at this version already.

        Foreign pods are listed elsewhere: Kopf does not report when they leave.
        """
        if not self.is_ours(raw):
            return
        queued = self._queue.get(self.key(raw))
        if queued is None or queued.pod.resource_version != _version(raw):
            self.put(raw)

    def take_event(self, event: Raw) -> None:
        """Takes in an event of Kopf's watch. Kopf may deliver it late, after a list has brought a newer version of the
        pod.
        """
        raw = event["object"]
        if event["type"] == "DELETED":
            self.drop(self.key(raw), raw)
        elif not self._is_outdated(raw):
            self.put(raw)

    def _is_outdated(self, raw: Raw) -> bool:
        queued = self._queue.get(self.key(raw))
        return queued is not None and version_number(_version(raw)) < version_number(queued.pod.resource_version)

    def drop(self, key: str, _raw: Raw | None) -> None:
        if self._foreign_pods:
            self._foreign_pods.left(key)
        if self._workloads.active:
            self._workloads.left(key)
        if self._cache.placement(key) is not None and not self._binding_cycles.pod_left(key):
            return
        started = self._metrics.start()
        self._status.forget(key)
        self._recorder.forget(key)
        if (queued := self._queue.get(key)) is not None:
            self._decisions.forget(queued.pod.key)
        self._queue.delete(key)
        self._cache.groups.remove_waiting(key)
        nominator = self._cache.nominator
        if node_name := nominator.node_of(key):
            pod = next(pod for pod in nominator.on(node_name) if pod.uid == key)
            nominator.remove(key)
            self._queue.move(ASSIGNED_POD_DELETE, pod, None, up_to_priority=nominator.highest_behind(pod))
        self._wake()
        self._metrics.event_ended(started, DELETED)

    def _take(self, pod: PodInfo, raw: Raw) -> None:
        uid, started = pod.uid, self._metrics.start()
        if pod.finished:
            # For example a pod that was evicted before it had a node. It must not be bound any more.
            if self._queue.get(uid) is not None:
                self.drop(uid, raw)
            return
        queued = self._queue.get(uid)
        if self._cache.placement(uid) is not None:
            if queued is not None:
                self._update_in_flight(queued.pod, pod, raw)
            else:
                self._binding_cycles.pod_returned(uid, lambda: self.put(raw))
            return
        self._status.seen(uid, raw)
        if self._foreign_pods:
            self._foreign_pods.left(uid)
        self._cache.groups.add_waiting(pod)
        before = None if queued is None else queued.pod
        nominated_before = "" if before is None else before.nominated_node_name
        nominator = self._cache.nominator
        if pod.nominated_node_name:
            nominator.add(pod, pod.nominated_node_name)
        elif nominator.node_of(uid) and (nominated_before or before is None):
            nominator.remove(uid)
        self._update(before, pod)
        self._report_cost(uid)
        if before is None and (text := self._queues.contradiction(pod)):
            self._recorder.record(pod, "Warning", TWO_QUEUES, "Scheduling", text)
        if before is None and (text := self._cache.groups.contradiction(pod)):
            self._recorder.record(pod, "Warning", TWO_GROUPS, "Scheduling", text)
        if before is None and (pod.group or raw["metadata"].get("annotations")):
            self._unread_groups.check(pod, raw)
        joined = before is None or before.group != pod.group
        # The event is for the pod that completes its group. Where the group was complete already, the new pod's own
        # attempt finds out whether it changes anything for the others.
        if joined and pod.group and self._cache.groups.just_completed(pod):
            self._queue.move(UNSCHEDULED_POD_ADD, None, pod, exclude=uid)
        if before is not None and nominated_before not in ("", pod.nominated_node_name):
            # The nomination kept pods off that node: those of the same or a lower priority or, with a queue, others.
            behind = nominator.highest_behind(before)
            self._queue.move(ASSIGNED_POD_DELETE, before.on(nominated_before), None, up_to_priority=behind)
        self._wake()
        self._metrics.event_ended(started, ADDED if before is None else UPDATED)

    def _update_in_flight(self, before: PodInfo, pod: PodInfo, raw: Raw) -> None:
        """Updates a pod in flight: a failed binding cycle requeues it in this version. Stops the cycle of a pod that is
        being deleted.
        """
        self._status.seen(pod.uid, raw)
        self._cache.groups.add_waiting(pod)
        self._update(before, pod)
        if pod.terminating:
            self._binding_cycles.pod_left(pod.uid)

    def _report_cost(self, uid: str) -> None:
        """Records one event for a costly pod, which says what makes it so."""
        queued = self._queue.get(uid)
        if queued is None or queued.cost is None or queued.cost_reported:
            return
        queued.cost_reported = True
        self._recorder.record(queued.pod, "Warning", COSTLY, "Scheduling", _cost_note(queued.cost))

    def _update(self, before: PodInfo | None, pod: PodInfo) -> None:
        """Updates the queue. New labels, or another policy in its annotation, may put the pod under another policy,
        which has not decided about it yet.
        """
        self._queue.update(pod)
        if (
            before is not None
            and (before.labels is not pod.labels or before.policy != pod.policy)
            and self._policies.of(before) is not self._policies.of(pod)
        ):
            self._queue.reconsider(pod.uid)

    def _report(self, raw: Raw, error: Exception) -> None:
        text = self._invalid_objects.report("Pod", name_of(raw), error)
        if text is not None and isinstance(raw.get("metadata"), Mapping):
            self._recorder.record(_regarding(raw), "Warning", "FailedScheduling", "Scheduling", text)


def _cost_note(cost: AttemptCost) -> str:
    return (
        f"plugin {cost.plugin} checks {cost.count:,} {cost.items}, so an attempt to schedule this pod takes about "
        f"{cost.seconds:.2g} s on {NODES:,} nodes. Such pods get at most a tenth of the scheduler's time, and others "
        "go first meanwhile."
    )


def _version(raw: Raw) -> str:
    return str(raw["metadata"].get("resourceVersion") or "")


def _regarding(raw: Raw) -> Regarding:
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    return Regarding(
        str(metadata.get("namespace") or "default"),
        str(metadata.get("name") or "?"),
        str(metadata.get("uid") or ""),
        str(metadata.get("resourceVersion") or ""),
        str(spec.get("schedulerName") or KUBERNETES_DEFAULT_SCHEDULER_NAME),
    )
