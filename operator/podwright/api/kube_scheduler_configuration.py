"""`plugins` and `pluginConfig` of a KubeSchedulerConfiguration v1 profile, and the core Profile that they make.

A SchedulerPolicy has the same two fields and goes through the same conversion: see podwright/api/compile.py next. The
merging rules are in core/framework/profile.py. Source: the Kubernetes documentation, "Scheduler Configuration".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from podwright.core.framework.args import ArgsError, Problem, decode, decode_args
from podwright.core.framework.features import Features
from podwright.core.framework.profile import (
    DEFAULT_PLUGINS,
    MULTI_POINT,
    Enabled,
    PluginSet,
    PluginSets,
    Point,
    Profile,
    ProfileError,
    expand,
    merge,
)
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME

POINTS: Final = (MULTI_POINT, *(point.key for point in Point))
"""The keys that `plugins` may have."""
QUEUE_SORT: Final = "PrioritySort"
"""The plugin that orders the queue unless the operator is told otherwise."""
POD_GROUP_POINTS: Final = frozenset({"placementGenerate", "placementScore", "podGroupPostFilter"})
"""Extension points of kube-scheduler that are for pod groups; not supported yet."""

_GATED: Final[Mapping[str, str]] = {
    "DynamicResources": "DynamicResourceAllocation",
    "NodeDeclaredFeatures": "NodeDeclaredFeatures",
}
"""Default plugins that are there only with a feature gate."""


@dataclass(frozen=True, slots=True)
class ConfiguredPlugin:
    """One entry of `enabled` or `disabled`. Weight 0: not given."""

    name: str = field(metadata={"schema": {"minLength": 1}})
    weight: int = field(default=0, metadata={"schema": {"minimum": 0, "maximum": 2**31 - 1}})


@dataclass(frozen=True, slots=True)
class ConfiguredPluginSet:
    """The plugins of one extension point."""

    enabled: tuple[ConfiguredPlugin, ...] = ()
    disabled: tuple[ConfiguredPlugin, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginArgs:
    """One entry of `pluginConfig`; `args` as they were given."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Configured:
    plugins: Mapping[str, ConfiguredPluginSet] = field(default_factory=dict)
    plugin_config: tuple[PluginArgs, ...] = ()


def default_plugins(features: Features) -> PluginSets:
    """kube-scheduler's default plugins, without those whose feature gate is off."""
    return {
        key: PluginSet(
            tuple(e for e in plugins.enabled if e.name not in _GATED or features.enabled(_GATED[e.name])),
            plugins.disabled,
        )
        for key, plugins in DEFAULT_PLUGINS.items()
    }


def default_profile(
    scheduler_name: str, classes: Mapping[str, type[Any]], features: Features, queue_sort: str = QUEUE_SORT
) -> Profile:
    """kube-scheduler's default profile. Raises ProfileError if `classes` lacks one of its plugins."""
    other = PluginSet((Enabled(queue_sort),), ("*",))
    sets = {} if queue_sort == QUEUE_SORT else {Point.QUEUE_SORT.key: other}
    return profile_of(scheduler_name, sets, (), classes, features)


def convert_profile(
    raw: Mapping[str, Any], where: str, classes: Mapping[str, type[Any]], features: Features
) -> Profile:
    """A profile from the `plugins` and `pluginConfig` of a raw KubeSchedulerConfiguration profile.

    `where` is the profile's path, "" for none. Raises ProfileError naming the field.
    """
    given = {key: raw[key] for key in ("plugins", "pluginConfig") if raw.get(key) is not None}
    configured = decode(_Configured, given, where)
    sets = plugin_sets_of(configured.plugins, _join(where, "plugins"))
    name = str(raw.get("schedulerName") or KUBERNETES_DEFAULT_SCHEDULER_NAME)
    return profile_of(name, sets, configured.plugin_config, classes, features, where)


def plugin_sets_of(plugins: Mapping[str, ConfiguredPluginSet], where: str) -> PluginSets:
    """The core's plugin sets. Raises ArgsError for an extension point that does not exist or is not supported."""
    problems = [problem for key in plugins for problem in point_problems(key, where)]
    if problems:
        raise ArgsError(problems)
    return {
        key: PluginSet(
            tuple(Enabled(entry.name, entry.weight) for entry in configured.enabled),
            tuple(entry.name for entry in configured.disabled),
        )
        for key, configured in plugins.items()
    }


def point_problems(key: str, where: str) -> Sequence[Problem]:
    """What is wrong with a key of `plugins`; nothing for an extension point that is served."""
    if key in POINTS:
        return ()
    if key in POD_GROUP_POINTS:
        return ((_join(where, key), "extension points for pod groups are not supported by this version"),)
    return ((_join(where, key), f"unknown extension point; there are {', '.join(POINTS)}"),)


def profile_of(
    scheduler_name: str,
    custom: PluginSets,
    plugin_config: Sequence[PluginArgs],
    classes: Mapping[str, type[Any]],
    features: Features,
    where: str = "",
) -> Profile:
    """The default plugins with `custom` merged in, and the decoded args.

    Raises ProfileError (ArgsError for args) with paths that start with `where`.
    """
    plugins = merge(default_plugins(features), custom)
    try:
        expand(plugins, classes)
    except ProfileError as error:
        raise type(error)(_join(where, error.where), error.problem) from error
    return Profile(scheduler_name, plugins, decode_plugin_config(plugin_config, classes, _join(where, "pluginConfig")))


def decode_plugin_config(
    plugin_config: Sequence[PluginArgs], classes: Mapping[str, type[Any]], where: str
) -> Mapping[str, Any]:
    """Args by plugin name. Raises ArgsError with the path of each field that is wrong."""
    args: dict[str, Any] = {}
    problems: list[Problem] = []
    for i, entry in enumerate(plugin_config):
        path = f"{where}[{i}]"
        plugin = classes.get(entry.name)
        if plugin is None:
            problems.append((f"{path}.name", f"plugin {entry.name!r} does not exist"))
            continue
        if entry.name in args:
            problems.append((f"{path}.name", f"plugin {entry.name!r} is configured twice"))
            continue
        try:
            args[entry.name] = _decode_one(plugin, entry, f"{path}.args")
        except ArgsError as error:
            problems += error.problems
    if problems:
        raise ArgsError(problems)
    return {name: value for name, value in args.items() if value is not None}


def _decode_one(plugin: type[Any], entry: PluginArgs, where: str) -> Any:
    if plugin.args_type is not None:
        return decode_args(plugin.args_type, entry.args, where, kind=f"{entry.name}Args")
    if entry.args:
        raise ArgsError([(where, f"plugin {entry.name!r} takes no args")])
    return None


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
