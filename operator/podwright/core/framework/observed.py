"""How measured attempts run plugins: `observed` times an extension point, `caller_of` and `awaited` time each plugin in
it.

An attempt is measured if its CycleState carries an observer; others pay one `is None` check for each extension point.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, TypeVarTuple, cast

from podwright.core.framework.contract import call
from podwright.core.framework.interface import CycleState, ExtensionPoint
from podwright.core.framework.observer import Observer
from podwright.core.framework.profile import Point, Profile
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod import PodInfo

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")

_PARTS: Final = {
    "unreserve": "Unreserve",
    "normalize": "ScoreExtensionNormalize",
    "pre_bind_pre_flight": "PreBindPreFlight",
}
"""kube-scheduler's names of the methods that share an extension point with another one."""


class _HasProfile(Protocol):
    profile: Profile


F = TypeVar("F", bound=_HasProfile)
_Method = Callable[Concatenate[F, CycleState, P], T]


class Call(Protocol):
    """Calls a method of a plugin; see `contract.call`."""

    def __call__(self, plugin: ExtensionPoint, point: Point, method: Callable[[*Ts], T], *args: *Ts) -> T: ...


class _ObservedCall:
    """`contract.call`, measured."""

    __slots__ = ("_observer",)

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def __call__(self, plugin: ExtensionPoint, point: Point, method: Callable[[*Ts], T], *args: *Ts) -> T:
        started, status = self._observer.start(), Code.ERROR.text
        try:
            answer = call(plugin, point, method, *args)
            status = _status_text(answer)
            return answer
        finally:
            name = _PARTS.get(getattr(method, "__name__", "")) or point_name(point)
            self._observer.plugin_ended(started, plugin.name, name, status)


def caller_of(state: CycleState) -> Call:
    """How plugins are called in this cycle."""
    return call if state.observer is None else _ObservedCall(state.observer)


async def awaited(
    observer: Observer, plugin: ExtensionPoint, point: Point, answer: Awaitable[Status | None]
) -> Status | None:
    """The answer of a plugin's asynchronous method, measured. The method must not have begun to run."""
    started, text = observer.start(), Code.ERROR.text
    try:
        status = await answer
        text = _status_text(status)
        return status
    finally:
        observer.plugin_ended(started, plugin.name, point_name(point), text)


def observed(name: str) -> Callable[[_Method[F, P, T]], _Method[F, P, T]]:
    """Decorates a method of the framework that runs all plugins of an extension point. `name`: kube-scheduler's name of
    it.
    """

    def decorate(method: _Method[F, P, T]) -> _Method[F, P, T]:
        def measured(observer: Observer, framework: F, state: CycleState, /, *args: P.args, **kwargs: P.kwargs) -> T:
            started, status = observer.start(), Code.ERROR.text
            try:
                answer = method(framework, state, *args, **kwargs)
                status = _status_text(answer)
                return answer
            finally:
                observer.point_ended(started, framework.profile.scheduler_name, name, status)

        return _if_observed(method, measured)

    return decorate


def observed_async(name: str) -> Callable[[_Method[F, P, Awaitable[T]]], _Method[F, P, Awaitable[T]]]:
    """`observed` for the asynchronous points."""

    def decorate(method: _Method[F, P, Awaitable[T]]) -> _Method[F, P, Awaitable[T]]:
        async def measured(
            observer: Observer, framework: F, state: CycleState, /, *args: P.args, **kwargs: P.kwargs
        ) -> T:
            started, status = observer.start(), Code.ERROR.text
            try:
                answer = await method(framework, state, *args, **kwargs)
                status = _status_text(answer)
                return answer
            finally:
                observer.point_ended(started, framework.profile.scheduler_name, name, status)

        return _if_observed(method, measured)

    return decorate


def _if_observed(method: _Method[F, P, T], measured: Callable[..., T]) -> _Method[F, P, T]:
    """Calls `measured` in measured attempts, else `method`.

    It has one signature for each number of arguments, because to pass on `*args` takes longer than some plugins do.
    Their names differ from the method's, so the method's parameters must be positional-only. Raises TypeError.
    """
    plain: Callable[..., T] = method

    def two(self: F, state: CycleState, pod: PodInfo, /) -> T:
        observer = state.observer
        return plain(self, state, pod) if observer is None else measured(observer, self, state, pod)

    def three(self: F, state: CycleState, pod: PodInfo, third: Any, /) -> T:
        observer = state.observer
        return plain(self, state, pod, third) if observer is None else measured(observer, self, state, pod, third)

    def four(self: F, state: CycleState, pod: PodInfo, third: Any, fourth: Any = None, /) -> T:
        observer = state.observer
        if observer is None:
            return plain(self, state, pod, third, fourth)
        return measured(observer, self, state, pod, third, fourth)

    by_arguments: Mapping[int, Callable[..., T]] = {2: two, 3: three, 4: four}
    parameters = signature(method).parameters.values()
    if any(parameter.kind is not Parameter.POSITIONAL_ONLY for parameter in parameters):
        raise TypeError(f"{method.__qualname__}: all parameters of an observed method must be positional-only")
    wrapper = by_arguments.get(len(parameters) - 1)
    if wrapper is None:
        raise TypeError(
            f"{method.__qualname__}: an observed method takes a state, a pod and at most two more arguments"
        )
    return cast(_Method[F, P, T], wraps(method)(wrapper))


def point_name(point: Point) -> str:
    """kube-scheduler's name of the point in metrics: `PreFilter`."""
    return point.key[0].upper() + point.key[1:]


def _status_text(answer: Any) -> str:
    """The code of a status, of an answer's attribute `status`, or of the status in a tuple. Every other answer is a
    success.
    """
    parts = answer if isinstance(answer, tuple) else (answer, getattr(answer, "status", None))
    return next((part.code.text for part in parts if isinstance(part, Status)), Code.SUCCESS.text)
