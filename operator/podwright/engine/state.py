"""The state that the engine's parts share: cache, queue, binding cycles, and the clock.

`Engine` builds it once, and hands it to each part together with the ports (engine/ports.py). Only the
event loop's thread changes it, so there are no locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from podwright.api.permissions import PolicySettings
from podwright.core.framework.features import Features
from podwright.core.objects.dataclass import dataclass
from podwright.core.queue import SchedulingQueue
from podwright.core.state.cache import Cache
from podwright.core.state.signals import Signals
from podwright.engine.arrivals import Arrivals
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.plugins.slow_plugins import SlowPlugins
from podwright.engine.process.instance import Instance
from podwright.engine.process.quiet import Quiet
from podwright.engine.raw_objects import RawObjects
from podwright.engine.records.recent_decisions import RecentDecisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Sources of time and random numbers. `clock` never steps back; `wall` is seconds since the epoch; `cpu` is the CPU
    time in seconds of the thread that decides, `waits` the number of its voluntary context switches; `below(n)`: a
    random 0 to n - 1.
    """

    clock: Callable[[], float]
    wall: Callable[[], float]
    cpu: Callable[[], float]
    below: Callable[[int], int]
    waits: Callable[[], int] = int

    def signals(self, settings: PolicySettings) -> Signals:
        """The signals that the operator's configuration defines, without any numbers yet."""
        return Signals([*settings.signal_definitions.values()], clock=self.clock, wall=self.wall)


class OpenBindingCycles(Protocol):
    """The binding cycles in progress, as the other parts see them (engine/outcomes/binding/cycle.py implements it)."""

    def __len__(self) -> int: ...

    def has(self, uid: str) -> bool:
        """True if the pod's binding cycle is in progress."""

    def preempt(self, uid: str, plugin: str) -> bool:
        """Stops a cycle for a more important pod. False without a cycle, or if its Binding was posted already."""

    def cancel(self, uid: str, why: str) -> bool:
        """Stops a cycle. False without a cycle, or if its Binding was posted already."""

    def allow(self, uids: Iterable[str], plugin: str) -> None:
        """Lets the pods among these that wait for this Permit plugin go on."""

    def pod_left(self, uid: str) -> bool:
        """The pod left the stream of pending pods. True if we cannot have bound it, because nothing was posted for it
        yet.
        """

    def pod_returned(self, uid: str, readmit: Callable[[], None]) -> None:
        """The pod is pending again. If its cycle was stopped, the cycle calls `readmit` when it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """See the module."""

    cache: Cache
    queue: SchedulingQueue
    binding_cycles: OpenBindingCycles
    invalid_objects: InvalidObjects
    slow_plugins: SlowPlugins
    quiet: Quiet
    decisions: RecentDecisions
    features: Features
    sources: Sources
    instance: Instance
    raw_objects: RawObjects
    arrivals: Arrivals
    wake: Callable[[], None]
    """Wakes the scheduling loop: there may be a pod to schedule."""

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds that never step back."""
        return self.sources.clock
