"""The handle with which the scheduler's plugins are built: the parts of the scheduler that they may use."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from podwright.core.framework.features import Features
from podwright.core.framework.interface import Cluster, EventType, WaitingPod
from podwright.core.framework.observer import NO_OBSERVER, Observer
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.engine.ports import Recorder


@dataclass(slots=True, kw_only=True)
class EngineHandle:
    """The handle that plugins are built with. `clock` gives seconds since the epoch."""

    cache: Cache
    features: Features
    cluster: Cluster
    clock: Callable[[], float]
    waiting: Callable[[], Collection[WaitingPod]] = tuple
    recorder: Recorder | None = None
    observer: Observer = NO_OBSERVER

    def now(self) -> float:
        return self.clock()

    def waiting_pods(self) -> Collection[WaitingPod]:
        return self.waiting()

    def record(self, pod: PodInfo, kind: EventType, reason: str, note: str) -> None:
        if self.recorder is not None:
            self.recorder.record(pod, kind, reason, "Scheduling", note)
