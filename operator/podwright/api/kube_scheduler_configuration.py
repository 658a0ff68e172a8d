"""Converts `plugins` and `pluginConfig` of a KubeSchedulerConfiguration v1 profile into a core Profile.

A SchedulerPolicy has the same two fields and uses the same conversion: see podwright/api/compile.py next. The rules for
merging plugins are in core/framework/profile.py. Source: the Kubernetes documentation, "Scheduler Configuration".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from podwright.core.framework.args import ArgsError, decode, decode_args
from podwright.core.framework.features import Features
from podwright.core.framework.profile import (
    DEFAULT_PLUGINS,
    MULTI_POINT,
    Classes,
    Enabled,
    PluginSet,
    PluginSets,
    Point,
    Profile,
    ProfileError,
    expand,
    merge,
)
from podwright.core.framework.validation import Problem, unique_by
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME

POINTS: Final[Mapping[str, str]] = {
    MULTI_POINT: "Every extension point that the plugin has. Settings at a single extension point override these.",
    Point.PRE_ENQUEUE.key: "Decide whether a pod may enter the queue.",
    Point.QUEUE_SORT.key: "Orders the queue. There is one queue, so this plugin is the same in all policies.",
    Point.PRE_FILTER.key: "Run once for a pod, before the filters.",
    Point.FILTER.key: "Reject nodes on which the pod cannot run.",
    Point.POST_FILTER.key: "Run when no node is feasible, for example preemption.",
    Point.PRE_SCORE.key: "Run once for a pod, before scoring.",
    Point.SCORE.key: "Score each feasible node from 0 to 100; the weight multiplies the score.",
    Point.RESERVE.key: "Run when a node is reserved for the pod, and when the reservation ends.",
    Point.PERMIT.key: "Approve, deny or delay the binding.",
    Point.PRE_BIND.key: "Work that must be done before the pod is bound, such as binding volumes.",
    Point.BIND.key: "Bind the pod; the first plugin that does ends the chain.",
    Point.POST_BIND.key: "Run after the pod is bound.",
}
"""The keys that `plugins` may have, with what their plugins do."""
QUEUE_SORT: Final = "PrioritySort"
"""The plugin that orders the queue by default."""
POD_GROUP_POINTS: Final = frozenset({"placementGenerate", "placementScore", "podGroupPostFilter"})
"""kube-scheduler's extension points for pod groups. Not supported yet."""
MAX_WEIGHT: Final = 2**31 - 1
"""kube-scheduler's greatest weight, an int32. The weighted sum of all plugins' scores stays far below 2**63."""


@dataclass(frozen=True, slots=True)
class ConfiguredPlugin:
    """One entry of `enabled` or `disabled`. A weight of 0 counts as not given."""

    name: str = field(metadata={"schema": {"minLength": 1}})
    weight: int = field(default=0, metadata={"schema": {"minimum": 0, "maximum": MAX_WEIGHT}})


