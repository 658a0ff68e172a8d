"""Watches the calls of third-party plugins: a call that does not return is stopped, and a plugin that is often too slow
is switched off.

    a call takes more than its budget ─► counted; three times within a minute
        ─► the listeners switch the plugin off (policies/plugin_switches.py)
    a call takes STOP_SECONDS
        ─► `stop`, called by a timer in the thread that decides (kube/plugins/alarm.py), raises StoppedError into it

`stop` is not called by another thread, but in the thread that decides, between two of its instructions. So it knows
where that thread is, and raises only in code of the plugin: not if the plugin has just returned, and not in a function
of the core that the plugin calls, which would be left half done.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from podwright.core.framework import guarded
from podwright.core.framework.errors import PluginStoppedError, StoppedError
from podwright.core.framework.guarded import CallGuard, GuardedPlugin, Sample
from podwright.engine.records.metrics import PLUGIN_OVERRUNS, PLUGIN_STOPS, Metrics

log = logging.getLogger(__name__)

BUDGET_SECONDS: Final = 0.05
"""The default of how long a plugin may take for one pod: in its decision, and again in its binding cycle."""
STOP_SECONDS: Final = 1.0
"""How long a call may take."""
OVERRUNS: Final = 3
OVERRUN_SECONDS: Final = 60.0
"""A plugin that exceeds its budget OVERRUNS times within this time is switched off."""
TICK_SECONDS: Final = 0.25
"""How often `stop` is called."""
_QUEUE_SORT: Final = "sort_key"
_FRAMES: Final = 50
_NO_PLUGINS: Final = sys.stdlib_module_names | {"google", "kopf", "numpy", "orjson", "podwright", "re2"}
"""Packages whose functions the core calls."""


class PluginGuard(CallGuard):
    """See the module. The owner of each plugin is a CompiledPolicy. `clock` never steps back; `cpu`: the CPU time in
    seconds of the thread that decides, `waits`: the number of its voluntary context switches.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        clock: Callable[[], float],
        cpu: Callable[[], float],
        waits: Callable[[], int] = int,
        budget: float = BUDGET_SECONDS,
    ) -> None:
        super().__init__(clock, budget)
        self._cpu = cpu
        self._waits = waits
        self._metrics = metrics
        self._building: list[float] = []
        """How many seconds plugins have, for each build or load that is in progress."""
        self._in_plugin: tuple[str, int] = "", 0
        """While plugins are built: the module that the thread is in, and how many ticks in a row found it there."""
        self._switch: Callable[[GuardedPlugin, str], None] = lambda _plugin, _why: None

    def listen(self, switch: Callable[[GuardedPlugin, str], None]) -> None:
        """Sets the function that switches plugins off. It is called with the plugin and the reason, in the middle of an
        attempt.
        """
        self._switch = switch

    # Budgets

    def sample(self) -> Sample:
        return self._cpu(), self._waits()

    def overran(self, plugin: GuardedPlugin, method: str, seconds: float, used: Sample) -> None:
        if plugin.off:
            return
        cpu, waits = used
        if cpu < self.budget and not waits:
            return  # other processes had the CPU meanwhile
        now = self.clock()
        plugin.over = [at for at in plugin.over if now < at + OVERRUN_SECONDS]
        self._metrics.count(PLUGIN_OVERRUNS, plugin.name)
        if method == _QUEUE_SORT and plugin.over:
            return  # there is no queue without it
        plugin.over.append(now)
        took, budget = f"took {seconds * 1e3:,.0f} ms for one pod", f"its budget of {self.budget * 1e3:g} ms"
        log.warning("policy %s: plugin %s %s, more than %s", plugin.owner.name, plugin.name, took, budget)
        if len(plugin.over) >= OVERRUNS and method != _QUEUE_SORT:
            plugin.off = True
            self._switch(
                plugin, f"it {took}, the third time within {OVERRUN_SECONDS:g} s that this was more than {budget}"
            )

    def stopped(self, plugin: GuardedPlugin, method: str, error: StoppedError) -> str:
        seconds = self.clock() - self.since
        self._metrics.count(PLUGIN_STOPS, plugin.name)
        _end_in_plugin(error)
        log.error(
            "policy %s: plugin %s did not return from %s for %.1f s, and was stopped",
            plugin.owner.name,
            plugin.name,
            method,
            seconds,
            exc_info=(type(error), error, error.__traceback__),
        )
        return f"did not return from {method} within {STOP_SECONDS:g} s, and was stopped"

    # Calls that do not return

    @contextmanager
    def building(self, seconds: float | None = None) -> Iterator[None]:
        """A context in which code of plugins may run outside of calls, because plugins are loaded, constructed, or
        their arguments checked. `seconds`: how long each of these may take; None: STOP_SECONDS.
        """
        self._building.append(STOP_SECONDS if seconds is None else seconds)
        try:
            yield
        finally:
            self._building.pop()
            self._in_plugin = "", 0

    def overdue(self) -> bool:
        """True if a call, or what plugins do while they are built, takes too long."""
        if self.current is not None:
            return self.clock() - self.since >= STOP_SECONDS
        return bool(self._building) and self._in_plugin[1] > self._building[-1] / TICK_SECONDS

    def stop(self, frame: FrameType | None) -> None:
        """Called in the thread that decides, every TICK_SECONDS, and again soon while a call is overdue. `frame`: where
        the thread is.

        Raises StoppedError into a call that is overdue, and PluginStoppedError into the import or the construction of a
        plugin.
        """
        plugin = self.current
        if plugin is None:
            self._stop_building(frame)
        elif self.overdue() and is_in_plugin(frame):
            raise StoppedError

    def _stop_building(self, frame: FrameType | None) -> None:
        if not self._building or not is_in_plugin(frame):
            self._in_plugin = "", 0
            return
        module, (before, ticks) = _outermost_plugin(frame), self._in_plugin
        self._in_plugin = module, ticks + 1 if module == before else 1
        if self.overdue():
            log.error("code of a plugin did not return, and was stopped at:\n%s", stack_of(frame))
            raise PluginStoppedError(f"did not return within {self._building[-1]:g} s, and was stopped")


def is_in_plugin(frame: FrameType | None) -> bool:
    """True if the innermost code outside of libraries belongs to a plugin, and may be interrupted."""
    outside = False
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        package = name.partition(".")[0]
        if package == "podwright":
            return outside and name == guarded.__name__
        if package not in _NO_PLUGINS:
            return True
        outside, frame = True, frame.f_back
    return False


def _outermost_plugin(frame: FrameType | None) -> str:
    """Returns the module of the running plugin, also while a library runs that the plugin uses."""
    found = ""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        package = name.partition(".")[0]
        if package == "podwright":
            return found
        if package not in _NO_PLUGINS:
            found = name
        frame = frame.f_back
    return found


def _end_in_plugin(error: BaseException) -> None:
    """Removes Podwright's own frames from the end of the exception's traceback."""
    last = trace = error.__traceback__
    while trace is not None:
        if not str(trace.tb_frame.f_globals.get("__name__", "")).startswith("podwright."):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


def stack_of(frame: FrameType | None) -> str:
    """The innermost calls as text, the innermost one last."""
    return "" if frame is None else "".join(traceback.format_list(traceback.extract_stack(frame, _FRAMES)))
