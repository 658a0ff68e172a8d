"""DefaultPreemption that tells how long its search for victims took. Every attempt is measured: it takes milliseconds, not microseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from podwright.core.framework.interface import CycleState, PostFilterResult
from podwright.core.framework.status import Code, Status
from podwright.core.gangs.decisions import GangPreemption
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.default_preemption import NEVER, DefaultPreemption, Found
from podwright.engine.metrics.plugins import PluginMetrics

POD: Final = "pod"
POD_GROUP: Final = "podgroup"


def measuring(
    classes: Mapping[str, type[Any]], clock: Callable[[], float], metrics: PluginMetrics
) -> Mapping[str, type[Any]]:
    """The table of plugins with DefaultPreemption, and what is made of it, measured. `clock` gives seconds."""
    return {
        name: _measured(plugin, clock, metrics) if issubclass(plugin, DefaultPreemption) else plugin
        for name, plugin in classes.items()
    }


def _measured(
    plugin: type[DefaultPreemption], clock: Callable[[], float], metrics: PluginMetrics
) -> type[DefaultPreemption]:
    class Measured(plugin):  # type: ignore[valid-type, misc]  # a class that is known only when this runs
        def post_filter(
            self, state: CycleState, pod: PodInfo, diagnosis: Any
        ) -> tuple[PostFilterResult | None, Status]:
            started, code = clock(), Code.ERROR
            try:
                result, status = super().post_filter(state, pod, diagnosis)
                code = status.code
                return result, status
            finally:
                metrics.preemption_evaluated(POD, code.text, clock() - started)

        def pod_group_post_filter(self, preempt: Callable[[], Found]) -> Found:
            started = clock()
            found = super().pod_group_post_filter(preempt)
            code = found.code if isinstance(found, Status) else Code.SUCCESS
            metrics.group_preempted(code.text)
            if _searched(found):
                metrics.preemption_evaluated(POD_GROUP, code.text, clock() - started)
            return found  # type: ignore[no-any-return]

    Measured.__name__ = plugin.__name__
    Measured.__qualname__ = plugin.__qualname__
    return Measured


def _searched(found: object) -> bool:
    """Whether victims were looked for; not if the group may not preempt, or waits for those that are going already."""
    if isinstance(found, GangPreemption):
        return bool(found.victims)
    return not (isinstance(found, Status) and found.message.endswith(NEVER))
