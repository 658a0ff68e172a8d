"""DynamicResources: rejects pods that need devices, because this version does not allocate devices.

Such pods have `spec.resourceClaims`, or request an extended resource that a DeviceClass provides and no node offers. Profiles that
disable the plugin reject them, too, because they must not be bound without their devices. For other pods the plugin does what
kube-scheduler's does for pods without claims: it skips Filter and scores all nodes 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.durations import parse_duration
from podwright.core.framework.helpers import rejected_alike
from podwright.core.framework.interface import (
    CycleState,
    Diagnosis,
    EnqueueExtensions,
    Feasible,
    FilterPlugin,
    FilterResult,
    Handle,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

_STATE: Final = "DynamicResources"
_DEVICE_CLASS: Final = "DeviceClass"
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Each DeviceClass provides the extended resource with this prefix and its name."""


@dataclass(frozen=True, slots=True)
class DynamicResourcesArgs:
    """Timeouts for the search for devices on a node and for binding them. Checked, but without effect in this version."""

    filter_timeout: str = "10s"
    binding_timeout: str = "600s"

    def validate(self, where: str) -> Iterable[tuple[str, str]]:
        """The problems that kube-scheduler would report, as (field path, problem)."""
        yield from _too_short(self.filter_timeout, 0.0, f"{where}.filterTimeout", "must be zero or positive")
        yield from _too_short(self.binding_timeout, 1.0, f"{where}.bindingTimeout", "must be at least 1 second")


def _too_short(text: str, least: float, where: str, problem: str) -> Iterable[tuple[str, str]]:
    try:
        if parse_duration(text) < least:
            yield where, f'Invalid value: "{text}": {problem}'
    except ValueError as error:
        yield where, str(error)


class DynamicResources(Plugin, PreFilterPlugin, FilterPlugin, PostFilterPlugin, ScorePlugin, EnqueueExtensions):
    """See the module."""

    name = "DynamicResources"
    scope = Scope.NODE
    feature_gate = "DynamicResourceAllocation"
    args_type = DynamicResourcesArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._enabled = handle.features.enabled(self.feature_gate)

    @staticmethod
    def pre_filter_disabled(pod: PodInfo, cache: Cache) -> Status | None:
        return _rejection(pod, cache)

    def hints(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE), _hint),
            EventHint(ClusterEvent(_DEVICE_CLASS, Action.ALL), _hint),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        state.data[_STATE] = True
        return _rejection(pod, self.handle.cache) or SKIP

    def filter(self, _state: CycleState, pod: PodInfo, _node: NodeInfo) -> Status | None:
        return _rejection(pod, self.handle.cache)

    def filter_all(self, _state: CycleState, pod: PodInfo, table: NodeTable) -> FilterResult | None:
        """Only called if the profile disables PreFilter. A pod that needs devices then fits no node."""
        status = _rejection(pod, self.handle.cache)
        if status is None:
            return None
        return rejected_alike(np.zeros(table.size, np.bool_), status)

    def post_filter(
        self, state: CycleState, _pod: PodInfo, _diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Fails, as in kube-scheduler, if another plugin rejected the pod before this plugin's PreFilter ran."""
        if self._enabled and _STATE not in state.data:
            return None, Status(Code.ERROR, ("not found",))
        return None, unschedulable()

    def score(self, _state: CycleState, _pod: PodInfo, _node: NodeInfo) -> int:
        return 0

    def score_all(self, _state: CycleState, _pod: PodInfo, _feasible: Feasible) -> int:
        return 0


def _hint(pod: PodInfo, _before: Any, _after: Any) -> Hint:
    return Hint.SKIP if pod.resource_claims else Hint.QUEUE


def _rejection(pod: PodInfo, cache: Cache) -> Status | None:
    """Why the pod is rejected: it has resource claims, or requests a resource that a DeviceClass provides and no node offers."""
    if pod.resource_claims:
        claims = ", ".join(pod.resource_claims)
        return unresolvable(f"this version of Podwright does not allocate devices, and the pod has claims ({claims})")
    offered = cache.table.offers
    classes: Mapping[str, str] | None = None
    for resource, amount in pod.requests.amounts.items():
        if amount > 0 and "/" in resource and not offered(resource):
            if classes is None:
                classes = _classes_by_resource(cache)
            if not classes:
                return None
            if found := classes.get(resource):
                return unresolvable(
                    "this version of Podwright does not allocate devices, and no node offers "
                    f"{resource} (DeviceClass {found})"
                )
    return None


def _classes_by_resource(cache: Cache) -> Mapping[str, str]:
    """The names of the DeviceClasses that provide extended resources, by resource. The first class of a resource counts."""
    found: dict[str, str] = {}
    for raw in cache.store.list(_DEVICE_CLASS):
        name = str(raw["metadata"]["name"])
        for resource in (_IMPLICIT + name, (raw.get("spec") or {}).get("extendedResourceName")):
            if isinstance(resource, str):
                found.setdefault(resource, name)
    return found
