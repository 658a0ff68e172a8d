"""`spec.sharedDevices` of a SchedulerPolicy, and the strategies that score by what is left of devices. See
docs/strategies.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podwright.core.framework.profile import Enabled, PluginSet, PluginSets, Point
from podwright.core.plugins.shares.device_shares import DeviceShares
from podwright.core.plugins.shares.kinds import SharedDevices

PLUGIN: Final = DeviceShares.name
STRATEGIES: Final = ("BestFit", "LeastFragmentation")


def with_filter(sets: PluginSets, shared: Sequence[SharedDevices]) -> PluginSets:
    """The plugin sets, with the filter that keeps shares on single devices if a resource is shared."""
    found = dict(sets)
    for point in (Point.PRE_FILTER, Point.FILTER) if any(kind.resource for kind in shared) else ():
        own = found.get(point.key, PluginSet())
        if all(each.name != PLUGIN for each in own.enabled):
            found[point.key] = PluginSet((*own.enabled, Enabled(PLUGIN)), own.disabled)
    return found
