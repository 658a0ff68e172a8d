"""TopologyPlacementGenerator: known by name, so that a profile of kube-scheduler's can be taken over.

That a pod group stays in one domain of its topology constraint is the planner's work (core/gangs), whether a profile names
this plugin or not.
"""

from __future__ import annotations

from podwright.core.framework.interface import Plugin


class TopologyPlacementGenerator(Plugin):
    """See the module."""

    name = "TopologyPlacementGenerator"
