"""PluginError: a plugin raised an exception or broke its contract."""

from __future__ import annotations

from typing import Final

_TEMPLATES: Final = {
    "filter": 'running "{plugin}" filter plugin: {problem}',
    "score": 'running Score plugins: plugin "{plugin}" failed with: {problem}',
    "constructor": 'initializing plugin "{plugin}": {problem}',
}


def failure_message(plugin: str, point: str, problem: str) -> str:
    """The message of the failure, in the words of kube-scheduler's events. `point`: an extension point's key."""
    default = f'running {point[:1].upper()}{point[1:]} plugin "{plugin}": {problem}'
    return _TEMPLATES[point].format(plugin=plugin, problem=problem) if point in _TEMPLATES else default


class PluginError(Exception):
    """A plugin raised an exception, or returned a value that its extension point does not allow. The pod's attempt fails."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(failure_message(plugin, point, problem))
        self.plugin = plugin
        self.point = point
        self.problem = problem
