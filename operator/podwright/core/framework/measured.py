"""A Framework that measures: the same plugins, and how long each of them and each extension point takes.

Measuring is not free, so whoever runs cycles has two frameworks of a profile and takes this one now and then. Per-node calls are
not measured one by one, but all nodes together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from podwright.core.framework.contract import call
from podwright.core.framework.diagnosis import NodeDiagnosis
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework, PreFilterOutcome
from podwright.core.framework.interface import (
    Bools,
    CycleState,
    Feasible,
    FilterResult,
    Int64s,
    PostFilterResult,
)
from podwright.core.framework.profile import Point
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns.table import NodeTable

T = TypeVar("T")

SUCCESS: Final = Code.SUCCESS.text
ERROR: Final = Code.ERROR.text
_NAMES: Final = {
    "unreserve": "Unreserve",
    "normalize": "ScoreExtensionNormalize",
    "pre_bind_pre_flight": "PreBindPreFlight",
}
"""What a plugin's method is called where its point has several; kube-scheduler's words, as are the points'."""


class Observer(Protocol):
    """Is told what was measured. Points and statuses by kube-scheduler's names, times in seconds."""

    def plugin_took(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin at one point."""

    def point_took(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of a point."""


class MeasuredFramework(Framework):
    """See the module. Shares everything with `framework`, which goes on unmeasured. `clock` gives seconds."""

    def __init__(self, framework: Framework, clock: Callable[[], float], observer: Observer) -> None:
        self.__dict__.update(framework.__dict__)
        self._clock = clock
        self._observer = observer

    # Plugins

    def _call(  # type: ignore[override]
        self, plugin: Any, point: Point, method: Callable[..., T], *args: Any
    ) -> T:
        return self._measured(plugin, point_name(point, method), lambda: call(plugin, point, method, *args))

    async def _await(  # type: ignore[override]
        self, plugin: Any, point: Point, method: Callable[..., Any], *args: Any
    ) -> Status | None:
        started, status = self._clock(), ERROR
        try:
            answer = await super()._await(plugin, point, method, *args)
            status = status_text(answer)
            return answer
        finally:
            self._observer.plugin_took(plugin.name, point_name(point, method), status, self._clock() - started)

    def _filter_each(self, plugin: Any, state: CycleState, pod: PodInfo, alive: Bools) -> FilterResult | None:
        run = super()._filter_each
        return self._measured(plugin, point_name(Point.FILTER), lambda: run(plugin, state, pod, alive))

    def _score_plugin(self, plugin: Any, state: CycleState, pod: PodInfo, feasible: Feasible) -> Int64s | int:
        run = super()._score_plugin
        if plugin.score_all is not None:
            return run(plugin, state, pod, feasible)
        return self._measured(plugin, point_name(Point.SCORE), lambda: run(plugin, state, pod, feasible))

    def _measured(self, plugin: Any, point: str, run: Callable[[], T]) -> T:
        started, status = self._clock(), ERROR
        try:
            answer = run()
            status = status_text(answer)
            return answer
        finally:
            self._observer.plugin_took(plugin.name, point, status, self._clock() - started)

    # Points

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterOutcome:
        run = super().pre_filter
        return self._point("PreFilter", lambda: run(state, pod), lambda outcome: outcome.status)

    def filter_all(self, state: CycleState, pod: PodInfo, table: NodeTable, diagnosis: NodeDiagnosis) -> Bools:
        run = super().filter_all
        return self._point("Filter", lambda: run(state, pod, table, diagnosis))

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: NodeDiagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        run = super().post_filter
        return self._point("PostFilter", lambda: run(state, pod, diagnosis), lambda answer: answer[1])

    def pre_score(self, state: CycleState, pod: PodInfo, feasible: Feasible) -> None:
        run = super().pre_score
        self._point("PreScore", lambda: run(state, pod, feasible))

    def score(
        self, state: CycleState, pod: PodInfo, feasible: Feasible, details: dict[str, Int64s] | None = None
    ) -> Int64s:
        run = super().score
        return self._point("Score", lambda: run(state, pod, feasible, details))

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        run = super().reserve
        return self._point("Reserve", lambda: run(state, pod, node_name), lambda answer: answer)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Sequence[PluginError]:
        run = super().unreserve
        return self._point("Unreserve", lambda: run(state, pod, node_name))

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, Mapping[str, float]]:
        run = super().permit
        return self._point("Permit", lambda: run(state, pod, node_name), lambda answer: answer[0])

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        started, status = self._clock(), ERROR
        try:
            answer = await super().pre_bind(state, pod, node_name)
            status = status_text(answer)
            return answer
        finally:
            self._took("PreBind", status, started)

    async def bind(
        self, state: CycleState, pod: PodInfo, node_name: str, annotations: Mapping[str, str]
    ) -> Status | None:
        started, status = self._clock(), ERROR
        try:
            answer = await super().bind(state, pod, node_name, annotations)
            status = status_text(answer)
            return answer
        finally:
            self._took("Bind", status, started)

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        started = self._clock()
        try:
            await super().post_bind(state, pod, node_name)
        finally:
            self._took("PostBind", SUCCESS, started)

    def _point(self, point: str, run: Callable[[], T], status_of: Callable[[T], Status | None] = lambda _: None) -> T:
        started, status = self._clock(), ERROR
        try:
            answer = run()
            status = status_text(status_of(answer))
            return answer
        finally:
            self._took(point, status, started)

    def _took(self, point: str, status: str, started: float) -> None:
        self._observer.point_took(point, status, self.profile.scheduler_name, self._clock() - started)


def point_name(point: Point, method: Callable[..., Any] | None = None) -> str:
    """kube-scheduler's name of the point, or of the part of it that the method is: `PreFilter`, `PreBindPreFlight`."""
    part = _NAMES.get(getattr(method, "__name__", ""))
    return part or f"{point.key[0].upper()}{point.key[1:]}"


def status_text(answer: Any) -> str:
    """The code of what a plugin returned: a status, a pair with one, or something that is a success."""
    statuses = [part for part in (answer if isinstance(answer, tuple) else (answer,)) if isinstance(part, Status)]
    return statuses[0].code.text if statuses else SUCCESS
