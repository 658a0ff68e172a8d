"""Raw objects in: parsed, taken into the cache and the queue, and turned into the cluster events that wake waiting pods.

One class for each stream; each has the shape of a reflector's sink (`key`, `put`, `drop`) and never raises, whatever the object
is. An object that cannot be understood leaves what was known of it in force. Pending pods come through `PendingPods`
whichever way they are watched; a pod that leaves that stream was bound or is gone, which only the cache can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

from podwright.core.framework.cluster_events import ClusterEvent
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME, PodInfo, parse_pod
from podwright.core.objects.watched_kinds import trimmed, unchanged
from podwright.core.queue import SchedulingQueue
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.object_store import key_of
from podwright.engine.gangs.foreign_pods import ForeignPods
from podwright.engine.intake.object_changes import (
    MEMBER_ADDED,
    NODE_DELETED,
    POD_GONE,
    POD_WENT_ON,
    assigned_pod_event,
    node_event,
    object_event,
    same_node,
    went_on,
)
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.metrics.plugins import Stopwatch
from podwright.engine.ports import Recorder, Regarding, StatusWriter

Raw = Mapping[str, Any]

CAME: Final = "UnscheduledPodAdd"
CHANGED: Final = "UnscheduledPodUpdate"
WENT: Final = "UnscheduledPodDelete"
PolicyOf = Callable[[PodInfo], object]
"""What decides about a pod: the same object for as long as it is the same policy."""
NAMESPACE: Final = "Namespace"


class BindingCycles(Protocol):
    """The pods whose binding is under way."""

    def gone(self, uid: str) -> bool:
        """The pod left the pending ones. True if it cannot have been bound by us: nothing was posted for it yet."""

    def back(self, uid: str, again: Callable[[], None]) -> None:
        """The pod is among the pending ones again. If it had left them, `again` takes it in once its binding has ended."""


class Nodes:
    """The stream of nodes, by name."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        invalid_objects: InvalidObjects,
        wake: Callable[[], None],
        watch: Stopwatch,
        gone: Callable[[NodeInfo], None],
    ) -> None:
        """`gone` is told of each node that goes."""
        self._watch = watch
        self._cache = cache
        self._queue = queue
        self._invalid_objects = invalid_objects
        self._wake = wake
        self._gone = gone

    def key(self, raw: Raw) -> str:
        return str(raw["metadata"]["name"])

    def put(self, raw: Raw) -> None:
        started = self._watch.start()
        try:
            node = parse_node(raw)
            known = self._cache.present(node.name)
            before = None if known is None else known.node
            if before is not None and same_node(before, node):
                return
            self._cache.set_node(node)
            event = node_event(before, node)
            if event is not None:
                self._queue.move(event, before, node)
                if before is None:
                    self._count_members(node.name)
                self._wake()
                self._watch.stop(event.label, started)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._invalid_objects.about("Node", _name(raw), error)

    def _count_members(self, node_name: str) -> None:
        """Members of groups on a node count from now on, which may make their groups complete."""
        info = self._cache.present(node_name)
        for member in {pod.group: pod for pod in info.pods.values() if pod.group}.values() if info else ():
            if self._cache.groups.complete(member):
                self._queue.move(MEMBER_ADDED, None, member)

    def drop(self, key: str, _raw: Raw | None) -> None:
        started = self._watch.start()
        known = self._cache.present(key)
        if known is not None:
            before = known.node
            self._cache.remove_node(key)
            self._gone(known)
            self._queue.move(NODE_DELETED, before, None)
            self._wake()
            self._watch.stop(NODE_DELETED.label, started)


