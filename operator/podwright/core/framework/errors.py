"""Faults of plugins: what is raised where a plugin breaks its contract or fails."""

from __future__ import annotations

from typing import Final

_SAID: Final = {
    "filter": 'running "{plugin}" filter plugin: {problem}',
    "score": 'running Score plugins: plugin "{plugin}" failed with: {problem}',
    "constructor": 'initializing plugin "{plugin}": {problem}',
}


def in_words(plugin: str, point: str, problem: str) -> str:
    """What failed, as kube-scheduler's events say it. `point`: an extension point's key."""
    usual = f'running {point[:1].upper()}{point[1:]} plugin "{plugin}": {problem}'
    return _SAID[point].format(plugin=plugin, problem=problem) if point in _SAID else usual


class PluginError(Exception):
    """A plugin raised, or returned what its extension point does not allow. That pod's attempt is an error."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(in_words(plugin, point, problem))
        self.plugin = plugin
        self.point = point
        self.problem = problem
