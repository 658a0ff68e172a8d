"""How long plugins, extension points, queueing hints and events take, by kube-scheduler's metric names.

kube-scheduler measures one cycle in ten for plugins and every one for extension points; here both come from one attempt in fifty,
and hints from one call in sixteen, so their counts are samples: read averages and quantiles, not rates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from podwright.core.framework.framework import Framework
from podwright.core.framework.measured import point_name
from podwright.engine.metrics.collectors import Counts, Tallies, exponential

ONE_ATTEMPT_IN: Final = 50


class Stopwatch:
    """Measures how long events of the cluster take (`scheduler_event_handling_duration_seconds`)."""

    def __init__(self, clock: Callable[[], float], took: Callable[[str, float], None]) -> None:
        self.start = clock
        self._took = took

    def stop(self, event: str, started: float) -> None:
        self._took(event, self.start() - started)


class PluginMetrics:
    """Implements the Observer of core/framework/measured.py."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._plugins = Tallies(
            "scheduler_plugin_execution_duration_seconds",
            "Duration for running a plugin at an extension point, of one attempt in fifty.",
            ["plugin", "extension_point", "status"],
            exponential(0.00001, 1.5, 20),
            registry,
        )
        self._points = Tallies(
            "scheduler_framework_extension_point_duration_seconds",
            "Duration for running all plugins of an extension point, of one attempt in fifty.",
            ["extension_point", "status", "profile"],
            exponential(0.0001, 2, 12),
            registry,
        )
        self._hints = Tallies(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Duration for running a queueing hint of a plugin, of one call in sixteen.",
            ["plugin", "event", "hint"],
            exponential(0.00001, 1.5, 20),
            registry,
        )
        self._events = Tallies(
            "scheduler_event_handling_duration_seconds",
            "Duration for handling an event of the cluster.",
            ["event"],
            exponential(0.0001, 2, 12),
            registry,
        )

        self._evaluations = Counts(
            "scheduler_plugin_evaluation",
            "How often a plugin was asked: for a pod in PreFilter and PreScore, about a node in Filter and Score.",
            ["plugin", "extension_point", "profile"],
            registry,
        )
        self._preemptions = Tallies(
            "scheduler_preemption_evaluation_duration_seconds",
            "Duration of the search for victims.",
            ["preemptor", "result"],
            exponential(0.001, 2, 16),
            registry,
        )
        self._group_preemptions = Counts(
            "scheduler_workload_preemption_attempts",
            "Attempts of pod groups at preemption, by the code that they ended with.",
            ["result"],
            registry,
        )

    def plugin_took(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._plugins.of(plugin, point, status).observe(seconds)

    def point_took(self, point: str, status: str, profile: str, seconds: float) -> None:
        self._points.of(point, status, profile).observe(seconds)

    def hint_took(self, plugin: str, event: str, result: str, seconds: float) -> None:
        self._hints.of(plugin, event, result).observe(seconds)

    def event_took(self, event: str, seconds: float) -> None:
        self._events.of(event).observe(seconds)

    def on_scrape(self, tell: Callable[[], None]) -> None:
        """`tell` is called when somebody looks, to tell what was `evaluated` since."""
        self._evaluations.before = tell

    def evaluated(self, framework: Framework) -> None:
        """Takes over what the framework has counted."""
        for plugin, point, count in framework.evaluations.drain():
            self._evaluations.of(plugin, point_name(point), framework.profile.scheduler_name)[0] += count

    def preemption_evaluated(self, preemptor: str, result: str, seconds: float) -> None:
        """Victims were looked for, for a `pod` or a `podgroup`; whether there are any or not."""
        self._preemptions.of(preemptor, result).observe(seconds)

    def group_preempted(self, result: str) -> None:
        """A pod group tried to preempt."""
        self._group_preemptions.of(result)[0] += 1