class AssignedPods:
    """The stream of pods with a node, of every scheduler, by uid."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        status: StatusWriter,
        recorder: Recorder,
        invalid_objects: InvalidObjects,
        wake: Callable[[], None],
        listens: Callable[[ClusterEvent], bool],
        watch: Stopwatch,
    ) -> None:
        self._listens = listens
        self._watch = watch
        self._cache = cache
        self._queue = queue
        self._status = status
        self._recorder = recorder
        self._invalid_objects = invalid_objects
        self._wake = wake
        self._going: set[str] = set()

    def key(self, raw: Raw) -> str:
        return str(raw["metadata"]["uid"])

    def held(self) -> set[str]:
        """The uids of all pods that are taken to have a node, but for those that we have only just put there."""
        return self._cache.confirmed()

    def going(self, uid: str) -> None:
        """We have deleted the pod: it counts as terminating from now on, also while the watch shows it as it was before."""
        known = self._cache.placement(uid)
        if known is not None and not self._cache.is_assumed(uid):
            self._going.add(uid)
            self.take(known.pods[uid])

    def put(self, raw: Raw) -> None:
        try:
            self.take(parse_pod(raw))
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._invalid_objects.about("Pod", _name(raw), error)

    def take(self, pod: PodInfo) -> None:
        """The pod has a node: it is confirmed where we put it, or was put there by somebody else."""
        started = self._watch.start()
        cache, uid = self._cache, pod.uid
        if uid in self._going:
            pod = replace(pod, terminating=True, preempted=True)
        known = cache.placement(uid)
        ours = known is not None and cache.is_assumed(uid)
        before = None if known is None or ours else known.pods[uid]
        # One that we placed, and that has finished before we saw it there, makes room.
        ended = known.pods[uid].on(known.name) if known is not None and ours and pod.finished else None
        cache.set_pod(pod)
        if before is None:
            cache.groups.remove_waiting(uid)
            cache.nominator.remove(uid)
            self._status.forget(uid)
            self._recorder.forget(uid)
            if not ours:
                self._queue.delete(uid)
                if pod.group and cache.groups.complete(pod):
                    self._queue.move(MEMBER_ADDED, None, pod)
        event = assigned_pod_event(before, pod) if ended is None else POD_GONE
        if event is None and before is not None and went_on(before, pod) and self._listens(POD_WENT_ON):
            event = POD_WENT_ON
        if event is not None:
            self._queue.move(event, before or ended, pod)
            self._wake()
            self._watch.stop(event.label, started)

    def drop(self, key: str, _raw: Raw | None) -> None:
        started = self._watch.start()
        self._going.discard(key)
        known = self._cache.placement(key)
        if known is not None:
            before = known.pods[key]
            self._cache.remove_pod(key)
            self._recorder.forget(key)
            self._queue.move(POD_GONE, before, None)
            self._wake()
            self._watch.stop(POD_GONE.label, started)


class PendingPods:
    """The stream of pods without a node that are for us, by uid."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        status: StatusWriter,
        recorder: Recorder,
        binding_cycles: BindingCycles,
        invalid_objects: InvalidObjects,
        wake: Callable[[], None],
        serves: Callable[[str], bool],
        policy_of: PolicyOf,
        foreign_pods: ForeignPods,
        watch: Stopwatch,
    ) -> None:
        self._watch = watch
        self._foreign_pods = foreign_pods
        self._cache = cache
        self._queue = queue
        self._status = status
        self._recorder = recorder
        self._binding_cycles = binding_cycles
        self._invalid_objects = invalid_objects
        self._wake = wake
        self._serves = serves
        self._policy_of = policy_of

    def is_ours(self, raw: Raw) -> bool:
        """Whether a pod asks for a scheduler that we are, and has no node. Never raises."""
        spec = raw.get("spec")
        if not isinstance(spec, Mapping):
            return False
        name = spec.get("schedulerName") or KUBERNETES_DEFAULT_SCHEDULER_NAME
        return isinstance(name, str) and not spec.get("nodeName") and self._serves(name)

    def key(self, raw: Raw) -> str:
        return str(raw["metadata"]["uid"])

    def knows(self, uid: str) -> bool:
        """Whether the pod is in the queue, in flight or placed."""
        return self._queue.get(uid) is not None or self._cache.placement(uid) is not None

    def waiting(self) -> set[str]:
        """The uids of the pods that have no place yet."""
        return {uid for uid in self._queue.uids() if self._cache.placement(uid) is None}

    def put(self, raw: Raw) -> None:
        if not self.is_ours(raw):
            self._foreign_pods.seen(raw)
            return
        try:
            self._take(parse_pod(raw, keep_raw=True), raw)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._refuse(raw, error)

    def take_event(self, event: Raw) -> None:
        """A watch event as it came; its type is None for what a list brought."""
        raw = event["object"]
        if event["type"] == "DELETED":
            self.drop(self.key(raw), raw)
        else:
            self.put(raw)

    def _take(self, pod: PodInfo, raw: Raw) -> None:
        uid, started = pod.uid, self._watch.start()
        if pod.finished:
            # Evicted before it had a node, say: it is not to be bound any more.
            if self._queue.get(uid) is not None:
                self.drop(uid, raw)
            return
        queued = self._queue.get(uid)
        if self._cache.placement(uid) is not None:
            if queued is not None:
                self._changed_in_flight(queued.pod, pod, raw)
            else:
                self._binding_cycles.back(uid, lambda: self.put(raw))
            return
        self._status.seen(uid, raw)
        if self._foreign_pods:
            self._foreign_pods.left(uid)
        self._cache.groups.add_waiting(pod)
        before = None if queued is None else queued.pod
        promised = "" if before is None else before.nominated_node_name
        nominator = self._cache.nominator
        if pod.nominated_node_name:
            nominator.add(pod, pod.nominated_node_name)
        elif nominator.node_of(uid) and (promised or before is None):
            nominator.remove(uid)
        self._update(before, pod)
        joined = before is None or before.group != pod.group
        # Others of a group that was complete already are none the wiser: whether it changes anything, its own attempt tells.
        if joined and pod.group and self._cache.groups.just_completed(pod):
            self._queue.move(MEMBER_ADDED, None, pod, spare=uid)
        if before is not None and promised not in ("", pod.nominated_node_name):
            # Others, no more important than it, were kept off that node for its sake.
            self._queue.move(POD_GONE, before.on(promised), None, up_to_priority=before.priority)
        self._wake()
        self._watch.stop(CAME if before is None else CHANGED, started)

    def _changed_in_flight(self, before: PodInfo, pod: PodInfo, raw: Raw) -> None:
        """Should it come back, it comes back as it is now. One that is being deleted is not bound any more."""
        self._status.seen(pod.uid, raw)
        self._cache.groups.add_waiting(pod)
        self._update(before, pod)
        if pod.terminating:
            self._binding_cycles.gone(pod.uid)

    def _update(self, before: PodInfo | None, pod: PodInfo) -> None:
        """Into the queue. A label may put the pod under another policy, whose verdict is not known yet."""
        self._queue.update(pod)
        if (
            before is not None
            and before.labels is not pod.labels
            and self._policy_of(before) is not self._policy_of(pod)
        ):
            self._queue.reconsider(pod.uid)

    def _refuse(self, raw: Raw, error: Exception) -> None:
        text = self._invalid_objects.about("Pod", _name(raw), error)
        if text is not None and isinstance(raw.get("metadata"), Mapping):
            self._recorder.record(_regarding(raw), "Warning", "FailedScheduling", "Scheduling", text)

    def drop(self, key: str, _raw: Raw | None) -> None:
        if self._foreign_pods:
            self._foreign_pods.left(key)
        if self._cache.placement(key) is not None and not self._binding_cycles.gone(key):
            return
        started = self._watch.start()
        self._status.forget(key)
        self._recorder.forget(key)
        self._queue.delete(key)
        self._cache.groups.remove_waiting(key)
        nominator = self._cache.nominator
        if node_name := nominator.node_of(key):
            pod = next(pod for pod in nominator.on(node_name) if pod.uid == key)
            nominator.remove(key)
            self._queue.move(POD_GONE, pod, None, up_to_priority=pod.priority)
        self._wake()
        self._watch.stop(WENT, started)


