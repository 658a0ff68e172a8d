"""NodeSignals: the stream of what sources say about nodes, and the time that passes for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podwright.core.framework.cluster_events import SIGNAL, Action, ClusterEvent
from podwright.core.state.signals.signals import Coverage, Sample, Taken
from podwright.engine.intake.stream import Stream
from podwright.engine.ports import Ports
from podwright.engine.state import EngineState

CHANGED: Final = ClusterEvent(SIGNAL, Action.UPDATE_OTHER)


class NodeSignals(Stream):
    """See the module. Waiting pods are moved once for all values that have changed since the last tick. Nothing changes in a quiet time."""

    def __init__(self, state: EngineState, ports: Ports) -> None:
        super().__init__(state, ports)
        self._signals = state.cache.signals
        self._quiet = state.slices.quiet
        self._known = 0
        """Which changes the waiting pods know."""

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self._cache.table.count

    def coverage(self, name: str) -> Coverage:
        """See Signals."""
        return self._signals.coverage(name)

    @property
    def now(self) -> float:
        """The time by which samples are dated."""
        return self._signals.now

    async def take(self, name: str, samples: Mapping[str, Sample], asked: float) -> Taken:
        """A source that was asked then has said this about nodes, by name. Waits for the end of a quiet time.

        Bounded by the caller, since it is done at once.
        """
        await self._quiet.over()
        return self._signals.take(name, samples, asked)

    def tick(self) -> None:
        """Drops what is too old, and lets the waiting pods know what has changed. A quiet time puts that off to the next tick."""
        if self._quiet:
            return
        started = self._metrics.start()
        self._signals.tick()
        seq = self._signals.changes.seq
        if seq != self._known:
            self._known = seq
            self._happened(CHANGED, None, None, started)
