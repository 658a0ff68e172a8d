"""Detects another process of Podwright that binds pods at the same time.

Two instances do not know what the other is about to bind, so together they can over-commit nodes. A pod counts if it is
bound after our first lists were complete, and its decision (engine/records/decision_annotation.py) names another
instance. So pods that an earlier process bound before our start do not count. An old process that still decides while
its successor runs counts, because it can do the same harm. Reports: log, an event, a metric, and `problem` for /readyz.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw
from podwright.engine.ports import Ports, Regarding
from podwright.engine.records.decision_annotation import decided_by
from podwright.engine.records.log_fields import fields
from podwright.engine.records.metrics import OTHER_INSTANCES_BINDINGS
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

REMEMBERED: Final = 100
"""How many other instances are remembered."""
QUIET_SECONDS: Final = 600.0
"""An instance that has bound no pod for this time counts as ended."""
REPORT_FACTOR: Final = 10
"""The first pod is reported, then the tenth, the hundredth, and so on."""


@dataclass(slots=True)
class _Other:
    """Another instance: how many pods it has bound, when the last one was seen (by the steady clock), and at which
    number it is reported again.
    """

    count: int = 0
    last: float = 0.0
    next_report: int = 1


class OtherInstances:
    """See the module."""

    def __init__(self, state: EngineState, ports: Ports, *, scheduler_name: str) -> None:
        """`scheduler_name`: the reporter of the events."""
        self._cache = state.cache
        self._clock = state.clock
        self._recorder = ports.recorder
        self._metrics = ports.metrics
        self._instance = state.instance
        self._scheduler_name = scheduler_name
        self._watching = False
        self._others: OrderedDict[str, _Other] = OrderedDict()
        """By id. The instance whose last Binding is the oldest comes first."""

    def watch(self) -> None:
        """Starts to count pods that others bind. Call it when the first lists are complete."""
        self._watching = True

    def bound(self, pod: PodInfo, raw: Raw) -> None:
        """Takes a pod that the watch shows on a node for the first time, as far as the cache knows, which keeps no
        finished pods.
        """
        if not self._watching or pod.finished:
            return
        instance = decided_by(raw)
        if not instance or instance == self._instance.id or not self._instance.leads():
            return  # what our successor binds, once our time is over, is its right
        now = self._clock()
        other = self._others.get(instance)
        if other is None or now > other.last + QUIET_SECONDS:
            other = self._others[instance] = _Other()
        self._others.move_to_end(instance)
        if len(self._others) > REMEMBERED:
            self._others.popitem(last=False)
        other.count += 1
        other.last = now
        self._metrics.count(OTHER_INSTANCES_BINDINGS)
        if other.count >= other.next_report:
            other.next_report *= REPORT_FACTOR
            self._report(instance, other.count, pod)

    def problem(self) -> str:
        """Returns the other instance that has bound pods lately; "" if no other has."""
        if not self._others:
            return ""
        instance = next(reversed(self._others))
        other, now = self._others[instance], self._clock()
        if now > other.last + QUIET_SECONDS:
            return ""
        return f"{_text(instance)} It has bound {_pods(other.count)}, the last {now - other.last:.0f} s ago."

    def _report(self, instance: str, count: int, pod: PodInfo) -> None:
        text = _text(instance)
        log.warning("%s It has bound %s by now", text, _pods(count), extra=fields(pod=pod, node=pod.node_name))
        self._recorder.record(self._regarding(pod.node_name), "Warning", "OtherInstance", "Scheduling", text)

    def _regarding(self, node_name: str) -> Regarding:
        """Our own Deployment if the watches have shown it, otherwise the node that the other instance has chosen."""
        # As the kubelet does, events of a node regard its name as its uid, and are in the namespace `default`.
        return self.own_deployment() or Regarding("", node_name, node_name, "", self._scheduler_name, "Node")

    def own_deployment(self) -> Regarding | None:
        """The Deployment of this process, as far as the watches have shown it."""
        name = self._scheduler_name
        own = self._own_pod()
        if own is not None and own.owner is not None and own.owner.kind == "ReplicaSet":
            replica_set = self._cache.store.get("ReplicaSet", own.owner.name, own.namespace) or {}
            for owner in (replica_set.get("metadata") or {}).get("ownerReferences") or ():
                if owner.get("kind") == "Deployment":
                    version = str(owner["apiVersion"])
                    return Regarding(own.namespace, owner["name"], owner["uid"], "", name, "Deployment", version)
        return None

    def _own_pod(self) -> PodInfo | None:
        where = self._cache.placement(self._instance.pod_uid)
        return None if where is None else where.pods[self._instance.pod_uid]


def _text(instance: str) -> str:
    return (
        f"Another instance of Podwright binds pods, too: {instance[:100]}. Together they can over-commit nodes, "
        "because neither knows "
        "what the other is about to bind. Run one at a time."
    )


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
