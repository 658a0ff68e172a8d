"""Calls of plugins, and checks of what they return. Every fault becomes a PluginError that names the plugin.

So a broken plugin fails the attempt of one pod, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar, TypeVarTuple

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.cluster_events import Action, ClusterEvent, EventHint
from podwright.core.framework.cost import Cost
from podwright.core.framework.errors import ContractError, PluginError, failure_message
from podwright.core.framework.interface import (
    MAX_SCORE,
    Bools,
    ClusterError,
    DomainPlugin,
    EnqueueExtensions,
    ExtensionPoint,
    FilterPlugin,
    FilterResult,
    PostFilterResult,
    PreFilterResult,
    Scope,
)
from podwright.core.framework.profile import Point
from podwright.core.framework.status import SKIP, Code, Status
from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.errors import InvalidObjectError, described
from podwright.core.objects.pod import PodInfo

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_IN_TREE: Final = "podwright.core.plugins."
_INT64: Final = range(-(2**63), 2**63)
MAX_WAIT: Final = 15 * 60.0
"""The longest time in seconds that Permit can delay a pod, as in kube-scheduler."""


def call(plugin: ExtensionPoint, point: Point, method: Callable[[*Ts], T], *args: *Ts) -> T:
    """Calls a method of a plugin. An exception from it becomes a PluginError."""
    try:
        return method(*args)
    except BaseException as error:
        raise failed(plugin, point, error) from error


def failed(
    plugin: ExtensionPoint,
    point: Point,
    error: BaseException,
    interrupts: Callable[[BaseException], bool] | None = None,
) -> PluginError:
    """Turns the exception of a plugin's method into a PluginError. Raises `error` again if it is not the plugin's.

    `interrupts`, for awaited methods: True if an exception cancels the running task.
    """
    if isinstance(error, PluginError) or passes_through(error) or (interrupts is not None and interrupts(error)):
        raise error
    return raised(plugin, point.key, error)


def contained(plugin: ExtensionPoint, point: Point, method: Callable[[*Ts], object], *args: *Ts) -> None:
    """Calls a method whose answer is not needed. An exception from it is reported, and not raised."""
    with suppress(PluginError):
        call(plugin, point, method, *args)


def attach(plugin: Any, framework: Any) -> None:
    """Calls `attach` of a plugin, as a part of its construction."""
    try:
        plugin.attach(framework)
    except PluginError:
        raise
    except BaseException as error:
        if passes_through(error):
            raise
        raise raised(plugin, "constructor", error) from error


def guarded(plugin: ExtensionPoint, point: Point, method: Callable[[*Ts], T]) -> Callable[[*Ts], T]:
    """The method, made to raise PluginErrors only. In-tree plugins are trusted not to fail."""
    if is_in_tree(plugin):
        return method

    def run(*args: *Ts) -> T:
        return call(plugin, point, method, *args)

    return run


def fault(plugin: ExtensionPoint, point: Point, problem: str) -> PluginError:
    """Reports that the plugin broke its contract, and makes a PluginError of it."""
    _report(plugin, point.key, ContractError(problem))
    return PluginError(plugin.name, point.key, problem)


def raised(plugin: ExtensionPoint, point: str, error: BaseException) -> PluginError:
    """Reports an exception that the plugin raised, and makes a PluginError of it. `point`: an extension point's key, or
    `hints`.
    """
    _report(plugin, point, error)
    return PluginError(plugin.name, point, described(error))


def _report(plugin: ExtensionPoint, point: str, error: BaseException) -> None:
    """Failures of the API server and invalid objects are not the plugin's fault, so they are not reported."""
    if plugin.report_exception is not None and not isinstance(error, ClusterError | InvalidObjectError):
        plugin.report_exception(plugin.name, point, error)


def _reporting(plugin: ExtensionPoint, point: str, function: Callable[..., T]) -> Callable[..., T]:
    """The function, made to report its exceptions. It is called where only the plugin's name is known."""

    def run(*args: Any) -> T:
        try:
            return function(*args)
        except BaseException as error:
            if passes_through(error):
                raise
            _report(plugin, point, error)
            raise

    return run


