"""The policies in force, each with its plugins built: what decides about a pod.

A policy comes into force only when its framework could be built, so that a bad one changes nothing (see api/compile.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podwright.api.compile import Classes, CompiledPolicy
from podwright.api.kube_scheduler_configuration import QUEUE_SORT
from podwright.api.policy_set import ApplyResult, PolicySet
from podwright.core.framework.cluster_events import ClusterEvent, EventHint
from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import Features
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Cluster, Handle, WaitingPod
from podwright.core.framework.measured import MeasuredFramework
from podwright.core.framework.profile import Point
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod import PodInfo
from podwright.core.queue.hinting import registered
from podwright.core.queue.rank import ranked
from podwright.core.state.cache import Cache
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.metrics.measured_preemption import measuring
from podwright.engine.metrics.plugins import PluginMetrics

_REJECTING: Final = (Point.PRE_ENQUEUE, Point.PRE_FILTER, Point.FILTER, Point.RESERVE, Point.PERMIT)
_NO_HINTS: Mapping[str, Sequence[EventHint]] = {}


@dataclass(slots=True)
class EngineHandle:
    """The handle that plugins are built with. `clock` gives seconds since the epoch."""

    cache: Cache
    features: Features
    cluster: Cluster
    clock: Callable[[], float]
    waiting: Callable[[], Collection[WaitingPod]] = tuple

    def now(self) -> float:
        return self.clock()

    def waiting_pods(self) -> Collection[WaitingPod]:
        return self.waiting()


@dataclass(frozen=True, slots=True, eq=False)
class ActivePolicy:
    """A policy in force and its plugins. `identity` names policy and generation, for decisions."""

    policy: CompiledPolicy
    framework: Framework
    measured: ActivePolicy | None = None
    """The same, with plugins that are measured."""


class ActivePolicies:
    """See the module."""

    def __init__(
        self,
        classes: Classes,
        handle: Handle,
        default: CompiledPolicy,
        invalid_objects: InvalidObjects,
        *,
        clock: Callable[[], float],
        observer: PluginMetrics,
    ) -> None:
        """`default`: the built-in policy, whose QueueSort plugin orders the queue; `clock` and `observer` measure plugins.

        Raises PluginError if a plugin of the built-in policy cannot be built.
        """
        self._clock = clock
        self._observer = observer
        observer.on_scrape(self._tell_evaluations)
        self._classes = measuring(classes, clock, observer)
        self._handle = handle
        self._invalid_objects = invalid_objects
        self._built: dict[CompiledPolicy, ActivePolicy] = {}
        self._listens: dict[ClusterEvent, bool] = {}
        self._build(default)
        framework = self._built[default].framework
        queue_sort = framework.at(Point.QUEUE_SORT)[0].name
        self.policy_set = PolicySet(classes, handle.features, default=default, check=self._build, queue_sort=queue_sort)
        """`policy_set.version` rises whenever the active policies change."""
        self.sort_key: Callable[[PodInfo, float], Any] = (
            framework.sort_key if queue_sort == QUEUE_SORT else ranked(framework.sort_key, self._report)
        )
        """The sort key of the queue."""

    def _build(self, policy: CompiledPolicy) -> None:
        framework = Framework(policy.profile, self._classes, self._handle)
        measured = MeasuredFramework(framework, self._clock, self._observer)
        self._listens.clear()
        self._built[policy] = ActivePolicy(policy, framework, ActivePolicy(policy, measured))

    def apply(self, raw: Mapping[str, Any]) -> ApplyResult:
        """Takes a policy object in; the result says what is wrong with it."""
        result = self.policy_set.apply(raw)
        self._prune()
        return result

    def remove(self, name: str) -> None:
        self.policy_set.remove(name)
        self._prune()

    def _prune(self) -> None:
        self._tell_evaluations()  # of those that go, too
        kept = {self.policy_set.default, *self.policy_set.active}
        self._listens.clear()
        self._built = {policy: live for policy, live in self._built.items() if policy in kept}

    def forget_findings(self) -> None:
        """Lets go of what was found out about nodes: it holds on to pods that may be gone."""
        for live in self._built.values():
            for each in (live, live.measured):
                if each is not None:
                    each.framework.forget_findings()

    def _tell_evaluations(self) -> None:
        for live in self._built.values():
            self._observer.evaluated(live.framework)

    def serves(self, scheduler_name: str) -> bool:
        """Whether pods may ask for a scheduler of this name."""
        return scheduler_name in self.policy_set.scheduler_names

    def of(self, pod: PodInfo) -> ActivePolicy | None:
        """What decides about the pod; None if nobody serves its scheduler name."""
        policy = self.policy_set.select(pod, self._handle.cache.namespace_labels(pod.namespace))
        return None if policy is None else self._built[policy]

    def listens(self, event: ClusterEvent) -> bool:
        """Whether a plugin of a policy in force that can make pods wait is to be told of such an event."""
        known = self._listens.get(event)
        if known is None:
            known = self._listens[event] = any(
                registered(live.framework.hints, plugin.name, event)
                for live in self._built.values()
                for plugin in live.framework.at(*_REJECTING)
            )
        return known

    # What the queue asks

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        live = self.of(pod)
        if live is None:
            return None
        try:
            return live.framework.pre_enqueue(pod)
        except PluginError as error:
            self._report(pod, error)
            return Status(Code.ERROR, (str(error),), error.plugin)

    def _report(self, pod: PodInfo, error: Exception) -> None:
        self._invalid_objects.about("Pod", pod.key, error)

    def hints_of(self, pod: PodInfo) -> Mapping[str, Sequence[EventHint]]:
        live = self.of(pod)
        return _NO_HINTS if live is None else live.framework.hints
