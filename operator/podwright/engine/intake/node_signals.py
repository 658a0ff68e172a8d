"""NodeSignals: the stream of samples from sources of signals, which also expire as time passes. Minutes: the stream of
minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from podwright.core.framework.cluster_events import SIGNAL, TIME, Action, ClusterEvent
from podwright.core.state.signals.signals import Coverage, Sample, Taken
from podwright.engine.intake.stream import Stream
from podwright.engine.ports import Ports
from podwright.engine.state import EngineState

READ_AT_ONCE: Final = 200
"""How many nodes are read at once, which takes a few milliseconds at most."""
CHANGED: Final = ClusterEvent(SIGNAL, Action.UPDATE_OTHER)
NEW_MINUTE: Final = ClusterEvent(TIME, Action.UPDATE_OTHER)


class NodeSignals(Stream):
    """See the module. Waiting pods are moved once for all values that have changed since the last tick. Nothing changes
    in a quiet time.
    """

    def __init__(self, state: EngineState, ports: Ports) -> None:
        super().__init__(state, ports)
        self._signals = state.cache.signals
        self._quiet = state.quiet
        self._known = 0
        """The last change for which waiting pods were retried."""

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self._cache.table.count

    def coverage(self, name: str) -> Coverage:
        """See Signals."""
        return self._signals.coverage(name)

    @property
    def now(self) -> float:
        """The current time, by the clock that dates samples."""
        return self._signals.now

    async def take(self, name: str, samples: Mapping[str, Sample], asked: float) -> Taken:
        """Takes the samples of a source that was asked at this time, by name of the node. Waits for the end of a quiet
        time. The caller bounds the number, because all samples are taken at once.
        """
        await self._quiet.over()
        return self._signals.take(name, samples, asked)

    async def may_change(self) -> None:
        """Waits for the end of a quiet time, in which nothing may change."""
        await self._quiet.over()

    async def read_nodes(self, names: Collection[str]) -> None:
        """Reads the annotations of all nodes for these new signals, in short steps."""
        known = [*self._cache.nodes]
        for first in range(0, len(known), READ_AT_ONCE):
            await self._quiet.over()
            part = (self._cache.nodes.get(name) for name in known[first : first + READ_AT_ONCE])
            self._signals.read(names, [info for info in part if info is not None])
            await asyncio.sleep(0)
        self.tick()

    def tick(self) -> None:
        """Drops samples that are too old, and retries waiting pods if values have changed. In a quiet time, this is
        left to the next tick.
        """
        if self._quiet:
            return
        started = self._metrics.start()
        self._signals.tick()
        seq = self._signals.changes.seq
        if seq != self._known:
            self._known = seq
            self._happened(CHANGED, None, None, started)


class Minutes(Stream):
    """Retries waiting pods in each new minute whose rules then say something else. Nothing changes in a quiet time."""

    def __init__(self, state: EngineState, ports: Ports, wall: Callable[[], float], wanted: Callable[[], bool]) -> None:
        """`wall` gives seconds since the epoch. `wanted`: whether a pod may wait for a minute."""
        super().__init__(state, ports)
        self._quiet = state.quiet
        self._wall = wall
        self._wanted = wanted
        self._minute = self._now()

    def _now(self) -> int:
        return int(self._wall() // 60)

    def tick(self) -> None:
        """Reports a new minute. In a quiet time, this is left to the next tick."""
        before, minute = self._minute, self._now()
        if minute == before or self._quiet:
            return
        self._minute = minute
        if self._wanted():
            self._happened(NEW_MINUTE, before, minute, self._metrics.start())