class Objects:
    """The stream of one kind of the object store, by namespace and name."""

    def __init__(
        self,
        kind: str,
        cache: Cache,
        queue: SchedulingQueue,
        invalid_objects: InvalidObjects,
        wake: Callable[[], None],
        watch: Stopwatch,
    ) -> None:
        self._watch = watch
        self._kind = kind
        self._cache = cache
        self._queue = queue
        self._invalid_objects = invalid_objects
        self._wake = wake

    def key(self, raw: Raw) -> str:
        metadata = raw["metadata"]
        return f"{metadata.get('namespace') or ''}/{metadata['name']}"

    def put(self, raw: Raw) -> None:
        started = self._watch.start()
        try:
            kept = trimmed(self._kind, raw)
            namespace, name = key_of(kept)
            before = self._cache.store.get(self._kind, name, namespace)
            if before is not None and unchanged(self._kind, before, kept):
                return
            self._set(kept)
            self._moved(before, kept, started)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._invalid_objects.about(self._kind, _name(raw), error)

    def drop(self, key: str, _raw: Raw | None) -> None:
        namespace, _, name = key.partition("/")
        before = self._cache.store.get(self._kind, name, namespace)
        if before is not None:
            started = self._watch.start()
            self._remove(name, namespace)
            self._moved(before, None, started)

    def _set(self, kept: Raw) -> None:
        self._cache.set_object(self._kind, kept)

    def _remove(self, name: str, namespace: str) -> None:
        self._cache.remove_object(self._kind, name, namespace)

    def _moved(self, before: Raw | None, after: Raw | None, started: float) -> None:
        event = object_event(self._kind, before, after)
        self._queue.move(event, before, after)
        self._wake()
        self._watch.stop(event.label, started)


class Namespaces(Objects):
    """The stream of namespaces, whose labels say which policies decide about their pods."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        invalid_objects: InvalidObjects,
        wake: Callable[[], None],
        policy_of: PolicyOf,
        watch: Stopwatch,
    ) -> None:
        super().__init__(NAMESPACE, cache, queue, invalid_objects, wake, watch)
        self._policy_of = policy_of

    def _set(self, kept: Raw) -> None:
        metadata = kept["metadata"]
        with self._labelled(metadata["name"], metadata.get("labels") or {}):
            super()._set(kept)

    def _remove(self, name: str, namespace: str) -> None:
        with self._labelled(name, {}):
            super()._remove(name, namespace)

    @contextmanager
    def _labelled(self, name: str, labels: object) -> Iterator[None]:
        """The namespace gets these labels; its pods that are under another policy then are tried again."""
        pods = () if labels == self._cache.namespace_labels(name) else self._queue.undecided(name)
        before = [(pod, self._policy_of(pod)) for pod in pods]
        yield
        for pod, policy in before:
            if self._policy_of(pod) is not policy:
                self._queue.reconsider(pod.uid)


def _name(raw: Raw) -> str:
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return "?"
    name = str(metadata.get("name") or "?")
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else name


def _regarding(raw: Raw) -> Regarding:
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    return Regarding(
        str(metadata.get("namespace") or "default"),
        str(metadata.get("name") or "?"),
        str(metadata.get("uid") or ""),
        str(metadata.get("resourceVersion") or ""),
        str(spec.get("schedulerName") or KUBERNETES_DEFAULT_SCHEDULER_NAME),
    )
