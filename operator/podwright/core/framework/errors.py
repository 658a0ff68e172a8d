"""PluginError: a plugin raised an exception or broke its contract. Also, where in the plugin's code an exception was
raised.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import PurePath
from types import TracebackType
from typing import Final

from podwright.core.objects.control_flow import ControlFlowError

ReportException = Callable[[str, str, BaseException], None]
"""`report(plugin, point, exception)`: a method of the plugin raised the exception at this extension point (its key)."""

_FRAMEWORK: Final = "podwright.core.framework."
_FRAMES: Final = 3

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
    """A plugin raised an exception, or returned a value that its extension point does not allow. The pod's attempt
    fails.
    """

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(failure_message(plugin, point, problem))
        self.plugin = plugin
        self.point = point
        self.problem = problem


class ContractError(Exception):
    """A plugin returned a value that its extension point does not allow. It is reported, and not raised."""


class StoppedError(ControlFlowError):
    """Raised in code of a plugin that takes too long. It does not inherit Exception, so that `except Exception` in the
    plugin does not catch it.
    """


class PluginStoppedError(Exception):
    """The error that replaces a StoppedError where the plugin was called."""


def plugin_traceback(error: BaseException) -> TracebackType | None:
    """The exception's traceback from the plugin's own code on, without the frames of the framework that called it.

    The whole traceback if the plugin's code was not reached.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_FRAMEWORK):
        trace = trace.tb_next
    return error.__traceback__ if trace is None else trace


def raised_at(error: BaseException) -> str:
    """Where the exception was raised, as `team_nodes.py, line 9, in filter`: the last three calls, the innermost one
    last.
    """
    frames = traceback.extract_tb(plugin_traceback(error))[-_FRAMES:]
    return "; ".join(f"{PurePath(frame.filename).name}, line {frame.lineno}, in {frame.name}" for frame in frames)
