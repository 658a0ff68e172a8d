"""Preemption carried out: victims go, the preemptor waits for them, and nobody of less importance keeps a promise of its node.

    carry_out ─► lower nominations cleared ─► victims in flight cancelled, the others evicted ─► last answer ─► preemptor released

While evictions are under way the plugin that asked for them holds the preemptor in PreEnqueue, so that it does not preempt
again for the first victim that goes. Source of the rules: kube-scheduler's asynchronous preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from podwright.core.framework.interface import HoldsPreemptors
from podwright.core.framework.profile import Point
from podwright.core.framework.runtime import Framework
from podwright.core.objects.pod import PodInfo
from podwright.core.queue import SchedulingQueue
from podwright.core.queue.queued_pod import Place
from podwright.core.state.cache import Cache
from podwright.engine.flights import Flights
from podwright.engine.metrics import Metrics
from podwright.engine.ports import Evictor, Recorder, StatusWriter

PREEMPTING: Final = "DefaultPreemption"


class Preemptions:
    """See the module."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        flights: Flights,
        recorder: Recorder,
        status: StatusWriter,
        evictor: Evictor,
        metrics: Metrics,
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._flights = flights
        self._recorder = recorder
        self._status = status
        self._evictor = evictor
        self._metrics = metrics
        self._clock = clock
        self._wake = wake

    def carry_out(self, framework: Framework, pod: PodInfo, node_name: str, victims: tuple[PodInfo, ...]) -> None:
        """The pod is nominated to the node; its victims are to make room."""
        self._metrics.preemption_victims.observe(len(victims))
        for lower in [p for p in self._cache.nominator.on(node_name) if p.priority < pod.priority]:
            self._cache.nominator.remove(lower.uid)
            self._status.write(lower, None, "")
        holders = [plugin for plugin in framework.at(Point.POST_FILTER) if isinstance(plugin, HoldsPreemptors)]
        by = getattr(holders[0], "name", PREEMPTING) if holders else PREEMPTING
        remaining = [victim for victim in victims if not self._cancelled(victim, pod, node_name, by)]
        if remaining:
            self._evict(holders, pod, node_name, remaining)

    def _cancelled(self, victim: PodInfo, pod: PodInfo, node_name: str, by: str) -> bool:
        """Whether nothing has to be deleted: the victim is going already, or was not bound yet and is not going to be."""
        if victim.terminating:
            return True
        if not self._flights.preempt(victim.uid, by):
            return False
        note = f"Preempted by pod {pod.uid} on node {node_name} (in kube-scheduler memory)."
        self._recorder.record(victim, "Normal", "Preempted", "Preempting", note, pod)
        return True

    def _evict(self, holders: Sequence[Any], pod: PodInfo, node_name: str, victims: list[PodInfo]) -> None:
        started = self._clock()
        for holder in holders:
            holder.started(pod.uid)
        awaited = {victim.uid for victim in victims}
        failed: list[str] = []

        def answered(victim: str, begun: bool) -> None:
            awaited.discard(victim)
            if not begun:
                failed.append(victim)
            if not awaited:
                for holder in holders:
                    holder.finished(pod.uid)
                self._metrics.preempted("error" if failed else "success", self._clock() - started)
                there = any(self._cache.placement(one.uid) is not None for one in victims)
                self._release(pod.uid, failed=bool(failed), there=there)

        for victim in victims:
            self._evictor.evict(victim, pod, node_name, partial(answered, victim.uid))

    def _release(self, uid: str, *, failed: bool, there: bool) -> None:
        """The preemptor need not be held any more. Mostly its last victim is still `there`, and its end will be an event;
        of a failure, and of an end that came while the preemptor was held, nobody will tell it.
        """
        queued = self._queue.get(uid)
        if queued is not None and (failed or (queued.place is Place.GATED and not there)):
            self._queue.activate(uid)
            self._wake()
