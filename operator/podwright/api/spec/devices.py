"""`spec.devices` of a SchedulerPolicy: which devices its pods get, and which nodes are preferred for that. See
docs/devices.md.
"""

from __future__ import annotations

from typing import Final

from podwright.api.kube_scheduler_configuration import MAX_WEIGHT
from podwright.core.devices.choice import AllocationOrder, Preempting, Scoring
from podwright.core.framework.profile import MULTI_POINT, Enabled, PluginSet, PluginSets, Point
from podwright.core.framework.validation import Rule, declared, whole_number
from podwright.core.objects.dataclass import dataclass

PLUGIN: Final = "DynamicResources"
_ALL: Final = "*"
_STRATEGIES_WITH_ONE_SCORE: Final = ("Random", "NodeName")


@dataclass(frozen=True, slots=True)
class PolicyDevices:
    allocation: AllocationOrder = declared(
        "Which devices of a node a claim gets, among those that it may get. FirstFit: the first ones in the order of "
        "driver, pool, slice and device, as kube-scheduler. BestFit: the smallest ones, and among equally small "
        "partitions and shares those whose board or device has least left. Spread: the smallest ones, and among "
        "equally small partitions and shares those whose board or device has most left.",
        default="FirstFit",
    )
    scoring: Scoring = declared(
        "Which nodes score best for pods with claims. Default: those with more preferred alternatives, as "
        "kube-scheduler. The others decide among nodes with equally preferred alternatives. BestFit: those that would "
        "give the smallest devices, and then the fullest. MostAllocated, LeastAllocated: those on which more, or less, "
        "of such devices is in use.",
        default="Default",
    )
    preemption: Preempting = declared(
        "Whether a pod that lacks devices may preempt for them. Default: no, as in kube-scheduler. FreeDevices: "
        "devices of claims that only pods of lower priority use count as free when these pods are evicted. Not for pod "
        "groups.",
        default="Default",
    )
    weight: int | None = whole_number(
        "The weight of the score of DynamicResources relative to those of other plugins. Default: 2.",
        1,
        MAX_WEIGHT,
        default=None,
    )

    def args(self) -> dict[str, str]:
        """The args of DynamicResources that these fields set."""
        default = type(self)()
        chosen = {"allocation": self.allocation, "scoring": self.scoring, "preemption": self.preemption}
        return {key: value for key, value in chosen.items() if value != getattr(default, key)}


DEVICE_RULES: Final = (
    Rule(
        cel=f"!(self.strategy.type in {list(_STRATEGIES_WITH_ONE_SCORE)}) || !has(self.devices)"
        " || (self.devices.scoring == 'Default' && !has(self.devices.weight))",
        holds=lambda self: (
            self.strategy.type not in _STRATEGIES_WITH_ONE_SCORE
            or (self.devices.scoring == "Default" and self.devices.weight is None)
        ),
        message="scoring and weight are not used by strategy type {self.strategy.type}",
        fallback="scoring and weight are not used by this strategy type",
        path=".devices",
        reason="FieldValueForbidden",
    ),
    Rule(
        violations=lambda self: (
            f".plugins.score.enabled[{i}]"
            for i, each in enumerate(self.plugins["score"].enabled if "score" in self.plugins else ())
            if each.name == PLUGIN and self.devices.weight is not None
        ),
        message="devices.weight already sets the weight",
    ),
)
"""Rules on the spec of a policy."""


def with_weight(sets: PluginSets, devices: PolicyDevices) -> PluginSets:
    """The plugin sets with the weight of DynamicResources, unless they disable the plugin or its score."""
    everywhere, own = (sets.get(key, PluginSet()) for key in (MULTI_POINT, Point.SCORE.key))
    disabled = _disables(own) or (_disables(everywhere) and not any(each.name == PLUGIN for each in everywhere.enabled))
    if devices.weight is None or disabled:
        return sets
    return {**sets, Point.SCORE.key: PluginSet((*own.enabled, Enabled(PLUGIN, devices.weight)), own.disabled)}


def _disables(plugin_set: PluginSet) -> bool:
    return bool({PLUGIN, _ALL} & {*plugin_set.disabled})
