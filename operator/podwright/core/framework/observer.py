"""The observer: learns what the core does, so that it can be counted and timed without the core knowing how.

The core has no clock. It calls `start` before what it measures, and passes the answer on with the call that reports the
end. Points and statuses have kube-scheduler's names. `Metrics` in podwright/engine/records/metrics is the observer that
feeds the metrics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from podwright.core.objects.dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class PluginNames:
    """A framework's profile, and the names of its plugins at each extension point (`PreFilter`) in order. Compared by
    identity.
    """

    profile: str
    at: Mapping[str, tuple[str, ...]]


class Observer:
    """Ignores everything. Observers override what they need."""

    def start(self) -> float:
        """Starts a measurement. The answer is passed on as `started` when it ends."""
        return 0.0

    # Each attempt and each search for victims

    def framework_built(self, plugins: PluginNames) -> None:
        """The plugins of a profile were built."""

    def attempt_ended(
        self,
        plugins: PluginNames,
        skipped: tuple[Collection[str], Collection[str]],
        nodes: int,
        rejected: Mapping[str, int],
        scored: int,
        ended_by: str,
    ) -> None:
        """An attempt to place a pod ended with a placement or a rejection.

        `skipped`: the plugins that returned Skip in PreFilter, and in PreScore; `nodes`: how many nodes were filtered;
        `rejected`: how many of them each plugin rejected; `scored`: how many nodes were scored; `ended_by`: the plugin
        whose PreFilter made the pod unresolvable, or "".
        """

    def victims_searched(self, started: float, preemptor: str, result: str) -> None:
        """Preemption searched for victims. `preemptor`: `pod` or `podgroup`; `result`: the code that ended the
        search.
        """

    def group_preemption_ended(self, result: str) -> None:
        """A pod group tried to preempt, whether or not it searched for victims."""

    # Attempts whose CycleState carries the observer

    def plugin_ended(self, started: float, plugin: str, point: str, status: str) -> None:
        """One plugin ran at one point: on all nodes, even if it runs node by node."""

    def point_ended(self, started: float, profile: str, point: str, status: str) -> None:
        """All plugins of a point ran."""

    # Binding cycles

    def claim_created(self, *, created: bool) -> None:
        """A claim for extended resources was created, or (not `created`) could not be."""

    def binding_conditions_ended(
        self, started: float, profile: str, status: str, drivers: Iterable[str], waited_for: Iterable[str]
    ) -> None:
        """A pod has waited for binding conditions. `status`: `success`, `failure`, `timeout` or `error`; `drivers`: of
        each device of the pod; `waited_for`: of each device with such conditions.
        """

    # The queue

    def pod_queued(self, queue: str, event: str) -> None:
        """A pod entered a queue because of an event."""

    def hint_ended(self, started: float, plugin: str, event: str, result: str) -> None:
        """A queueing hint was called. Only one call in `core.queue.hinting.SAMPLE_INTERVAL` is measured."""


NO_OBSERVER: Final = Observer()
