"""The plugins of one profile, built: one typed tuple for each extension point, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from podwright.core.framework import contract
from podwright.core.framework.cluster_events import EventHint
from podwright.core.framework.cost import AttemptCost, Cost, PluginCost, estimate
from podwright.core.framework.errors import PluginError, ReportException
from podwright.core.framework.interface import (
    BindPlugin,
    EnqueueExtensions,
    ExtensionPoint,
    FilterPlugin,
    Handle,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.observer import PluginNames
from podwright.core.framework.profile import Classes, ExpandedProfile, Point, Profile, expand
from podwright.core.framework.read_only import ReadOnlyHandle
from podwright.core.framework.status import Status
from podwright.core.objects.control_flow import may_interrupt, passes_through
from podwright.core.objects.errors import described
from podwright.core.objects.pod import PodInfo


class BuiltPlugins:
    """The base of the framework. Raises ProfileError for a profile that cannot work, PluginError for a plugin that
    cannot be built.
    """

    def __init__(
        self,
        profile: Profile,
        classes: Classes,
        handle: Handle,
        report_exception: ReportException | None = None,
    ) -> None:
        """`report_exception` receives every exception that a plugin raises."""
        self.profile = profile
        self.interrupts: Callable[[BaseException], bool] = may_interrupt
        """True if an exception in an awaited method cancels the task, and is not the plugin's own. The owner of the
        task sets it.
        """
        self.handle = handle
        expanded = expand(profile.plugins, classes)
        self.weights = expanded.weights
        self.plugins: dict[str, Any] = {
            name: _build(classes[name], profile.args.get(name), handle, report_exception) for name in expanded.names
        }
        self.plugin_names = PluginNames(
            profile.scheduler_name, {point.title: names for point, names in expanded.points.items()}
        )
        self._points = points = {
            point: tuple(self.plugins[name] for name in names) for point, names in expanded.points.items()
        }
        # `expand` lists a plugin at a point only if it is a subclass of the point's class.
        self.pre_enqueue_plugins: tuple[PreEnqueuePlugin, ...] = points[Point.PRE_ENQUEUE]
        self.queue_sort_plugins: tuple[QueueSortPlugin, ...] = points[Point.QUEUE_SORT]
        self.pre_filter_plugins: tuple[PreFilterPlugin, ...] = points[Point.PRE_FILTER]
        self.filter_plugins: tuple[FilterPlugin, ...] = points[Point.FILTER]
        self.post_filter_plugins: tuple[PostFilterPlugin, ...] = points[Point.POST_FILTER]
        self.pre_score_plugins: tuple[PreScorePlugin, ...] = points[Point.PRE_SCORE]
        self.score_plugins: tuple[ScorePlugin, ...] = points[Point.SCORE]
        self.reserve_plugins: tuple[ReservePlugin, ...] = points[Point.RESERVE]
        self.permit_plugins: tuple[PermitPlugin, ...] = points[Point.PERMIT]
        self.pre_bind_plugins: tuple[PreBindPlugin, ...] = points[Point.PRE_BIND]
        self.bind_plugins: tuple[BindPlugin, ...] = points[Point.BIND]
        self.post_bind_plugins: tuple[PostBindPlugin, ...] = points[Point.POST_BIND]
        self.hints: Mapping[str, Sequence[EventHint]] = _hints(self.plugins, classes, handle, report_exception)
        """Queueing hints by plugin name."""
        self.pre_filter_extensions = tuple(p for p in self.pre_filter_plugins if isinstance(p, PreFilterExtensions))
        self.disabled_checks = _disabled_checks(expanded, classes)
        """Plugin classes that the profile does not run in PreFilter, with `pre_filter_disabled`."""
        self._costs: Sequence[tuple[str, Callable[[PodInfo], Iterable[Cost]]]] = [
            (name, p.costs if contract.is_in_tree(p) else partial(contract.costs_of, p))
            for name, p in self.plugins.items()
            if getattr(type(p), "costs", Plugin.costs) is not Plugin.costs
        ]
        self.only_node_filters = frozenset(
            p.name for p in self.filter_plugins if p.scope is Scope.NODE and not isinstance(p, ReservePlugin)
        )
        """The filters that look at the pod and the node, and at no pods there. Without those that keep something for
        Reserve.
        """
        self.beyond_node = frozenset(p.name for p in self.filter_plugins if p.scope > Scope.NODE_PODS)

    def costs(self, pod: PodInfo) -> list[PluginCost]:
        """Returns the costs of the pod in each attempt, each with the plugin's name."""
        return [(name, cost) for name, costs_of in self._costs for cost in costs_of(pod)]

    def estimate(self, pod: PodInfo) -> AttemptCost | None:
        """The cost of an attempt at the pod; None if it is ordinary."""
        costs = self.costs(pod)
        return estimate(pod, costs) if costs else None

    def at(self, *points: Point) -> Sequence[ExtensionPoint]:
        """The plugins of these points, for callers that need only their names and classes."""
        return [plugin for point in points for plugin in self._points[point]]


def _build(plugin: type[Any], args: Any, handle: Handle, report_exception: ReportException | None) -> Any:
    try:
        if args is None and plugin.args_type is not None:
            args = plugin.args_type()
        own = plugin.__module__.startswith("podwright.")
        built = plugin(args, handle if own else ReadOnlyHandle(handle))
        built.report_exception = report_exception
    except BaseException as error:
        if passes_through(error):
            raise
        if report_exception is not None:
            report_exception(plugin.name, "constructor", error)
        raise PluginError(plugin.name, "constructor", described(error)) from error
    return built


def _hints(
    plugins: Mapping[str, Any],
    classes: Classes,
    handle: Handle,
    report_exception: ReportException | None,
) -> Mapping[str, Sequence[EventHint]]:
    """Returns the hints of the profile's plugins, and of disabled plugins that still give hints."""
    disabled = {
        name: _build(plugin, None, handle, report_exception)
        for name, plugin in classes.items()
        if name not in plugins and getattr(plugin, "hints_when_disabled", False)
    }
    return {
        name: contract.hints_of(plugin)
        for name, plugin in (disabled | dict(plugins)).items()
        if isinstance(plugin, EnqueueExtensions)
    }


def _disabled_checks(expanded: ExpandedProfile, classes: Classes) -> Sequence[tuple[Any, Callable[..., Status | None]]]:
    """The classes of plugins that the profile does not run in PreFilter, with the check that they make instead."""
    return tuple(
        (plugin, plugin.pre_filter_disabled)
        for name, plugin in classes.items()
        if name not in expanded.points[Point.PRE_FILTER] and getattr(plugin, "pre_filter_disabled", None) is not None
    )
