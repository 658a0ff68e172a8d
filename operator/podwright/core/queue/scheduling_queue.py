"""SchedulingQueue: active, backoff, unschedulable and gated pods, and those in flight.

    add ──► active ──pop──► in flight ──done──► (gone)
              ▲  ▲              │ reject / fault
              │  └── backoff ◄──┴──► unschedulable ── move (an event that may help) ──► backoff or active
    gated ────┘ (an event that its gate's plugin asked for, and every 5 minutes)

Invariants: a pod is in exactly one place; an event that comes while a pod is in flight is looked at when its attempt
fails; no pod stays unschedulable for longer than `Waits` says. A pure state machine: the clock is passed in. Source of the
rules: KEP-4247 (queueing hints) and kube-scheduler's documented backoff.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from podwright.core.framework.cluster_events import ANY, ClusterEvent
from podwright.core.framework.status import Status
from podwright.core.objects.pod import PodInfo
from podwright.core.queue.heap import KeyedHeap
from podwright.core.queue.hinting import EVERYTHING_CHANGED, Happened, Hinting, Hints, OnHint, registered
from podwright.core.queue.in_flight import InFlight
from podwright.core.queue.queued_pod import DEFAULT_WAITS, Place, QueuedPod, Waits
from podwright.core.queue.updates import pod_update

FLUSH_INTERVAL: Final = 30.0

_POD_ADD: Final = "UnscheduledPodAdd"
_ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"
_BACKOFF_COMPLETE: Final = "BackoffComplete"
_POPPED_EARLY: Final = "PopFromBackoffQ"
_TIME_IS_UP: Final = "UnschedulableTimeout"
_FORCED: Final = "ForceActivate"


class SchedulingQueue:
    """See the module. `hints_of(pod)` must return the same mapping object for pods of one profile.

    `on_incoming(queue, event)` is called whenever a pod enters a queue (`scheduler_queue_incoming_pods_total`, where
    gated pods are unschedulable ones); `on_hint` see hinting.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        sort_key: Callable[[PodInfo, float], Any],
        pre_enqueue: Callable[[PodInfo], Status | None],
        hints_of: Callable[[PodInfo], Hints],
        *,
        on_incoming: Callable[[str, str], None] = lambda _queue, _event: None,
        on_hint: OnHint = lambda _plugin, _event, _result, _seconds: None,
        waits: Waits = DEFAULT_WAITS,
    ) -> None:
        self._clock = clock
        self._sort_key = sort_key
        self._pre_enqueue = pre_enqueue
        self._hints_of = hints_of
        self._on_incoming = on_incoming
        self._hinting = Hinting(clock, hints_of, on_hint)
        self._waits = waits
        self._pods: dict[str, QueuedPod] = {}
        self._active: KeyedHeap[QueuedPod] = KeyedHeap()
        self._backoff: KeyedHeap[QueuedPod] = KeyedHeap()
        self._error_backoff: KeyedHeap[QueuedPod] = KeyedHeap()
        self._waiting: dict[str, QueuedPod] = {}
        self._gated: dict[str, QueuedPod] = {}
        self._buckets: dict[tuple[int, str], tuple[Hints, dict[str, QueuedPod]]] = {}
        self._in_flight = InFlight()
        self._next_flush = clock() + FLUSH_INTERVAL

    # Intake

    def add(self, pod: PodInfo) -> None:
        """A pending pod appeared; one that is known is updated."""
        if pod.uid in self._pods:
            self.update(pod)
            return
        now = self._clock()
        queued = self._pods[pod.uid] = QueuedPod(pod, now, now)
        self._activate(queued, _POD_ADD)

    def update(self, pod: PodInfo) -> None:
        """A pending pod changed. A rejected one is tried again if the change may help it; an unknown one is added."""
        queued = self._pods.get(pod.uid)
        if queued is None:
            self.add(pod)
            return
        before, queued.pod = queued.pod, pod
        event = pod_update(before, pod)
        if event is None:
            return
        if queued.place is Place.IN_FLIGHT:
            self._record(event, before, pod, only=pod.uid)
        elif queued.place is Place.ACTIVE:
            self._active.push(pod.uid, self._sort_key(pod, queued.timestamp), queued)
        elif queued.place is Place.BACKOFF:
            self._back_off(queued)
        else:
            self._requeue_if_worth(queued, Happened(event, before, pod, pod.uid))

    def delete(self, uid: str) -> None:
        """The pod is gone or has a node. One that is not known is no error."""
        queued = self._remove(uid)
        if queued is not None:
            self._leave(queued)
            self._in_flight.end(uid)

    # Attempts

    def pop(self) -> QueuedPod | None:
        """The next pod to try, now in flight; None if there is none.

        With nothing active, a rejected pod is taken out of its backoff early; one whose attempt was an error is not.
        """
        self._flush()
        queued = self._active.pop()
        if queued is None:
            queued = self._backoff.pop()
            if queued is None:
                return None
            self._on_incoming(Place.ACTIVE.value, _POPPED_EARLY)
        return self._depart(queued)

    def take(self, uid: str) -> QueuedPod | None:
        """Takes this pod out of its turn; it is now in flight, because another one of its group was popped.

        None if it is not known, in flight or held by a gate.
        """
        queued = self._pods.get(uid)
        if queued is None or queued.place in (Place.IN_FLIGHT, Place.GATED):
            return None
        self._leave(queued)
        held = queued.place is not Place.ACTIVE and self._is_held(queued, _FORCED)
        return None if held else self._depart(queued)

    def next_wakeup(self) -> float | None:
        """When `pop` may have something, by the clock; None if only an event can help."""
        if len(self._active) or len(self._backoff):
            return self._clock()
        due = [head[0][0] + 1.0 for heap in (self._error_backoff,) if (head := heap.peek()) is not None]
        if self._waiting or self._gated:
            due.append(self._next_flush)
        return min(due, default=None)

    def done(self, uid: str) -> None:
        """The attempt ended well: the pod leaves the queue."""
        self._remove(uid)
        self._in_flight.end(uid)

    def join(self, queued: QueuedPod, fellow: QueuedPod) -> None:
        """Hands a popped pod back untried: its group backs off, and it waits as long as this fellow member, who is backing off.

        It is not taken out of that backoff early, since whoever comes next would be, too.
        """
        self._in_flight.end(queued.uid)
        if self._pods.get(queued.uid) is not queued:
            return
        queued.attempts -= 1
        queued.rejections = max(queued.rejections, fellow.rejections)
        queued.errors = max(queued.errors, fellow.errors)
        queued.unschedulable_plugins = queued.pending_plugins = frozenset()
        queued.backoff_until = fellow.backoff_until
        queued.place = Place.BACKOFF
        self._back_off(queued)
        self._on_incoming(Place.BACKOFF.value, _ATTEMPT_FAILED)

    def hasten(self, queued: QueuedPod) -> None:
        """An active pod goes before others of its importance, as if it had come first of all."""
        if queued.place is Place.ACTIVE:
            queued.timestamp = 0.0
            self._active.push(queued.uid, self._sort_key(queued.pod, queued.timestamp), queued)

    def settle(self, uid: str) -> None:
        """The attempt stands, and only the outside can undo it: what happens is not recorded for the pod any more.

        It stays in flight. Whatever it then fails for counts as an error, because nobody knows what it has missed.
        """
        self._in_flight.end(uid)

    def reject(
        self, queued: QueuedPod, plugins: Iterable[str], pending: Iterable[str] = (), *, count: bool = True
    ) -> None:
        """No node was feasible. `plugins` rejected the pod; `pending` are those that did so as Pending.

        An event since `pop` that may help sends the pod straight to backoff or active. After `settle`, or if nobody rejected it
        (there was no node to ask about), it is a fault. `count=False` leaves the backoff as it is (a pod held for a reason
        that is not its own).
        """
        if self._pods.get(queued.uid) is not queued:
            self._in_flight.end(queued.uid)
            return
        rejecting, waiting = frozenset(plugins), frozenset(pending)
        if queued.uid not in self._in_flight or not (rejecting or waiting):
            self.fault(queued)
            return
        queued.errors = 0
        queued.rejections += 1 if count else 0
        queued.unschedulable_plugins, queued.pending_plugins = rejecting, waiting
        self._fail(queued)

    def fault(self, queued: QueuedPod) -> None:
        """The attempt failed with an error: it is tried again after its backoff, whatever happens."""
        if self._pods.get(queued.uid) is not queued:
            self._in_flight.end(queued.uid)
            return
        queued.errors += 1
        queued.unschedulable_plugins = queued.pending_plugins = frozenset()
        self._fail(queued)

    def _fail(self, queued: QueuedPod) -> None:
        queued.timestamp = self._clock()
        queued.was_flushed = False
        queued.start_backoff(self._waits)
        helped = at_once = False
        if queued.rejectors:
            helped, at_once = self._helped_meanwhile(queued)
        self._in_flight.end(queued.uid)
        if helped or not queued.rejectors:
            self._retry(queued, _ATTEMPT_FAILED, skip_backoff=at_once)
        else:
            self._wait(queued)

    def _helped_meanwhile(self, queued: QueuedPod) -> tuple[bool, bool]:
        """Whether something may have helped the pod while it was in flight, and if so, whether it skips its backoff."""
        rejectors, helped = queued.rejectors, False
        for event, occurrences in self._in_flight.missed(queued.uid):
            asked = self._hinting.asked(rejectors, queued.pod, event)
            for happened in occurrences if asked else ():
                if plugins := self._hinting.worth(asked, queued.pod, happened):
                    helped = True
                    at_once = _skips_backoff(queued, plugins, happened)
                    if at_once or not queued.pending_plugins:
                        return True, at_once
        return helped, False

    # Events

    def move(
        self,
        event: ClusterEvent,
        before: Any = None,
        after: Any = None,
        *,
        spare: str = "",
        up_to_priority: int | None = None,
    ) -> None:
        """Something happened in the cluster: pods that it may help are queued again.

        But for the one with the uid `spare`, and those of a priority above `up_to_priority`.
        """
        self._record(event, before, after)
        happened = Happened(event, before, after)
        for queued in self._candidates(event):
            if queued.uid != spare and (up_to_priority is None or queued.pod.priority <= up_to_priority):
                self._requeue_if_worth(queued, happened)

    def activate(self, uid: str) -> None:
        """The pod is tried again without backoff, unless a gate holds it; one that is unknown or in flight is no error."""
        queued = self._called(uid)
        if queued is None:
            return
        self._leave(queued)
        self._activate(queued, _FORCED)

    def fail(self, uid: str) -> None:
        """What the pod waited for has failed: it is tried again after the backoff of an error; unknown or active is no error."""
        queued = self._called(uid)
        if queued is None:
            return
        self._leave(queued)
        queued.errors += 1
        queued.unschedulable_plugins = queued.pending_plugins = frozenset()
        queued.timestamp = self._clock()
        queued.start_backoff(self._waits)
        self._retry(queued, _ATTEMPT_FAILED, skip_backoff=False)

    def reconsider(self, uid: str) -> None:
        """Another policy decides about this pod now: what `activate_all` does for all, for one; unknown is no error."""
        queued = self._called(uid)
        if queued is not None and queued.place in (Place.UNSCHEDULABLE, Place.GATED):
            self._requeue_if_worth(queued, Happened(EVERYTHING_CHANGED, None, None))

    def _called(self, uid: str) -> QueuedPod | None:
        """The pod, if it waits. For one in flight it is noted that it is to be tried again."""
        queued = self._pods.get(uid)
        if queued is None or queued.place is Place.ACTIVE:
            return None
        if queued.place is Place.IN_FLIGHT:
            self._record(EVERYTHING_CHANGED, None, None, only=uid)
            return None
        return queued

    def activate_all(self) -> None:
        """Queues every rejected pod again: a policy changed, so what rejected them may no longer be in force."""
        self.move(EVERYTHING_CHANGED)

    def counts(self) -> dict[str, int]:
        """Pods by queue, as `scheduler_pending_pods` shows them."""
        return {
            Place.ACTIVE.value: len(self._active),
            Place.BACKOFF.value: len(self._backoff) + len(self._error_backoff),
            Place.UNSCHEDULABLE.value: len(self._waiting),
            Place.GATED.value: len(self._gated),
        }

    def rejected_by(self) -> Mapping[tuple[str, str], int]:
        """How many pods each plugin has rejected in their last attempt, or holds, by (plugin, scheduler name)."""
        counted: Counter[tuple[str, str]] = Counter()
        for queued in self._pods.values():
            if queued.place is not Place.IN_FLIGHT:
                for plugin in queued.rejectors | ({queued.gated_by} if queued.gated_by else set()):
                    counted[plugin, queued.pod.scheduler_name] += 1
        return counted

    def in_flight_events(self) -> Mapping[str, int]:
        """What is kept for pods in flight: events by label, and the pods themselves as `PodPopped`."""
        return self._in_flight.counts()

    def get(self, uid: str) -> QueuedPod | None:
        """A pod that is in the queue or in flight."""
        return self._pods.get(uid)

    def undecided(self, namespace: str) -> list[PodInfo]:
        """The namespace's pods that wait for an event or are in flight: those to which `reconsider` does something."""
        flying = (self._pods[uid] for uid in self._in_flight if uid in self._pods)
        candidates = (*self._waiting.values(), *self._gated.values(), *flying)
        return [queued.pod for queued in candidates if queued.pod.namespace == namespace]

    def uids(self) -> list[str]:
        """All pods that are in the queue or in flight."""
        return list(self._pods)

    def __len__(self) -> int:
        return len(self._pods)

    # Internals

    def _candidates(self, event: ClusterEvent) -> list[QueuedPod]:
        if event.resource == ANY:
            return [*self._waiting.values(), *self._gated.values()]
        found: dict[str, QueuedPod] = {}
        for (_, plugin), (hints, pods) in self._buckets.items():
            if pods and registered(hints, plugin, event):
                found.update(pods)
        return list(found.values())

    def _requeue_if_worth(self, queued: QueuedPod, happened: Happened) -> None:
        plugins = {*queued.rejectors, queued.gated_by} if queued.place is Place.GATED else queued.rejectors
        helped = self._hinting.worth(plugins, queued.pod, happened)
        if helped:
            label = self._hinting.label(helped, queued.pod, happened)
            self._leave(queued)
            self._retry(queued, label, skip_backoff=_skips_backoff(queued, helped, happened))

    def _depart(self, queued: QueuedPod) -> QueuedPod:
        queued.place = Place.IN_FLIGHT
        queued.attempts += 1
        self._in_flight.begin(queued.uid)
        return queued

    def _activate(self, queued: QueuedPod, event: str) -> None:
        """Into active, unless a gate holds it."""
        if self._is_held(queued, event):
            return
        queued.place = Place.ACTIVE
        if queued.ready_at is None:
            queued.ready_at = self._clock()
        self._active.push(queued.uid, self._sort_key(queued.pod, queued.timestamp), queued)
        self._on_incoming(Place.ACTIVE.value, event)

    def _retry(self, queued: QueuedPod, event: str, *, skip_backoff: bool) -> None:
        if skip_backoff or not queued.backing_off(self._clock()):
            self._activate(queued, event)
        elif not self._is_held(queued, event):
            queued.place = Place.BACKOFF
            self._back_off(queued)
            self._on_incoming(Place.BACKOFF.value, event)

    def _back_off(self, queued: QueuedPod) -> None:
        """Into its heap. Backoffs end on whole seconds, and of those that end together the most important pod goes first."""
        heap = self._backoff if queued.rejectors else self._error_backoff
        heap.push(queued.uid, (queued.backoff_until, self._sort_key(queued.pod, queued.timestamp)), queued)

    def _is_held(self, queued: QueuedPod, event: str) -> bool:
        status = self._pre_enqueue(queued.pod)
        if status is None:
            queued.gated_by = ""
            return False
        queued.gated_by = status.plugin
        if queued.place is not Place.GATED:
            self._on_incoming(Place.UNSCHEDULABLE.value, event)
        queued.was_flushed = False  # time did not help it; what does later is an event
        queued.place = Place.GATED
        self._gated[queued.uid] = queued
        self._index(queued, {status.plugin, *queued.rejectors})
        return True

    def _wait(self, queued: QueuedPod) -> None:
        queued.place = Place.UNSCHEDULABLE
        self._waiting[queued.uid] = queued
        self._index(queued, queued.rejectors)
        self._on_incoming(Place.UNSCHEDULABLE.value, _ATTEMPT_FAILED)

    def _index(self, queued: QueuedPod, plugins: Iterable[str]) -> None:
        hints = self._hints_of(queued.pod)
        for plugin in plugins:
            key = (id(hints), plugin)
            if key not in self._buckets:
                self._buckets[key] = (hints, {})
            pods = self._buckets[key][1]
            pods[queued.uid] = queued
            queued.buckets.append(pods)

    def _remove(self, uid: str) -> QueuedPod | None:
        queued = self._pods.pop(uid, None)
        if not self._pods:
            for kept in (self._pods, self._waiting, self._gated):
                kept.clear()  # they are empty, but keep the room that a burst took
        return queued

    def _leave(self, queued: QueuedPod) -> None:
        """Takes the pod out of the queue it is in."""
        uid = queued.uid
        for heap in (self._active, self._backoff, self._error_backoff):
            heap.remove(uid)
        self._waiting.pop(uid, None)
        self._gated.pop(uid, None)
        for bucket in queued.buckets:
            bucket.pop(uid, None)
        queued.buckets.clear()

    def _flush(self) -> None:
        now = self._clock()
        for heap in (self._backoff, self._error_backoff):
            while (head := heap.peek()) is not None and not head[1].backing_off(now):
                heap.remove(head[1].uid)
                self._activate(head[1], _BACKOFF_COMPLETE)
        if now >= self._next_flush:
            self._next_flush = now + FLUSH_INTERVAL
            self._buckets = {key: bucket for key, bucket in self._buckets.items() if bucket[1]}
            self._hinting.forget()
            for queued in [*self._waiting.values(), *self._gated.values()]:
                if now - max(queued.timestamp, queued.flushed_at) > self._waits.max_unschedulable:
                    queued.flushed_at, queued.was_flushed = now, True
                    self._leave(queued)
                    self._retry(queued, _TIME_IS_UP, skip_backoff=False)

    def _record(self, event: ClusterEvent, before: Any, after: Any, only: str = "") -> None:
        self._in_flight.record(Happened(event, before, after, only))


def _skips_backoff(queued: QueuedPod, helped: set[str], happened: Happened) -> bool:
    """An event of which a plugin that said Pending asked to be told; what helps everybody helps after backoff."""
    return happened.event.resource != ANY and bool(helped & queued.pending_plugins)


__all__ = ["DEFAULT_WAITS", "EVERYTHING_CHANGED", "QueuedPod", "SchedulingQueue", "Waits"]
