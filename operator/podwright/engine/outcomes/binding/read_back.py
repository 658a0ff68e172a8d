"""Reads pods back: the outcome of a Binding is never guessed, but read from the API server.

`ReadBack` reads one pod; the port retries until there is an answer. `UnconfirmedBindings` holds the pods that we have
bound and that the watch has not shown on their node yet; if it takes too long, they are read back too.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.intake.object_changes import ASSIGNED_POD_DELETE
from podwright.engine.ports import PodReader
from podwright.engine.records.log_fields import fields
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

CONFIRM_SECONDS: Final = 30.0
"""How long the watch may take to confirm a Binding before the pod is read back."""


class ReadBack:
    """See the module."""

    def __init__(self, pods: PodReader) -> None:
        self._pods = pods

    async def read(self, pod: PodInfo) -> PodInfo | None:
        """The pod as the API server has it; None if it is gone or another pod has its name. Never raises: see
        PodReader.
        """

        def parse(raw: Mapping[str, Any] | None) -> PodInfo | None:
            return None if raw is None or raw["metadata"].get("uid") != pod.uid else _parsed(raw, pod)

        return await self._pods.read(pod, parse)


class UnconfirmedBindings:
    """See the module. Pods are in the order in which they were bound."""

    def __init__(self, state: EngineState, reader: ReadBack, assigned: AssignedPods) -> None:
        self._state = state
        self._cache = state.cache
        self._reader = reader
        self._assigned = assigned
        self._pods: deque[tuple[float, PodInfo]] = deque()
        """Each with the time when it is to be read back, in seconds of the engine's clock."""

    def add(self, pod: PodInfo, now: float) -> None:
        """Adds a pod that we have bound and that is still assumed."""
        self._pods.append((now + CONFIRM_SECONDS, pod))

    @property
    def count(self) -> int:
        """Pods that are still assumed."""
        return sum(self._cache.is_assumed(pod.uid) for _, pod in self._pods)

    @property
    def newest(self) -> str:
        """The uid of the pod that was added last, or ""."""
        return self._pods[-1][1].uid if self._pods else ""

    async def read_back_overdue(self) -> None:
        """Reads back the pods that the watch should have shown by now; drops those that it has shown. Call it
        regularly.
        """
        now = self._state.clock()
        self._pods = deque(entry for entry in self._pods if self._cache.is_assumed(entry[1].uid))
        while self._pods and self._pods[0][0] <= now:
            _, pod = self._pods.popleft()
            if self._awaits_confirmation(pod):
                await self._read_back(pod)

    def _awaits_confirmation(self, pod: PodInfo) -> bool:
        return self._cache.is_assumed(pod.uid) and not self._state.binding_cycles.has(pod.uid)

    async def _read_back(self, pod: PodInfo) -> None:
        found = await self._reader.read(pod)
        if not self._cache.is_assumed(pod.uid):
            return
        if found is not None and found.node_name:
            self._assigned.take(found)
            return
        log.warning("a bound pod is %s", "gone" if found is None else "pending", extra=fields(pod=pod))
        placement, queue = self._cache.placement(pod.uid), self._state.queue
        self._cache.forget(pod.uid)
        queue.move(ASSIGNED_POD_DELETE, pod.on(placement.name if placement else ""), None)
        if found is None:
            self._cache.groups.remove_waiting(pod.uid)
        else:
            queue.add(self._cache.groups.ranked(found))
        self._state.wake()


def _parsed(raw: Mapping[str, Any], pod: PodInfo) -> PodInfo:
    """The pod that was read. If it can no longer be parsed: the pod as we know it, on the node that it has.

    A pod without a node goes back to the queue, so it keeps its raw object, as pods of the watch do.
    """
    node_name = raw["spec"].get("nodeName")
    try:
        found = parse_pod(raw, keep_raw=not node_name)
        return replace(found, group=found.group or pod.group)  # it may be in a group that only we know
    except InvalidObjectError as error:
        log.warning("a pod was read back, but cannot be understood", extra=fields(pod=pod, err=error))
        return pod.on(node_name) if node_name else pod
