"""Profiles: which plugins run at which extension points, in which order, with which weights and args.

The rules are those of KubeSchedulerConfiguration v1: a custom set is merged into the default one (`merge`), then
`multiPoint` is expanded to all extension points of each plugin (`expand`). Source: the Kubernetes documentation,
"Scheduler Configuration".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any, Final

from podwright.core.framework import interface
from podwright.core.objects.dataclass import dataclass

Classes = Mapping[str, type[Any]]
"""Plugin classes by name."""


class Point(Enum):
    """The extension points: the name of each in a KubeSchedulerConfiguration, and its class in `interface`."""

    PRE_ENQUEUE = ("preEnqueue", interface.PreEnqueuePlugin)
    QUEUE_SORT = ("queueSort", interface.QueueSortPlugin)
    PRE_FILTER = ("preFilter", interface.PreFilterPlugin)
    FILTER = ("filter", interface.FilterPlugin)
    POST_FILTER = ("postFilter", interface.PostFilterPlugin)
    PRE_SCORE = ("preScore", interface.PreScorePlugin)
    SCORE = ("score", interface.ScorePlugin)
    RESERVE = ("reserve", interface.ReservePlugin)
    PERMIT = ("permit", interface.PermitPlugin)
    PRE_BIND = ("preBind", interface.PreBindPlugin)
    BIND = ("bind", interface.BindPlugin)
    POST_BIND = ("postBind", interface.PostBindPlugin)

    __hash__ = object.__hash__  # faster than Enum's own, which is written in Python

    @property
    def key(self) -> str:
        return str(self.value[0])

    @property
    def title(self) -> str:
        """kube-scheduler's name of the point in metrics: `PreFilter`."""
        return self.key[0].upper() + self.key[1:]

    def of(self, plugin: type[Any]) -> bool:
        """True if a plugin class implements this point."""
        return issubclass(plugin, self.value[1])


MULTI_POINT: Final = "multiPoint"


@dataclass(frozen=True, slots=True)
class Enabled:
    """One entry of `enabled`. Weight 0 means not given, and counts as 1."""

    name: str
    weight: int = 0


@dataclass(frozen=True, slots=True)
class PluginSet:
    """`enabled` and `disabled` of one extension point. `disabled` may contain `*`."""

    enabled: tuple[Enabled, ...] = ()
    disabled: tuple[str, ...] = ()


PluginSets = Mapping[str, PluginSet]
"""Plugin sets by `Point.key` or MULTI_POINT."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A complete scheduler profile: `plugins` includes the defaults, `args` are by plugin name.

    `extenders`: the names of the extenders that its pods are sent to, in this order.
    """

    scheduler_name: str
    plugins: PluginSets
    args: Mapping[str, Any] = field(default_factory=dict)
    extenders: tuple[str, ...] = ()