@dataclass(frozen=True, slots=True)
class ConfiguredPluginSet:
    """The plugins of one extension point."""

    enabled: tuple[ConfiguredPlugin, ...] = ()
    disabled: tuple[ConfiguredPlugin, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginArgs:
    """One entry of `pluginConfig`; `args` are not decoded."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Configured:
    plugins: Mapping[str, ConfiguredPluginSet] = field(default_factory=dict)
    plugin_config: tuple[PluginArgs, ...] = field(default=(), metadata={"schema": unique_by("name")})


def _default_plugins(classes: Classes, features: Features) -> PluginSets:
    """kube-scheduler's default plugins, without those whose feature gate is off."""

    def is_on(name: str) -> bool:
        gate = getattr(classes.get(name), "feature_gate", "")
        return not gate or features.enabled(gate)

    return {
        key: PluginSet(tuple(entry for entry in plugins.enabled if is_on(entry.name)), plugins.disabled)
        for key, plugins in DEFAULT_PLUGINS.items()
    }


def default_profile(scheduler_name: str, classes: Classes, features: Features, queue_sort: str = QUEUE_SORT) -> Profile:
    """kube-scheduler's default profile. Raises ProfileError if `classes` lacks one of its plugins."""
    other = PluginSet((Enabled(queue_sort),), ("*",))
    sets = {} if queue_sort == QUEUE_SORT else {Point.QUEUE_SORT.key: other}
    return profile_of(scheduler_name, sets, (), classes, features)


def convert_profile(raw: Mapping[str, Any], where: str, classes: Classes, features: Features) -> Profile:
    """Converts `schedulerName`, `plugins` and `pluginConfig` of a raw KubeSchedulerConfiguration profile.

    `where` is the path of the profile, "" for none. Raises ProfileError naming the field.
    """
    given = {key: raw[key] for key in ("plugins", "pluginConfig") if raw.get(key) is not None}
    configured = decode(_Configured, given, where)
    sets = plugin_sets_of(configured.plugins, _join(where, "plugins"))
    name = str(raw.get("schedulerName") or KUBERNETES_DEFAULT_SCHEDULER_NAME)
    return profile_of(name, sets, configured.plugin_config, classes, features, where)


def plugin_sets_of(plugins: Mapping[str, ConfiguredPluginSet], where: str) -> PluginSets:
    """The core's plugin sets. Raises ArgsError for an extension point that does not exist or is not supported.

    Without plugins, an extension point need not be supported: kube-scheduler writes all of them.
    """
    plugins = {
        key: found for key, found in plugins.items() if key not in POD_GROUP_POINTS or found.enabled or found.disabled
    }
    problems = [(_join(where, key), problem) for key in plugins if (problem := point_problem(key))]
    if problems:
        raise ArgsError(problems)
    return {
        key: PluginSet(
            tuple(Enabled(entry.name, entry.weight) for entry in configured.enabled),
            tuple(entry.name for entry in configured.disabled),
        )
        for key, configured in plugins.items()
    }


UNKNOWN_POINT: Final = f"unknown extension point; there are {', '.join(POINTS)}"


def point_problem(key: str) -> str:
    """Returns the problem with a key of `plugins`; "" for a supported extension point."""
    if key in POD_GROUP_POINTS:
        return "extension points for pod groups are not supported by this version"
    return "" if key in POINTS else UNKNOWN_POINT


def profile_of(
    scheduler_name: str,
    custom: PluginSets,
    plugin_config: Sequence[PluginArgs],
    classes: Classes,
    features: Features,
    where: str = "",
) -> Profile:
    """A profile of the default plugins with `custom` merged into them, and of the decoded args.

    Raises ProfileError, or ArgsError for args, with paths that start with `where`.
    """
    plugins = merged_plugins(custom, classes, features, where)
    return Profile(scheduler_name, plugins, _decode_plugin_config(plugin_config, classes, _join(where, "pluginConfig")))


def merged_plugins(custom: PluginSets, classes: Classes, features: Features, where: str = "") -> PluginSets:
    """The default plugins with `custom` merged into them. Raises ProfileError, with a path that starts with `where`."""
    plugins = merge(_default_plugins(classes, features), custom)
    try:
        expand(plugins, classes)
    except ProfileError as error:
        raise type(error)(_join(where, error.where), error.problem) from error
    return plugins


def _decode_plugin_config(plugin_config: Sequence[PluginArgs], classes: Classes, where: str) -> Mapping[str, Any]:
    """Args by plugin name. Raises ArgsError with the path of each field that is wrong."""
    args: dict[str, Any] = {}
    problems: list[Problem] = []
    for i, entry in enumerate(plugin_config):
        path = f"{where}[{i}]"
        plugin = classes.get(entry.name)
        if plugin is None:
            problems.append((f"{path}.name", f"plugin {entry.name!r} does not exist"))
            continue
        try:
            args[entry.name] = decode_entry(plugin, entry, f"{path}.args")
        except ArgsError as error:
            problems += error.problems
    if problems:
        raise ArgsError(problems)
    return {name: value for name, value in args.items() if value is not None}


def decode_entry(plugin: type[Any], entry: PluginArgs, where: str) -> Any:
    """The decoded args of one entry, None if the plugin takes none. `where`: the path of the args. Raises ArgsError."""
    if plugin.args_type is not None:
        return decode_args(plugin.args_type, entry.args, where, kind=f"{entry.name}Args")
    if entry.args:
        raise ArgsError([(where, f"plugin {entry.name!r} takes no args")])
    return None


def _join(where: str, path: str) -> str:
    return f"{where}.{path}" if where else path
