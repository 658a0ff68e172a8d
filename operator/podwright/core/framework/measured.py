"""The framework for measured attempts. It decides as the policy's framework does, and reports how long each extension
point took, and each plugin in it.

An attempt is measured if its CycleState carries an observer. All others run no code for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState
from podwright.core.framework.observer import Observer
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod import PodInfo

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])
Ended = Callable[[float, str, str, str], None]
"""`plugin_ended` or `point_ended` of an observer."""

_METHODS: Final = {
    "pre_filter_plugins": {"pre_filter": "PreFilter"},
    "filter_plugins": {"filter_all": "Filter", "loop": "Filter"},
    "post_filter_plugins": {"post_filter": "PostFilter"},
    "pre_score_plugins": {"pre_score": "PreScore"},
    "score_plugins": {"score_all": "Score", "loop": "Score", "normalize": "ScoreExtensionNormalize"},
    "reserve_plugins": {"reserve": "Reserve", "unreserve": "Unreserve"},
    "permit_plugins": {"permit": "Permit"},
    "pre_bind_plugins": {"pre_bind_pre_flight": "PreBindPreFlight", "pre_bind": "PreBind"},
    "bind_plugins": {"bind": "Bind"},
    "post_bind_plugins": {"post_bind": "PostBind"},
}
"""The methods of plugins that are timed, with kube-scheduler's names. Dry runs call others."""


def measured(framework: Framework, observer: Observer | None) -> Framework:
    """The framework for an attempt that reports to the observer; without one, `framework` itself."""
    if observer is None:
        return framework
    if not isinstance(framework.measured, _MeasuredFramework) or framework.measured.reports_to is not observer:
        framework.measured = _MeasuredFramework(framework, observer)
    return framework.measured


class _MeasuredPlugin:
    """Poses as the plugin. Its methods of one point are timed."""

    def __init__(self, plugin: Any, *, methods: dict[str, str], observer: Observer) -> None:
        self._plugin = plugin
        for name, point in methods.items():
            method = getattr(plugin, name, None)
            if method is None and name == "loop":
                method = _run_loop
            if method is not None:
                timed = _timed_awaited if name in ("pre_bind", "bind", "post_bind") else _timed
                setattr(self, name, timed(method, observer, observer.plugin_ended, plugin.name, point))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plugin, name)

    @property  # type: ignore[misc]  # as a proxy, it is of the class that it stands for
    def __class__(self) -> type[Any]:
        return type(self._plugin)


def _run_loop(state: CycleState, each: Callable[..., T], plugin: Any, pod: PodInfo, nodes: Any) -> T:
    return each(plugin, state, pod, nodes)


def _timed(method: M, observer: Observer, ended: Ended, of: str, point: str) -> M:
    """`of`: the plugin's or the profile's name."""

    @wraps(method)
    def run(*args: Any) -> Any:
        started, status = observer.start(), Code.ERROR.text
        try:
            answer = method(*args)
            status = _status_text(answer)
            return answer
        finally:
            ended(started, of, point, status)

    return cast(M, run)


def _timed_awaited(method: M, observer: Observer, ended: Ended, of: str, point: str) -> M:
    @wraps(method)
    async def run(*args: Any) -> Any:
        started, status = observer.start(), Code.ERROR.text
        try:
            answer = await method(*args)
            status = _status_text(answer)
            return answer
        finally:
            ended(started, of, point, status)

    return cast(M, run)


def _point(method: M, name: str, timed: Callable[[M, Observer, Ended, str, str], M] = _timed) -> M:
    def run(self: _MeasuredFramework, *args: Any) -> Any:
        ended = self.reports_to.point_ended
        return timed(method, self.reports_to, ended, self.profile.scheduler_name, name)(self, *args)

    return cast(M, run)


class _MeasuredFramework(Framework):
    """Shares all but the lists of plugins with the framework that it is made of."""

    def __init__(self, framework: Framework, observer: Observer) -> None:
        self.__dict__.update(vars(framework))
        self.measured = None  # not the last attempt's, or each would keep the one before
        self.reports_to = observer
        for name, methods in _METHODS.items():
            plugins = [
                _MeasuredPlugin(plugin, methods=methods, observer=observer) for plugin in getattr(framework, name)
            ]
            setattr(self, name, tuple(plugins))

    pre_filter = _point(Framework.pre_filter, "PreFilter")
    filter_all = _point(Framework.filter_all, "Filter")
    post_filter = _point(Framework.post_filter, "PostFilter")
    pre_score = _point(Framework.pre_score, "PreScore")
    score = _point(Framework.score, "Score")
    reserve = _point(Framework.reserve, "Reserve")
    unreserve = _point(Framework.unreserve, "Unreserve")
    permit = _point(Framework.permit, "Permit")
    pre_bind = _point(Framework.pre_bind, "PreBind", _timed_awaited)
    bind = _point(Framework.bind, "Bind", _timed_awaited)
    post_bind = _point(Framework.post_bind, "PostBind", _timed_awaited)


def _status_text(answer: Any) -> str:
    """The code of a status, of an answer's attribute `status`, or of the status in a tuple. Every other answer is a
    success.
    """
    parts = answer if isinstance(answer, tuple) else (answer, getattr(answer, "status", None))
    return next((part.code.text for part in parts if isinstance(part, Status)), Code.SUCCESS.text)
