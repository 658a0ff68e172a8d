"""PodGroupPodsCount: known by name, so that a profile of kube-scheduler's can be taken over.

That the domain which takes most of a pod group's pods is preferred is the planner's work (core/gangs), whether a profile
names this plugin or not.
"""

from __future__ import annotations

from podwright.core.framework.interface import Plugin


class PodGroupPodsCount(Plugin):
    """See the module."""

    name = "PodGroupPodsCount"
