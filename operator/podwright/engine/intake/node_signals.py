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
    """See the module. Waiting pods are moved once for all values that have changed since the last tick."""

    def __init__(self, state: EngineState, ports: Ports) -> None:
        super().__init__(state, ports)
        self._signals = state.cache.signals
        self._known = 0
        """Which changes the waiting pods know."""

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self._cache.table.count

    def coverage(self, name: str) -> Coverage:
        """See Signals."""
        return self._signals.coverage(name)

    def take(self, name: str, samples: Mapping[str, Sample]) -> Taken:
        """A source has said this about nodes, by name. Bounded by the caller, since it is done at once."""
        return self._signals.take(name, samples)

    def tick(self) -> None:
        """Drops what is too old, and lets the waiting pods know what has changed."""
        started = self._metrics.start()
        self._signals.tick()
        seq = self._signals.changes.seq
        if seq != self._known:
            self._known = seq
            self._happened(CHANGED, None, None, started)