class ProfileError(ValueError):
    """An invalid profile. `where` is the path of the field."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class NotSupportedError(ProfileError):
    """A profile enables a plugin of kube-scheduler that Podwright only knows by name."""


def merge(default: PluginSets, custom: PluginSets) -> PluginSets:
    """The default sets with the custom ones merged in, point by point.

    Defaults that are disabled, by name or by `*`, are removed. A default that the custom set also enables keeps its
    place and gets the new weight. Other custom plugins are appended.
    """
    return {
        key: _merge_set(default.get(key, PluginSet()), custom.get(key, PluginSet()))
        for key in dict.fromkeys((*default, *custom))
    }


def _merge_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    disabled = (*custom.disabled, *default.disabled)
    chosen = {entry.name: (i, entry) for i, entry in enumerate(custom.enabled)}
    kept: list[Enabled] = []
    replaced = set()
    if "*" not in disabled:
        for entry in default.enabled:
            if entry.name in disabled:
                continue
            if entry.name in chosen:
                i, entry = chosen[entry.name]  # noqa: PLW2901 -- in place, to keep the order
                replaced.add(i)
            kept.append(entry)
    kept += [entry for i, entry in enumerate(custom.enabled) if i not in replaced]
    return PluginSet(tuple(kept), disabled)


@dataclass(frozen=True, slots=True)
class ExpandedProfile:
    """The plugin names of each point, in order, and the weights of score plugins."""

    points: Mapping[Point, tuple[str, ...]]
    weights: Mapping[str, int]

    @property
    def names(self) -> Sequence[str]:
        """All plugins of the profile, each once."""
        return tuple(dict.fromkeys(name for names in self.points.values() for name in names))


def expand(plugins: PluginSets, classes: Classes) -> ExpandedProfile:
    """Expands `multiPoint`. `classes` are all known plugins by name.

    The order at each point: plugins that override a multiPoint entry, then the multiPoint plugins, then the others.
    Raises ProfileError for a plugin that is unknown, enabled twice or does not implement the point, for no bind plugin,
    and unless there is exactly one queueSort plugin. Raises NotSupportedError for a plugin that is only known by name.
    """
    multi = plugins.get(MULTI_POINT, PluginSet())
    for key, plugin_set in plugins.items():
        for entry in plugin_set.enabled:
            if entry.name not in classes:
                raise ProfileError(f"plugins.{key}.enabled", f"plugin {entry.name!r} does not exist")
            missing = getattr(classes[entry.name], "not_supported", "")
            if missing:
                raise NotSupportedError(f"plugins.{key}.enabled", f"plugin {entry.name!r} is not supported: {missing}")
    points = {point: _expand_point(point, plugins.get(point.key, PluginSet()), multi, classes) for point in Point}
    if len(points[Point.QUEUE_SORT]) != 1:
        raise ProfileError("plugins.queueSort", f"exactly one plugin is needed, got {len(points[Point.QUEUE_SORT])}")
    if not points[Point.BIND]:
        raise ProfileError("plugins.bind", "at least one plugin is needed")
    return ExpandedProfile(points, _weights(plugins, points[Point.SCORE]))


def _expand_point(point: Point, own: PluginSet, multi: PluginSet, classes: Classes) -> tuple[str, ...]:
    where = f"plugins.{point.key}.enabled"
    explicit = [entry.name for entry in own.enabled]
    for name in explicit:
        if not point.of(classes[name]):
            raise ProfileError(where, f"plugin {name!r} does not have the extension point {point.key}")
        if explicit.count(name) > 1:
            raise ProfileError(where, f"plugin {name!r} is enabled twice")
    if "*" in own.disabled:
        return tuple(explicit)
    inherited: list[str] = []
    overriding: list[str] = []
    for entry in multi.enabled:
        if not point.of(classes[entry.name]) or entry.name in own.disabled:
            continue
        if entry.name in explicit:
            overriding.append(entry.name)
            continue
        if entry.name in inherited:
            raise ProfileError(f"plugins.{MULTI_POINT}.enabled", f"plugin {entry.name!r} is enabled twice")
        inherited.append(entry.name)
    first = [name for name in explicit if name in overriding]
    return (*first, *inherited, *(name for name in explicit if name not in first))


def _weights(plugins: PluginSets, scoring: Sequence[str]) -> dict[str, int]:
    weights = {entry.name: entry.weight for entry in plugins.get(MULTI_POINT, PluginSet()).enabled}
    for entry in plugins.get(Point.SCORE.key, PluginSet()).enabled:
        weights[entry.name] = entry.weight
    return {name: weights.get(name) or 1 for name in scoring}


DEFAULT_PLUGINS: Final[PluginSets] = {
    MULTI_POINT: PluginSet(
        (
            Enabled("SchedulingGates"),
            Enabled("PrioritySort"),
            Enabled("NodeName"),
            Enabled("NodeUnschedulable"),
            Enabled("TaintToleration", 3),
            Enabled("NodeAffinity", 2),
            Enabled("NodePorts"),
            Enabled("NodeResourcesFit", 1),
            Enabled("VolumeRestrictions"),
            Enabled("NodeVolumeLimits"),
            Enabled("VolumeBinding"),
            Enabled("VolumeZone"),
            Enabled("PodTopologySpread", 2),
            Enabled("InterPodAffinity", 2),
            Enabled("DynamicResources", 2),
            Enabled("DefaultPreemption"),
            Enabled("NodeResourcesBalancedAllocation", 1),
            Enabled("ImageLocality", 1),
            Enabled("DefaultBinder"),
            Enabled("NodeDeclaredFeatures"),
            Enabled("GangScheduling"),
        )
    )
}
"""The default profile of kube-scheduler 1.37, and GangScheduling, which kube-scheduler includes if pod groups are
served.
"""
