"""Faults of plugins: what is raised where a plugin breaks its contract or fails."""

from __future__ import annotations


class PluginError(Exception):
    """A plugin raised, or returned what its extension point does not allow. That pod's attempt is an error."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f"running {point} plugin {plugin!r}: {problem}")
        self.plugin = plugin
        self.point = point
        self.problem = problem
