"""SchedulingQueue: the active, backoff, unschedulable and gated pods, and the pods in flight.

    add ──► active ──pop──► in flight ──done──► (gone)
              ▲  ▲              │ reject / fault
              │  └── backoff ◄──┴──► unschedulable ── move (an event that may help) ──► backoff or active
    gated ────┘ (an event that the gating plugin registered for, `recheck_gate`, and every 5 minutes)

Invariants: a pod is in exactly one place; events that arrive while a pod is in flight are checked when its attempt
fails; no pod stays unschedulable longer than `Waits.max_unschedulable`. The caller passes the clock in. Sources:
KEP-4247, kube-scheduler's documentation of backoff.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from podwright.core.framework.cluster_events import ANY, ASSIGNED_POD, Action, ClusterEvent
from podwright.core.framework.cost import AttemptCost
from podwright.core.framework.observer import NO_OBSERVER, Observer
from podwright.core.framework.status import Status
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.pod import PodInfo
from podwright.core.queue.active_pods import ActivePods
from podwright.core.queue.backoff_pods import BackoffPods
from podwright.core.queue.fair_pods import MANY, QueueOrder
from podwright.core.queue.hinting import EVERYTHING_CHANGED, Hinting, Hints, Occurrence, skips_backoff
from podwright.core.queue.in_flight import InFlight
from podwright.core.queue.queued_pod import DEFAULT_WAITS, Place, QueuedPod, Waits
from podwright.core.queue.room import HeldBack, RoomCheck, is_held, lacks_room, misled, still_lacks_room, unchecked
from podwright.core.queue.updates import pod_update
from podwright.core.queue.waiting_pods import WaitingPods

POD_ADD: Final = "UnscheduledPodAdd"
ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POPPED_EARLY: Final = "PopFromBackoffQ"
TIMEOUT: Final = "UnschedulableTimeout"
FORCED: Final = "ForceActivate"
"""Why a pod enters a part of the queue, in the words of the metric `scheduler_queue_incoming_pods_total`."""
FLUSH_INTERVAL: Final = 30.0
"""Seconds between two searches for pods that have waited for `Waits.max_unschedulable`."""
DUE_INTERVAL: Final = 1.0
"""Seconds between retries without an event while these help pods."""
SOON_INTERVAL: Final = 5.0
"""Seconds after such a retry until `retry_due_soon` makes another one."""
NAMES_PER_TURN: Final = 256
"""How many held-back pods are checked at a time for still naming the right bound."""
GATES_PER_TURN: Final = 256
"""How many gated pods are checked at a time for whether an event opens their gates, at up to 25 us each."""
EVENTS_PER_GATE: Final = 8
"""The most events that are kept for a gated pod until it is looked at. With more, everything may have changed."""
PODS_A_STEP: Final = 1000
"""Pods that are counted at once, which takes about a millisecond."""
POD_LEFT: Final = ClusterEvent(ASSIGNED_POD, Action.DELETE)
"""For those who wait, a pod that did not use its room is like one that left it."""


class SchedulingQueue:
    """See the module. `hints_of(pod)` must return the same mapping object for all pods of one profile.

    The queue reports to `observer` each pod that enters a queue (`scheduler_queue_incoming_pods_total`, which counts
    gated pods as unschedulable), and a sample of the calls of hints.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        sort_key: Callable[[PodInfo, float], Any],
        pre_enqueue: Callable[[PodInfo], Status | None],
        hints_of: Callable[[PodInfo], Hints],
        *,
        estimate: Callable[[PodInfo], AttemptCost | None] = lambda _pod: None,
        room_checks: Callable[[], RoomCheck] = lambda: unchecked,
        also_due: Callable[[], Iterable[str]] = tuple,
        observer: Observer = NO_OBSERVER,
        waits: Waits = DEFAULT_WAITS,
    ) -> None:
        """`room_checks` makes the check for one event: events do not retry a member of a group that has no room.
        `also_due`: uids of pods that may be retried without an event, asked every FLUSH_INTERVAL seconds, and
        DUE_INTERVAL seconds after it has helped a pod.
        """
        self._clock = clock
        self._sort_key = sort_key
        self._pre_enqueue = pre_enqueue
        self._hints_of = hints_of
        self._estimate = estimate
        self._observer = observer
        self._hinting = Hinting(hints_of, observer)
        self._waits = waits
        self._pods: dict[str, QueuedPod] = {}
        self._active = ActivePods(clock)
        self._backoff = BackoffPods()
        self._waiting = WaitingPods()
        self._in_flight = InFlight()
        self._order: QueueOrder | None = None
        self._events = 0
        self._unused: list[PodInfo] = []
        """The pods that were tried again because a bound of their queue admitted them, and did not use its room."""
        self._offered: dict[str, HeldBack] = {}
        """By the highest queue: those to which such room is offered that have not been tried since the last event."""
        self._named: list[QueuedPod] = []
        """The pods whose bounds may have given way to others since the last event."""
        self._named_label = ""
        self._names_due = 0
        """At how many of these is to be looked: from the last one on at which that was done, and round."""
        self._looked_at = 0
        """At how many that was done so far."""
        self._to_open: dict[str, list[Occurrence]] = {}
        """By uid: the gated pods that events may help, until that is looked at."""
        self._last_due = clock()
        """When pods were last retried without an event."""
        self._next_flush = self._next_due = self._due_again = self._last_due + FLUSH_INTERVAL
        self._due: list[str] = []
        """The uids of the pods that were retried last without an event. Others are at `_due_again`, or soon if that has
        helped one of them.
        """
        self._room_checks = room_checks
        self._also_due = also_due
        compact_regularly(self)

    def order_by(self, order: QueueOrder | None) -> None:
        """Active pods are ordered by their queues from now on, or, with None, only by the QueueSort plugin."""
        self._active.order_by(order)
        self._order = order
        for known in (self._unused, self._offered, self._named):
            known.clear()
        self._names_due = 0

    # Intake

    def add(self, pod: PodInfo) -> None:
        """Adds a pending pod, or updates it if it is known."""
        if pod.uid in self._pods:
            self.update(pod)
            return
        now = self._clock()
        queued = self._pods[pod.uid] = QueuedPod(pod=pod, queued_at=now, timestamp=now, cost=self._estimate(pod))
        self._activate(queued, POD_ADD)

    def update(self, pod: PodInfo) -> None:
        """Stores a changed pending pod. Retries a rejected pod if the change may help it. Adds an unknown pod."""
        queued = self._pods.get(pod.uid)
        if queued is None:
            self.add(pod)
            return
        self._open_gate(pod.uid)
        before, queued.pod = queued.pod, pod
        if before.group != pod.group:
            queued.bound = None
            self._waiting.hold(queued, None)
        event = pod_update(before, pod)
        if event is None:
            return
        queued.cost = self._estimate(pod)
        if queued.place is Place.IN_FLIGHT:
            self._record(event, before, pod, only=pod.uid)
        elif queued.place is Place.ACTIVE:
            self._push(queued)
        elif queued.place is Place.BACKOFF:
            self._back_off(queued)
        else:
            self._waiting.updated(queued)
            self._requeue_if_helped(queued, Occurrence(event, before, pod, pod.uid))

    def delete(self, uid: str) -> None:
        """Removes a pod that was deleted or bound. An unknown uid is not an error."""
        queued = self._remove(uid)
        if queued is not None:
            self._leave(queued)
            self._in_flight.end(uid)
            self._attempt_over(queued)

    # Attempts

    def pop(self, *, if_sorted: bool = False) -> QueuedPod | None:
        """The next pod to schedule, which is in flight from now on, or None.

        If none is due, a rejected pod leaves backoff early. A costly pod, and one whose attempt ended in an error, does
        not. `if_sorted`: None while `is_unsorted`, also because backoffs have ended.
        """
        if self._to_open and if_sorted:
            return None
        self._open_gates(len(self._to_open))
        fair = self._active.fair if if_sorted and len(self._pods) > MANY else None
        self._flush(None if fair is None else MANY + 1)
        if fair is not None and fair.is_unsorted:
            return None
        queued = self._active.pop()
        if queued is None:
            queued = self._backoff.pop_early()
            if queued is None:
                return None
            self._observer.pod_queued(Place.ACTIVE.value, POPPED_EARLY)
        return self._start_attempt(queued)

    @property
    def is_unsorted(self) -> bool:
        """True if `pop` would put many pods in their queues of teams, or open many gates, at once: call `sort`
        first.
        """
        fair = self._active.fair
        return bool(self._to_open) or (fair is not None and fair.is_unsorted)

    def sort(self) -> Generator[None, None, None]:
        """Opens gates, so that `pop` finds a gang with all of its members, and puts active pods in their queues of
        teams. Yields between two steps, in which everything may change.
        """
        while self.is_unsorted:
            while self._to_open:
                self._open_gates(GATES_PER_TURN)
                yield
            if (fair := self._active.fair) is not None and fair.is_unsorted:
                yield from fair.sort()
                self._flush(MANY + 1)

    def pop_costly(self) -> QueuedPod | None:
        """Pops another pod of the lane, which is to be decided together with the one before, or None: also while
        `is_unsorted`.
        """
        queued = None if self.is_unsorted else self._active.pop_costly()
        return None if queued is None else self._start_attempt(queued)

    def take(self, uid: str) -> QueuedPod | None:
        """Pops this pod out of turn, because another member of its group was popped.

        None if the pod is unknown, in flight or gated, or was gated before its first attempt.
        """
        self._open_gate(uid)
        queued = self._pods.get(uid)
        if queued is None or queued.place is Place.IN_FLIGHT or (queued.place is Place.GATED and not queued.rejectors):
            return None
        self._leave(queued)
        gated = queued.place is not Place.ACTIVE and self._is_gated(queued, FORCED)
        return None if gated else self._start_attempt(queued)

    def next_wakeup(self) -> float | None:
        """The clock time at which `pop` may return a pod; None if only an event can change that."""
        now = self._clock()
        due = [time for time in (self._active.due(now), self._backoff.due(now)) if time is not None]
        if now in due or self._unused or self._names_due or self._to_open:
            return now
        if self._waiting:
            due.append(min(self._next_flush, self._next_due))
        return min(due, default=None)

    def done(self, uid: str) -> None:
        """Removes a pod whose attempt succeeded."""
        queued = self._remove(uid)
        self._in_flight.end(uid)
        if queued is not None:
            self._attempt_over(queued)

    def back_off_with(self, queued: QueuedPod, member: QueuedPod) -> None:
        """Returns a popped pod without an attempt, because its group is in backoff: it waits until this member's
        backoff ends.

        The pod has no rejecting plugins, so `pop` does not take it out of backoff early.
        """
        if not self._give_up_attempt(queued):
            return
        queued.rejections = max(queued.rejections, member.rejections)
        queued.errors = max(queued.errors, member.errors)
        queued.unschedulable_plugins = queued.pending_plugins = frozenset()
        queued.backoff_until = member.backoff_until
        queued.place = Place.BACKOFF
        self._back_off(queued)
        self._observer.pod_queued(Place.BACKOFF.value, ATTEMPT_FAILED)

    def wait_for_room(self, members: Sequence[QueuedPod]) -> bool:
        """Returns popped members of a group without an attempt, if others use the room meanwhile for which an event has
        retried them. What their last attempt said of them stays, and their place in the order. Returns whether that is
        so; not of those that a bound of their queue held back, because the room that the bound admits counts as theirs.
        """
        check = self._room_checks()
        bound = "" if self._order is None else self._order.plugin
        if not all(
            member.for_room and bound not in member.unschedulable_plugins and still_lacks_room(member, check)
            for member in members
        ):
            return False
        for member in members:
            member.attempts -= 1
            self._fail(member, attempted=False)
        return True

    def move_to_front(self, queued: QueuedPod) -> None:
        """Moves an active pod before all others of its priority."""
        if queued.place is Place.ACTIVE:
            queued.timestamp = 0.0
            self._push(queued)

    def wait_in_lane(self, queued: QueuedPod, members: Iterable[QueuedPod]) -> None:
        """Returns a popped pod without a decision: it and the active ones of these members of its group wait in the
        lane.
        """
        for member in members:
            if member.place is Place.ACTIVE:
                member.slow = True
                self._push(member)
        if self._give_up_attempt(queued):
            queued.slow = True
            self._activate(queued, ATTEMPT_FAILED)

    def hold(self, queued: QueuedPod, lane: Hashable) -> None:
        """Returns a popped pod without an attempt, because what it needs is in use: it stays active, but `pop` leaves
        it out.
        """
        if self._give_up_attempt(queued):
            queued.place = Place.ACTIVE
            self._active.hold(queued, self._sort_key(queued.pod, queued.timestamp), lane)

    def release(self, lane: Hashable) -> bool:
        """Lets `pop` return the first pod held in this lane. False if the lane holds no pod."""
        return self._active.release(lane)

    @property
    def held_lanes(self) -> Sequence[Hashable]:
        """The lanes in which pods are held."""
        return self._active.held_lanes

    def _give_up_attempt(self, queued: QueuedPod) -> bool:
        """Ends an attempt that did not take place. False if the pod is gone."""
        self._in_flight.end(queued.uid)
        if self._pods.get(queued.uid) is not queued:
            return False
        queued.attempts -= 1
        return True

    def charge_lane(self, seconds: float) -> None:
        """An attempt at a costly pod, or what else counts to the lane's share of the time, took that long: see
        ActivePods.
        """
        self._active.charge(seconds)

    @property
    def lane_is_busy(self) -> bool:
        """True if pods of the lane are being decided, so that `pop` returns no others."""
        return self._active.is_busy

    @lane_is_busy.setter
    def lane_is_busy(self, busy: bool) -> None:
        self._active.is_busy = busy

    @property
    def lane_opens_at(self) -> float | None:
        """When the lane of costly pods opens or has opened, by the clock; None until it opens for the first time."""
        return self._active.opens_at

    def stop_recording(self, uid: str) -> None:
        """Stops recording events for a pod whose Binding is being posted, and which therefore is unlikely to be
        retried.

        The pod stays in flight. If its attempt fails after this, that counts as an error, because the queue no longer
        knows which events the pod has missed.
        """
        self._in_flight.end(uid)

    def reject(
        self, queued: QueuedPod, plugins: Iterable[str], pending: Iterable[str] = (), *, count: bool = True
    ) -> None:
        """Returns a pod for which no node was feasible. `plugins` rejected it; `pending` rejected it with the code
        Pending.

        If an event since `pop` may help, the pod goes to backoff or active at once. After `stop_recording`, or if no
        plugin rejected the pod (there was no node), this is a fault. With `count=False` the backoff does not grow (the
        pod waits for a reason that is not its own).
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
        """Returns a pod whose attempt failed with an error: it is retried after its backoff, whatever events arrive."""
        if self._pods.get(queued.uid) is not queued:
            self._in_flight.end(queued.uid)
            return
        queued.errors += 1
        queued.unschedulable_plugins = queued.pending_plugins = frozenset()
        self._fail(queued)

    def _fail(self, queued: QueuedPod, *, attempted: bool = True) -> None:
        self._attempt_over(queued)
        if attempted:
            queued.room_in_vain = queued.for_room
        queued.was_flushed = queued.for_room = False
        if attempted:
            queued.timestamp = self._clock()
            queued.start_backoff(self._waits)
        helped = at_once = False
        if queued.rejectors:
            helped, at_once = self._hinting.helped_meanwhile(queued, self._in_flight.missed(queued.uid))
        self._in_flight.end(queued.uid)
        if helped or not queued.rejectors:
            self._retry(queued, ATTEMPT_FAILED, skip_backoff=at_once)
        else:
            self._wait(queued)

    # Events

    def move(
        self,
        event: ClusterEvent,
        before: Any = None,
        after: Any = None,
        *,
        exclude: str = "",
        up_to_priority: int | None = None,
    ) -> None:
        """Retries the waiting pods that this event may help.

        `exclude`: the uid of a pod to leave out. `up_to_priority`: leave out pods of higher priority.
        """
        self._events += 1
        self._offered.clear()
        occurrence = Occurrence(event, before, after)
        self._in_flight.record(occurrence)
        if not self._waiting:
            return
        check, order = self._room_check(event), None if event.resource == ANY else self._order
        held: list[QueuedPod] = []
        refused = dict[Hashable, bool]()

        def still_held(bound: Hashable, queued: QueuedPod) -> bool:
            """True if the limit that the pod named still refuses it, so that it is left out at once."""
            if bound not in refused:
                refused[bound] = order is not None and order.refuses(bound, queued.pod)
            return refused[bound]

        self._renew_bounds()
        for queued in self._waiting.candidates(occurrence, still_held=still_held):
            if queued.uid == exclude or (up_to_priority is not None and queued.pod.priority > up_to_priority):
                continue
            if queued.place is Place.GATED:
                events = self._to_open.setdefault(queued.uid, [])
                if len(events) == EVENTS_PER_GATE:
                    events[-1] = Occurrence(EVERYTHING_CHANGED, None, None)
                else:
                    events.append(occurrence)
            elif order is not None and is_held(queued, order):
                # A bound holds all gangs alike that name it; a pod may have changed since it named its own.
                if not (
                    still_held(queued.bound, queued) if queued.pod.group else order.refuses(queued.bound, queued.pod)
                ):
                    held.append(queued)
            elif lacks_room(queued, check):
                queued.room_in_vain = False
            else:
                self._retry_waiting(queued, occurrence, check)
        self._open_gates(GATES_PER_TURN)
        if order is None or not held:
            return
        self._retry_in_turn(HeldBack(held, rank=self._rank, turns=order), check, occurrence)
        self._named, self._named_label = [each for each in held if not each.pod.group], event.label
        self._names_due = len(self._named)

    def activate(self, uid: str) -> None:
        """Retries the pod without backoff, unless it is gated. An unknown uid, or that of a pod in flight, is not an
        error.
        """
        queued = self._waiting_pod(uid)
        if queued is None:
            return
        self._leave(queued)
        self._activate(queued, FORCED)

    def recheck_gate(self, uid: str) -> None:
        """Runs PreEnqueue for a pod again, because its answer has changed without an event. If the gate is open now, a
        waiting pod still waits for the events of the plugins that rejected it. Ignores an unknown pod, and one in
        flight.
        """
        self._open_gate(uid)
        queued = self._pods.get(uid)
        if queued is None or queued.place is Place.IN_FLIGHT:
            return
        if queued.place in (Place.ACTIVE, Place.BACKOFF):
            if self._pre_enqueue(queued.pod) is not None:
                self._leave(queued)
                self._is_gated(queued, ATTEMPT_FAILED)
            return
        self._leave(queued)
        queued.place = Place.GATED  # metrics have counted the pod when it began to wait
        if not self._is_gated(queued, ""):
            queued.place = Place.UNSCHEDULABLE
            self._waiting.add(queued, queued.rejectors, self._hints_of(queued.pod))

    def retry_due_soon(self) -> None:
        """Something has happened that may help pods that may be retried without an event."""
        soon = max(self._clock() + DUE_INTERVAL, self._last_due + SOON_INTERVAL)
        self._due_again = min(self._due_again, soon)
        self._next_due = min(self._next_due, soon)

    def fail_waiting(self, uid: str) -> None:
        """Retries a waiting pod after the backoff of an error, because what it waited for has failed. Ignores an
        unknown or active pod.
        """
        queued = self._waiting_pod(uid)
        if queued is None:
            return
        self._leave(queued)
        queued.errors += 1
        queued.unschedulable_plugins = queued.pending_plugins = frozenset()
        queued.timestamp = self._clock()
        queued.start_backoff(self._waits)
        self._retry(queued, ATTEMPT_FAILED, skip_backoff=False)

    def reconsider(self, uid: str) -> None:
        """Retries one pod because another policy now applies to it. An unknown uid is not an error."""
        queued = self._waiting_pod(uid)
        if queued is not None and queued.place in (Place.UNSCHEDULABLE, Place.GATED):
            self._requeue_if_helped(queued, Occurrence(EVERYTHING_CHANGED, None, None))

    def _waiting_pod(self, uid: str) -> QueuedPod | None:
        """The pod, if it waits. A pod in flight is marked to be retried instead."""
        self._open_gate(uid)
        queued = self._pods.get(uid)
        if queued is None or queued.place is Place.ACTIVE:
            return None
        if queued.place is Place.IN_FLIGHT:
            self._record(EVERYTHING_CHANGED, None, None, only=uid)
            return None
        return queued

    def activate_all(self) -> None:
        """Retries every rejected pod: the plugins that rejected them may no longer apply."""
        self.move(EVERYTHING_CHANGED)

    def reconsider_moved(self, namespaces: Collection[str] | None = None) -> Generator[None, None, None]:
        """Retries the pods whose queueing hints have changed since they began to wait, because another policy decides
        now.

        `namespaces`: of their pods; None: of all. Yields after each pod; anything may happen then.
        """
        self._record(EVERYTHING_CHANGED, None, None)
        occurrence = Occurrence(EVERYTHING_CHANGED, None, None)
        for queued in [*self._waiting]:
            ours = namespaces is None or queued.pod.namespace in namespaces
            if ours and queued.hints is not None and self._hints_of(queued.pod) is not queued.hints:
                self._requeue_if_helped(queued, occurrence)
            yield

    def counts(self) -> dict[str, int]:
        """The number of pods by queue, as in `scheduler_pending_pods`."""
        return {
            Place.ACTIVE.value: len(self._active),
            Place.BACKOFF.value: len(self._backoff),
            Place.UNSCHEDULABLE.value: self._waiting.unschedulable,
            Place.GATED.value: self._waiting.gated,
        }

    def rejected_by(self) -> Generator[None, None, Counter[tuple[str, ...]]]:
        """Returns how many waiting pods each plugin rejected in their last attempt, or gates, by (plugin, scheduler
        name). In steps, as `tally`.
        """
        return self.tally(QueuedPod.held_back_by)

    def tally(
        self, keys_of: Callable[[QueuedPod], Iterable[tuple[str, ...]]]
    ) -> Generator[None, None, Counter[tuple[str, ...]]]:
        """Returns how many of the pods have each key. Looks at `PODS_A_STEP` pods in each step.

        The queue may change between two steps: pods that are added are not counted, and those that are gone are left
        out.
        """
        uids, total = self.uids(), Counter[tuple[str, ...]]()
        for start in range(0, len(uids), PODS_A_STEP):
            for queued in map(self._pods.get, uids[start : start + PODS_A_STEP]):
                if queued is not None:
                    total.update(keys_of(queued))
            yield
        return total

    def in_flight_events(self) -> Mapping[str, int]:
        """The events recorded for pods in flight, by label; the label `PodPopped` counts the pods themselves."""
        return self._in_flight.counts()

    def get(self, uid: str) -> QueuedPod | None:
        """The pod with this uid, in the queue or in flight, or None."""
        return self._pods.get(uid)

    def active(self) -> list[QueuedPod]:
        """The active pods, in no particular order."""
        return list(self._active)

    def first_active(self) -> QueuedPod | None:
        """The active pod that `pop` returns next, or None."""
        return self._active.first()

    @property
    def costly(self) -> int:
        """The number of active pods in the lane of costly pods."""
        return self._active.costly

    def undecided(self, namespace: str) -> list[PodInfo]:
        """The namespace's pods that wait for an event or are in flight: those that `reconsider` can affect."""
        in_flight = (self._pods[uid] for uid in self._in_flight if uid in self._pods)
        candidates = (*self._waiting, *in_flight)
        return [queued.pod for queued in candidates if queued.pod.namespace == namespace]

    def uids(self) -> list[str]:
        """The uids of all pods in the queue or in flight."""
        return list(self._pods)

    def __len__(self) -> int:
        return len(self._pods)

    # Internals

    def _requeue_if_helped(self, queued: QueuedPod, occurrence: Occurrence, *, at_once: bool = False) -> None:
        """`at_once`: without backoff."""
        plugins = {queued.gated_by} if queued.place is Place.GATED else queued.rejectors
        helped = self._hinting.helped(plugins, queued, occurrence)
        if helped:
            label = self._hinting.label(helped, queued, occurrence)
            self._leave(queued)
            self._retry(queued, label, skip_backoff=at_once or skips_backoff(queued, helped, occurrence))

    def _room_check(self, event: ClusterEvent) -> RoomCheck:
        return unchecked if event.resource == ANY else self._room_checks()

    def _retry_waiting(self, queued: QueuedPod, occurrence: Occurrence, check: RoomCheck) -> None:
        """Retries a pod that no bound holds back, if the event may help it. `check`: of the event."""
        order = None if occurrence.event.resource == ANY else self._order
        gathers = order is not None and not queued.room_in_vain and order.gathers_room(queued.pod)
        self._requeue_if_helped(queued, occurrence, at_once=gathers)
        queued.for_room = check is not unchecked and queued.place in (Place.ACTIVE, Place.BACKOFF)

    def _open_gates(self, most: int) -> None:
        """Retries some of the gated pods that an event may help. The members of a gang may be thousands."""
        for uid in [*islice(self._to_open, most)]:
            self._open_gate(uid)

    def _open_gate(self, uid: str) -> None:
        """Retries a gated pod that events may help, before anything else happens to it. Ignores all others."""
        for occurrence in self._to_open.pop(uid, ()):
            queued = self._pods[uid]
            if queued.place is Place.GATED:
                self._retry_waiting(queued, occurrence, self._room_check(occurrence.event))

    def _renew_bounds(self) -> None:
        """Finds the bounds of gangs again that others may hold back now. A pod says which one does when it is tried."""
        for uid in () if self._order is None else self._order.take_changed_bounds():
            queued = self._pods.get(uid)
            if queued is not None:
                if queued.pod.group:
                    queued.bound = self._bound_of(queued)
                self._waiting.hold(queued, queued.bound if queued.pod.group else None)

    def _retry_in_turn(self, held: HeldBack, check: RoomCheck, occurrence: Occurrence) -> None:
        """Retries those of the pods held back by bounds of queues that these admit now."""
        order = self._order
        assert order is not None, "pods are held back by bounds of queues"
        for queued in held.in_turn(check, self._is_untried):
            self._requeue_if_helped(queued, occurrence, at_once=queued.unschedulable_plugins == {order.plugin})
            if queued.place in (Place.ACTIVE, Place.BACKOFF):
                order.try_again(queued.pod)

    def _is_untried(self, queued: QueuedPod) -> bool:
        """True if a bound holds the pod back, and it has not been tried since the last event."""
        return (
            queued.events_seen != self._events
            and self._pods.get(queued.uid) is queued
            and self._order is not None
            and is_held(queued, self._order)
        )

    def _retry_misled(self) -> None:
        """Retries some of the pods whose bound has given way to another one, to name that."""
        order, count = self._order, min(self._names_due, NAMES_PER_TURN)
        first = self._looked_at % len(self._named)
        some = self._named[first : first + count]
        some += self._named[: count - len(some)]
        self._looked_at += count
        self._names_due -= count
        if order is not None:
            for queued in [*misled((each for each in some if self._pods.get(each.uid) is each), order)]:
                self._leave(queued)
                self._retry(queued, self._named_label, skip_backoff=False)

    def _attempt_over(self, queued: QueuedPod) -> None:
        if self._order is not None and self._order.tried(queued.uid):
            self._unused.append(queued.pod)

    def _promises_ended(self, pods: Sequence[PodInfo], order: QueueOrder) -> None:
        """Offers the room that was promised to these pods, also to pods tried since the last event: the promise kept
        events from offering it.
        """
        self._events += 1
        self._offered.clear()
        self._unused += pods
        for pod in {order.top_of(pod): pod for pod in pods}.values():
            self._in_flight.record(Occurrence(POD_LEFT, pod, None))

    def _offer_unused(self) -> None:
        """Offers room that pods did not use to those that have not been tried since the last event: the others found
        that it is not enough for them.
        """
        unused, self._unused = self._unused, []
        order = self._order
        if order is None or not unused:
            return
        self._renew_bounds()
        for top, pod in {order.top_of(pod): pod for pod in unused}.items():
            occurrence = Occurrence(POD_LEFT, pod, None)
            if top not in self._offered:
                waiting = self._waiting.candidates(occurrence, order.plugin)
                untried = [*filter(self._is_untried, waiting)]
                self._offered[top] = HeldBack(untried, rank=self._rank, turns=order)
                self._named = [*dict.fromkeys((*self._named, *(each for each in untried if not each.pod.group)))]
            self._names_due, self._named_label = len(self._named), POD_LEFT.label
            self._retry_in_turn(self._offered[top], self._room_checks(), occurrence)

    def _rank(self, queued: QueuedPod) -> Any:
        return self._sort_key(queued.pod, queued.timestamp)

    def _start_attempt(self, queued: QueuedPod) -> QueuedPod:
        queued.events_seen = self._events
        queued.place = Place.IN_FLIGHT
        queued.attempts += 1
        self._in_flight.begin(queued.uid)
        return queued

    def _activate(self, queued: QueuedPod, event: str) -> None:
        """Moves the pod to active, unless it is gated."""
        if self._is_gated(queued, event):
            return
        queued.place = Place.ACTIVE
        if queued.ready_at is None:
            queued.ready_at = self._clock()
        elif self._order is not None and self._order.holds_room(queued.pod):
            queued.timestamp = queued.queued_at  # those who came later and have not been tried yet do not go before it
        self._push(queued)
        self._observer.pod_queued(Place.ACTIVE.value, event)

    def _push(self, queued: QueuedPod) -> None:
        self._active.push(queued, self._rank(queued))

    def _retry(self, queued: QueuedPod, event: str, *, skip_backoff: bool) -> None:
        if skip_backoff or not queued.backing_off(self._clock()):
            self._activate(queued, event)
        elif not self._is_gated(queued, event):
            queued.place = Place.BACKOFF
            self._back_off(queued)
            self._observer.pod_queued(Place.BACKOFF.value, event)

    def _back_off(self, queued: QueuedPod) -> None:
        self._backoff.push(queued, self._rank(queued))

    def _is_gated(self, queued: QueuedPod, event: str) -> bool:
        status = self._pre_enqueue(queued.pod)
        if status is None:
            queued.gated_by = ""
            return False
        self._attempt_over(queued)
        queued.gated_by = status.plugin
        if queued.place is not Place.GATED:
            self._observer.pod_queued(Place.UNSCHEDULABLE.value, event)
        queued.was_flushed = False  # a later retry will be due to an event
        queued.place = Place.GATED
        self._waiting.add(queued, (status.plugin,), self._hints_of(queued.pod))
        return True

    def _wait(self, queued: QueuedPod) -> None:
        queued.place = Place.UNSCHEDULABLE
        queued.bound = self._bound_of(queued)
        held = self._order is not None and is_held(queued, self._order)
        if held and queued.events_seen != self._events:
            self._offered.clear()  # room is offered to this one, too
        self._waiting.add(queued, queued.rejectors, self._hints_of(queued.pod))
        self._observer.pod_queued(Place.UNSCHEDULABLE.value, ATTEMPT_FAILED)

    def _bound_of(self, queued: QueuedPod) -> Any:
        """The bound that holds the pod back. None for a gang that may start without an event for all of its plugins: it
        is tried whatever holds it back.
        """
        order = self._order
        if order is None or not is_held(queued, order) or (queued.pod.group and queued.pending_plugins):
            return None
        return order.bound_of(queued.pod)

    def _remove(self, uid: str) -> QueuedPod | None:
        queued = self._pods.pop(uid, None)
        self._to_open.pop(uid, None)
        if not self._pods:
            self._pods.clear()  # an empty dict keeps the capacity that a burst needed
        return queued

    def _leave(self, queued: QueuedPod) -> None:
        """Removes the pod from the queue that it is in."""
        if queued.place is Place.ACTIVE:
            self._active.remove(queued.uid)
        elif queued.place is Place.BACKOFF:
            self._backoff.remove(queued.uid)
        else:
            self._waiting.remove(queued)

    def _flush(self, most: int | None) -> None:
        """`most`: how many pods may leave backoff; None: all."""
        if (order := self._order) is not None and order.ended_promises and (ended := order.take_ended_promises()):
            self._promises_ended(ended, order)
        if self._unused:
            self._offer_unused()
        if self._names_due:
            self._retry_misled()
        now = self._clock()
        for queued in islice(self._backoff.pop_expired(now), most):
            self._activate(queued, BACKOFF_COMPLETE)
        if now >= self._next_due:
            self._retry_due(now)
        if now >= self._next_flush:
            self._next_flush = now + FLUSH_INTERVAL
            self._waiting.drop_empty()
            self._hinting.clear()
            for queued in [*self._waiting]:
                if now - max(queued.timestamp, queued.flushed_at) > self._waits.max_unschedulable:
                    queued.flushed_at, queued.was_flushed = now, True
                    self._leave(queued)
                    self._retry(queued, TIMEOUT, skip_backoff=False)

    def _retry_due(self, now: float) -> None:
        """Retries pods that are due without an event. If that has helped any of the last ones, others follow soon."""
        tried = [*map(self._pods.get, self._due)]
        helped = any(queued is None or queued.place is Place.GATED for queued in tried)
        if not helped and now < self._due_again:
            decided = all(queued is not None and queued.place is Place.UNSCHEDULABLE for queued in tried)
            self._next_due = self._due_again if decided else min(self._due_again, now + DUE_INTERVAL)
            return
        found = [queued for queued in map(self._pods.get, self._also_due()) if queued is not None]
        due = [queued for queued in found if queued.place is Place.UNSCHEDULABLE]
        for queued in due:
            self._leave(queued)
            self._retry(queued, TIMEOUT, skip_backoff=False)
        for queued in found:
            if queued.place is Place.IN_FLIGHT:  # its attempt may have been decided on what was so before
                self._record(EVERYTHING_CHANGED, None, None, only=queued.uid)
        self._due = [queued.uid for queued in due]
        self._last_due, self._due_again = now, now + FLUSH_INTERVAL
        self._next_due = now + (DUE_INTERVAL if due else FLUSH_INTERVAL)

    def _record(self, event: ClusterEvent, before: Any, after: Any, only: str = "") -> None:
        self._in_flight.record(Occurrence(event, before, after, only))