def status_of(plugin: ExtensionPoint, point: Point, answer: Any) -> Status | None:
    """A Status stamped with the plugin's name, or None for success. `SKIP` is returned unchanged, because it is
    frequent.
    """
    if answer is None or answer is SKIP:
        return answer
    if not isinstance(answer, Status):
        raise fault(plugin, point, f"returned {_kind(answer)}, expected a Status or None")
    if not isinstance(answer.reasons, tuple) or not all(isinstance(reason, str) for reason in answer.reasons):
        raise fault(plugin, point, "returned a Status whose reasons are not a tuple of strings")
    return None if answer.code is Code.SUCCESS else answer.by(plugin.name)


def outcome_of(plugin: ExtensionPoint, point: Point, answer: Any) -> Status | None:
    """`status_of` for points where other codes than a rejection, Wait or Skip are errors. The error names the plugin
    and point.
    """
    status = status_of(plugin, point, answer)
    if status is None or status.rejected or status.code in (Code.WAIT, Code.SKIP):
        return status
    problem = status.message or status.code.text
    return Status(Code.ERROR, (failure_message(plugin.name, point.key, problem),), status.plugin)


def verdict_key_of(plugin: FilterPlugin, pod: PodInfo) -> Hashable | None:
    """The plugin's `verdict_key`, which must be hashable."""
    if is_in_tree(plugin):
        return plugin.verdict_key(pod)
    key = call(plugin, Point.FILTER, plugin.verdict_key, pod)
    call(plugin, Point.FILTER, hash, key)
    return key


def pre_filter_answer(plugin: ExtensionPoint, answer: Any) -> PreFilterResult | Status | None:
    """PreFilter's answer."""
    return answer if isinstance(answer, PreFilterResult) else status_of(plugin, Point.PRE_FILTER, answer)


def filter_result(plugin: ExtensionPoint, answer: Any, length: int) -> FilterResult | None:
    """`filter_all`'s answer: bool[length]."""
    if answer is None:
        return None
    if not isinstance(answer, FilterResult) or not isinstance(answer.ok, np.ndarray):
        raise fault(plugin, Point.FILTER, f"filter_all returned {_kind(answer)}, expected a FilterResult or None")
    if answer.ok.shape != (length,) or answer.ok.dtype != np.bool_:
        raise fault(plugin, Point.FILTER, f"filter_all returned {_kind(answer.ok)}, expected bool[{length}]")
    if is_in_tree(plugin):
        return answer
    return FilterResult(answer.ok, _reporting(plugin, Point.FILTER.key, answer.explain))


def explained(plugin: str, result: FilterResult, rejected: Bools) -> tuple[NDArray[Any], Sequence[Status]]:
    """The result of `explain`: int[nodes] codes, and stamped statuses that the codes of rejected rows index."""
    try:
        codes, statuses = result.explain()
        codes = np.asarray(codes)
        stamped = [status if status is None else status.by(plugin) for status in statuses]
        used = np.unique(codes[rejected])
        sound = np.issubdtype(codes.dtype, np.integer) and all(0 <= code < len(stamped) for code in used)
        if not sound or not all(stamped[int(code)].rejected for code in used):
            raise ValueError(f"codes {_kind(codes)} for {len(stamped)} statuses do not name a rejection of each node")
    except BaseException as error:
        if passes_through(error):
            raise
        raise PluginError(plugin, Point.FILTER.key, f"explain: {described(error)}") from error
    return codes, stamped


def score_of(plugin: ExtensionPoint, answer: Any) -> int:
    """One node's score."""
    if isinstance(answer, bool) or not isinstance(answer, int | np.integer) or int(answer) not in _INT64:
        raise fault(plugin, Point.SCORE, f"score returned {_kind(answer)}, expected a whole number of 64 bits")
    return int(answer)


def scores_of(plugin: ExtensionPoint, answer: Any, length: int) -> Any:
    """`score_all`'s or `normalize`'s answer: signed whole numbers, [length], or one whole number."""
    if isinstance(answer, np.ndarray) and answer.shape == (length,) and answer.dtype.kind == "i":
        return answer
    if isinstance(answer, int | np.integer) and not isinstance(answer, bool):
        return int(answer)
    raise fault(plugin, Point.SCORE, f"returned {_kind(answer)}, expected int64[{length}]")


