"""Which method of a third-party plugin is being called, since when, and how long each plugin takes for a pod.

All plugins share the thread that decides. To stop a plugin and nothing else, its watcher (`engine.plugins.guard`) must
know in which plugin the thread is. Only third-party plugins are wrapped, so all others cost nothing.

Invariant: `current` is set exactly while code of that plugin is on the stack. If one plugin calls
a method of another, the time counts for the first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from functools import wraps
from math import inf
from types import coroutine
from typing import Any, Final

from podwright.core.framework.cluster_events import EventHint
from podwright.core.framework.errors import PluginStoppedError, StoppedError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState, FilterPlugin, FilterResult, ScorePlugin
from podwright.core.framework.methods import AWAITED, WITH_STATE, WITHOUT_STATE
from podwright.core.framework.read_only import read_only, seen, view

_OWN: Final = "podwright."
_SAME_SECONDS: Final = 1e-4
"""Calls without a state that begin within this time share one sample, because a sample takes longer than a short call.
"""

Sample = tuple[float, int]
"""CPU time in seconds and the number of voluntary context switches of the thread that decides."""


def is_third_party(plugin: type[Any]) -> bool:
    """True if the class is not one of Podwright's own plugins."""
    return not plugin.__module__.startswith(_OWN)


class GuardedPlugin:
    """A plugin of one policy. `owner`: the policy, as the guard's subclass knows it. `off`: whether the plugin is no
    longer used.
    """

    __slots__ = ("name", "off", "over", "owner")

    def __init__(self, name: str, owner: Any) -> None:
        self.name = name
        self.owner = owner
        self.over: list[float] = []
        """The times at which it exceeded its budget lately."""
        self.off = False


class _Unwrapped:
    """A plugin's methods for one node. Timing covers the whole loop over nodes: timing each call would double the cost
    of short calls.
    """

    __slots__ = ("filter", "name", "report_exception", "score")

    def __init__(self, plugin: Any) -> None:
        self.name = plugin.name
        self.report_exception = plugin.report_exception
        self.filter = _on_read_only(getattr(plugin, "filter", None))
        self.score = _on_read_only(getattr(plugin, "score", None))

    def loop(self, state: CycleState, each: Callable[..., Any], _plugin: Any, pod: Any, nodes: Any) -> Any:
        return each(self, state, pod, nodes)


