"""The stream of pods that have a node, of every scheduler, by uid."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from podwright.core.gangs.run_times import run_times_of
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, PodText
from podwright.core.objects.raw import Raw
from podwright.core.objects.readable import parse_assigned_pod
from podwright.engine.intake.object_changes import (
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    UNSCHEDULED_POD_ADD,
    assigned_pod_event,
    has_other_update,
)
from podwright.engine.intake.other_instances import OtherInstances
from podwright.engine.intake.stream import Stream, name_of
from podwright.engine.intake.workloads import Workloads
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.ports import Ports
from podwright.engine.state import EngineState


class AssignedPods(Stream):
    """See the module."""

    takes_pod_texts = True

    def __init__(
        self,
        state: EngineState,
        ports: Ports,
        policies: ActivePolicies,
        other_instances: OtherInstances,
        workloads: Workloads,
    ) -> None:
        super().__init__(state, ports)
        self._workloads = workloads
        self._other_instances = other_instances
        self._status = ports.status
        self._recorder = ports.recorder
        self._policies = policies
        self._raw_objects = state.raw_objects
        self._decisions = state.decisions
        self._wall = state.sources.wall
        self.on_left: Callable[[PodInfo, str], object] = lambda _pod, _node: None
        """Called with each pod that has left its node, before others are tried there."""
        self._evicted: dict[str, PodInfo] = {}
        """Pods that are being evicted and that the watch has not removed yet, as the watch shows them. By uid."""
        self._succeeded: dict[str, str] = {}
        """The groups of pods that have succeeded, by uid."""

    def key(self, raw: Raw) -> str:
        return str(raw["metadata"]["uid"])

    def held(self) -> set[str]:
        """The uids of all pods that have a node, without those that are only assumed."""
        return self._cache.confirmed()

    @property
    def groups_with_successes(self) -> Collection[str]:
        """The keys of the groups of which a pod that is still there has succeeded."""
        return set(self._succeeded.values())

    def eviction_started(self, uid: str) -> None:
        """The pod counts as terminating from now on, even while the watch still shows it as before."""
        known = self._cache.placement(uid)
        if known is None or uid in self._evicted:
            return
        self._evicted[uid] = known.pods[uid]
        if not self._cache.is_assumed(uid):
            self.take(known.pods[uid])

    def eviction_ended(self, uid: str, *, deleted: bool) -> None:
        """Ends the eviction. Unless it was `deleted`, the pod is again as the watch shows it."""
        known = self._cache.placement(uid)
        if known is not None and deleted:
            return
        shown = self._evicted.pop(uid, None)
        if shown is not None and known is not None and not self._cache.is_assumed(uid):
            self.take(shown)

    def put(self, raw: Raw) -> None:
        self.put_all((raw,))

    def put_all(self, raws: Iterable[Raw]) -> None:
        """`put` for several pods. All are parsed before the first is taken, so the code of each of the two is in the
        caches of the CPU for most of them. That takes a sixth of the time off a list.
        """
        parsed: list[tuple[Raw, PodInfo, Sequence[InvalidObjectError]]] = []
        for raw in raws:
            whole = raw
            if type(raw) is PodText and (self._workloads.active or self._raw_objects.keep_pods):
                whole = raw.whole()
            try:
                parsed.append((whole, *parse_assigned_pod(whole)))
            except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
                self._invalid_objects.report("Pod", name_of(raw), error)
        for raw, pod, problems in parsed:
            try:
                self._put(raw, pod)
                for problem in problems:
                    self._invalid_objects.report("Pod", name_of(raw), problem)
            except Exception as error:  # noqa: BLE001 -- likewise
                self._invalid_objects.report("Pod", name_of(raw), error)

    def _put(self, raw: Raw, pod: PodInfo) -> None:
        unknown = self._cache.placement(pod.uid) is None
        new = unknown or self._cache.is_assumed(pod.uid)
        if pod.named_groups:
            pod = self._cache.groups.ranked(pod)
        grouped = self._workloads.active
        if grouped:
            pod = self._workloads.joined(pod, raw)
        if pod.phase == "Succeeded":
            self._has_succeeded(pod)
        self.take(pod)
        if grouped:
            self._workloads.pod_known(pod.uid)
            if pod.phase == "Succeeded":
                self._workloads.succeeded(pod)
        if unknown and self._arrivals.listener is not None and not pod.finished:
            self._arrivals.placed(pod, pod.node_name, certain=False)
        self._raw_objects.put_pod(raw)
        if new:
            self._other_instances.bound(pod, raw)

    def _has_succeeded(self, pod: PodInfo) -> None:
        groups, before = self._cache.groups, self._succeeded.pop(pod.uid, "")
        if before not in ("", pod.group):
            groups.remove_succeeded(pod.uid, before)
        if pod.group:
            self._succeeded[pod.uid] = pod.group
            groups.add_succeeded(pod)

    def take(self, pod: PodInfo) -> None:
        """Takes a pod that has a node. It confirms our own assumption, or another scheduler bound the pod."""
        started = self._metrics.start()
        cache, uid = self._cache, pod.uid
        pod = cache.groups.ranked(pod)
        if uid in self._evicted:
            self._evicted[uid] = pod
            pod = replace(pod, terminating=True, preempted=True)
        known = cache.placement(uid)
        assumed = known is not None and cache.is_assumed(uid)
        before = None if known is None or assumed else known.pods[uid]
        # A pod that we assumed may finish before the watch shows it on its node, which makes room.
        finished = known.pods[uid].on(known.name) if known is not None and assumed and pod.finished else None
        cache.set_pod(pod)
        if known is not None and pod.finished and (left := before or finished) is not None:
            self.on_left(left, known.name)
        if before is None:
            cache.groups.remove_waiting(uid)
            cache.nominator.remove(uid)
            self._status.forget(uid)
            self._recorder.forget(uid)
            if not assumed:
                self._queue.delete(uid)
        joined = not assumed if before is None else before.group != pod.group
        if joined and pod.group and cache.groups.complete(pod):
            self._queue.move(UNSCHEDULED_POD_ADD, None, pod)
        event = assigned_pod_event(before, pod) if finished is None else ASSIGNED_POD_DELETE
        if (
            event is None
            and before is not None
            and has_other_update(before, pod)
            and self._policies.has_hint_for(ASSIGNED_POD_UPDATE)
        ):
            event = ASSIGNED_POD_UPDATE
        if event is not None:
            self._happened(event, before or finished, pod, started)

    def drop(self, key: str, _raw: Raw | None) -> None:
        started = self._metrics.start()
        self._evicted.pop(key, None)
        self._cache.groups.remove_succeeded(key, self._succeeded.pop(key, ""))
        if self._workloads.active:
            self._workloads.left(key)
        self._raw_objects.remove_pod(key)
        known = self._cache.placement(key)
        if known is not None:
            before = known.pods[key]
            if before.owner is not None and before.start_time is not None and not before.terminating:
                run_times_of(self._cache).ended(before, self._wall() - before.start_time)
            self._cache.remove_pod(key)
            self.on_left(before, known.name)
            self._recorder.forget(key)
            self._decisions.forget(before.key)
            self._happened(ASSIGNED_POD_DELETE, before, None, started)