def check_range(plugin: ExtensionPoint, scores: Any) -> None:
    """Checks that final scores are 0 to 100."""
    if isinstance(scores, int):
        low = high = scores
    elif not len(scores):
        return
    else:
        low, high = int(scores.min()), int(scores.max())
    if low < 0 or high > MAX_SCORE:
        problem = f"scores from {low} to {high}, expected 0 to {MAX_SCORE} after normalize"
        raise fault(plugin, Point.SCORE, problem)


def permit_answer(plugin: ExtensionPoint, answer: Any) -> tuple[Status | None, float]:
    """Permit's answer: a status, and the seconds to wait, capped at MAX_WAIT."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise fault(plugin, Point.PERMIT, f"returned {_kind(answer)}, expected (Status or None, seconds)")
    status = outcome_of(plugin, Point.PERMIT, answer[0])
    if status is None or status.code is not Code.WAIT:
        return status, 0.0
    seconds = answer[1]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise fault(plugin, Point.PERMIT, f"wants to wait {seconds!r:.40}, expected seconds")
    return status, min(float(seconds), MAX_WAIT)


def post_filter_answer(plugin: ExtensionPoint, answer: Any) -> tuple[PostFilterResult | None, Status]:
    """PostFilter's answer, with the status stamped with the plugin's name."""
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], Status):
        raise fault(plugin, Point.POST_FILTER, f"returned {_kind(answer)}, expected (result or None, Status)")
    result, status = answer
    if result is not None and not isinstance(result, PostFilterResult):
        raise fault(plugin, Point.POST_FILTER, f"returned {_kind(result)}, expected a PostFilterResult or None")
    status_of(plugin, Point.POST_FILTER, status)
    return result, status.by(plugin.name)


def hints_of(plugin: EnqueueExtensions) -> tuple[EventHint, ...]:
    """The plugin's hints, each an EventHint of a ClusterEvent."""
    try:
        hints = tuple(plugin.hints())
    except BaseException as error:
        if passes_through(error):
            raise
        raise raised(plugin, "hints", error) from error
    for hint in hints:
        if not isinstance(hint, EventHint) or not isinstance(hint.event, ClusterEvent):
            raise PluginError(plugin.name, "hints", f"returned {_kind(hint)}, expected EventHints")
        if not isinstance(hint.event.resource, str) or not isinstance(hint.event.action, Action):
            raise PluginError(
                plugin.name, "hints", f"returned the event {hint.event!r:.80}, expected a kind and an Action"
            )
        if hint.function is not None and not callable(hint.function):
            raise PluginError(plugin.name, "hints", f"returned {_kind(hint.function)}, expected a function or None")
    if is_in_tree(plugin):
        return hints
    return tuple(
        hint if hint.function is None else replace(hint, function=_reporting(plugin, "hints", hint.function))
        for hint in hints
    )


def costs_of(plugin: Any, pod: PodInfo) -> Iterable[Cost]:
    """The costs of a third-party plugin. If it fails to name them, that is reported, and it has none."""
    try:
        return [
            Cost(int(number), str(items), float(each), float(more)) for number, items, each, more in plugin.costs(pod)
        ]
    except BaseException as error:
        if passes_through(error):
            raise
        _report(plugin, "costs", error)
        return ()


def said(plugin: Any, method: str, answer: Callable[[], T], nothing: T) -> T:
    """Returns the plugin's answer in a method for explanations. If a third-party plugin fails, reports that and returns
    `nothing`.
    """
    if is_in_tree(plugin):
        return answer()
    try:
        return answer()
    except BaseException as error:
        if passes_through(error):
            raise
        _report(plugin, method, error)
        return nothing


def is_in_tree(plugin: Any) -> bool:
    """True if the plugin is one of Podwright's own."""
    return bool(plugin.__class__.__module__.startswith(_IN_TREE))  # not `type`, see `measured`


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return (
        f"{type(value).__name__} {value!r:.40}" if isinstance(value, bool | int | float | str) else type(value).__name__
    )


def looks_beyond_node(plugin: Any, pod: PodInfo) -> bool:
    """True if the plugin's answers for this pod, the one being scheduled, may depend on pods on other nodes."""
    if isinstance(plugin, DomainPlugin):
        return guarded(plugin, Point.FILTER, plugin.looks_beyond_node)(pod)
    return bool(plugin.scope > Scope.NODE_PODS)