def _on_read_only(method: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """The method, for a node that it cannot change."""
    return method and (lambda state, pod, node: method(state, pod, view(node)))


class CallGuard:
    """See the module. `clock` never steps back."""

    def __init__(self, clock: Callable[[], float], budget: float) -> None:
        """`budget`: how many seconds a plugin may take for one pod in one decision, and in one binding cycle."""
        self.clock = clock
        self.budget = budget
        self.current: GuardedPlugin | None = None
        self.since = 0.0
        self._shared: Sample = (0.0, 0)
        self._shared_until = -inf

    def sample(self) -> Sample:
        """The thread's CPU time and context switches so far."""
        return 0.0, 0

    def overran(self, plugin: GuardedPlugin, method: str, seconds: float, used: Sample) -> None:
        """The plugin took longer than its budget for one pod, or in one call that is not for a decision.

        `used`: by the thread since the first of these calls began.
        """

    def stopped(self, plugin: GuardedPlugin, method: str, error: StoppedError) -> str:
        """A call was stopped. Returns what is wrong, for the exception that takes the place of `error`, with its
        traceback.
        """
        return "was stopped"

    # Wrapping

    def protect(self, framework: Framework, owner: Any) -> None:
        """Wraps the methods of the framework's third-party plugins."""
        hints = dict(framework.hints)
        for plugin in framework.plugins.values():
            if not is_third_party(type(plugin)):
                continue
            guarded = GuardedPlugin(plugin.name, owner)
            if isinstance(plugin, FilterPlugin | ScorePlugin):
                plugin.loop = self._summed(guarded, "filter or score", _Unwrapped(plugin).loop)
            for names, wrap in ((WITH_STATE, self._summed), (WITHOUT_STATE, self._single), (AWAITED, self._awaited)):
                for name in names:
                    method = getattr(plugin, name, None)
                    if method is not None:
                        setattr(plugin, name, wrap(guarded, name, method))
            if plugin.name in hints:
                hints[plugin.name] = [self._hint(guarded, hint) for hint in hints[plugin.name]]
        framework.hints = hints
        framework.disabled_checks = tuple(
            (plugin, self._single(GuardedPlugin(plugin.name, owner), "pre_filter_disabled", check))
            if is_third_party(plugin)
            else (plugin, check)
            for plugin, check in framework.disabled_checks
        )

    def _summed(self, plugin: GuardedPlugin, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        clock, budget = self.clock, self.budget

        @wraps(method)
        def guarded(state: CycleState, *args: Any) -> Any:
            args = read_only(args)
            if self.current is not None:
                return method(state, *args)
            data: Any = state.data
            before, first = data.get(plugin) or (0.0, self.sample())
            self.since = started = clock()
            self.current = plugin
            try:
                return method(state, *args)
            except StoppedError as error:
                raise self._stopped(plugin, name, error) from None
            finally:
                self.current = None
                total = before + clock() - started
                data[plugin] = total, first
                if total > budget >= before:
                    self.overran(plugin, name, total, _since(first, self.sample()))

        if name != "filter_all":
            return guarded

        @wraps(method)
        def explaining(state: CycleState, *args: Any) -> Any:
            result = guarded(state, *args)
            if type(result) is FilterResult:
                return FilterResult(result.ok, self._single(plugin, "explain", result.explain))
            return result

        return explaining

    def _single(self, plugin: GuardedPlugin, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        clock, budget = self.clock, self.budget

        def guarded(*args: Any) -> Any:
            args = read_only(args)
            if self.current is not None:
                return method(*args)
            self.since = started = clock()
            if started > self._shared_until:
                self._shared, self._shared_until = self.sample(), started + _SAME_SECONDS
            self.current = plugin
            try:
                return method(*args)
            except StoppedError as error:
                raise self._stopped(plugin, name, error) from None
            finally:
                self.current = None
                if (took := clock() - started) > budget:
                    self.overran(plugin, name, took, _since(self._shared, self.sample()))

        return guarded

    def _awaited(
        self, plugin: GuardedPlugin, name: str, method: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        """Each step of a coroutine is a call. What it waits for does not count."""

        @wraps(method)
        async def guarded(state: CycleState, *args: Any) -> Any:
            return await self._steps(plugin, name, state.data, method(state, *args).__await__())

        return guarded

    @coroutine
    def _steps(
        self, plugin: GuardedPlugin, name: str, data: dict[Any, Any], steps: Generator[Any, Any, Any]
    ) -> Generator[Any, Any, Any]:
        step: Callable[..., Any] = steps.send
        value: Any = None
        key = plugin, AWAITED
        while True:
            first = self.sample()
            self.since = started = self.clock()
            self.current = plugin
            try:
                awaited = step(value)
            except StopIteration as end:
                return end.value
            except StoppedError as error:
                raise self._stopped(plugin, name, error) from None
            finally:
                self.current = None
                before, used_before = data.get(key) or (0.0, (0.0, 0))
                used = _both(used_before, _since(first, self.sample()))
                total = before + self.clock() - started
                data[key] = total, used
                if total > self.budget >= before:
                    self.overran(plugin, name, total, used)
            try:
                step, value = steps.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001 -- such as a cancellation, which the plugin gets
                step, value = steps.throw, error

    def _hint(self, plugin: GuardedPlugin, hint: EventHint) -> EventHint:
        function = hint.function
        if function is None:
            return hint
        guarded = self._single(plugin, "hints", function)
        return replace(hint, function=lambda pod, before, after: guarded(pod, seen(before), seen(after)))

    def _stopped(self, plugin: GuardedPlugin, name: str, error: StoppedError) -> PluginStoppedError:
        self.current = None  # a log handler takes its time, too
        return PluginStoppedError(self.stopped(plugin, name, error)).with_traceback(error.__traceback__)


def _since(first: Sample, last: Sample) -> Sample:
    return last[0] - first[0], last[1] - first[1]


def _both(one: Sample, other: Sample) -> Sample:
    return one[0] + other[0], one[1] + other[1]
