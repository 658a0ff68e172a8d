"""The base of all streams: the state that they update, and how they report a cluster event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podwright.core.framework.cluster_events import ClusterEvent
from podwright.core.objects.raw import Raw
from podwright.engine.intake.object_changes import ASSIGNED_POD_ADD
from podwright.engine.ports import Ports
from podwright.engine.state import EngineState


class Stream:
    """See the module."""

    def __init__(self, state: EngineState, ports: Ports) -> None:
        self._cache = state.cache
        self._queue = state.queue
        self._invalid_objects = state.invalid_objects
        self._wake = state.wake
        self._metrics = ports.metrics
        self._arrivals = state.arrivals

    def _happened(self, event: ClusterEvent, before: Any, after: Any, started: float) -> None:
        """Moves the waiting pods that the event may help, and wakes the loop. `started`: when the event arrived."""
        if event is not ASSIGNED_POD_ADD:
            self._arrivals.changes += 1
        self._queue.move(event, before, after)
        self._wake()
        self._metrics.event_ended(started, event.label)


def name_of(raw: Raw) -> str:
    """`namespace/name` for log and events, with ? for a missing name."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return "?"
    name = str(metadata.get("name") or "?")
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else name
