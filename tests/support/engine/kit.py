"""An engine with a fake clock, cluster and writers, which tests control."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from podwright.core.framework.features import Features
from podwright.core.framework.interface import ClusterError, FilterPlugin, Plugin, PreBindPlugin, ScorePlugin
from podwright.core.framework.program import Solver
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins import PLUGINS
from podwright.engine.engine import Engine
from podwright.engine.engine_options import EngineOptions
from podwright.engine.ports import EvictionEvent, Extender, Ports, Regarding, Verdict
from podwright.engine.process.forks import InProcess
from podwright.engine.records.metrics import Metrics
from podwright.engine.state import Sources
from podwright.kube.api_cluster import RetryingPodReader
from support.objects.builders import make_node, make_pod

OURS = "podwright"


class FakeCluster:
    """Records Bindings. `outcomes` has one entry for each coming Binding: None, an error, or a future to wait for."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []
        self.annotations: list[Mapping[str, str]] = []
        self.outcomes: list[Any] = []
        self.objects: dict[tuple[str, str], Any] = {}
        self.unreachable = 0
        self.shows: Callable[[str, Mapping[str, Any]], object] = lambda _kind, _raw: None
        """Called with the kind and the new version of an object: the watch of the kind."""
        self._versions = itertools.count(1_000_000)

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str]) -> None:
        self.bound.append((pod.name, node_name))
        self.annotations.append(annotations)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, asyncio.Future):
            outcome = await outcome
        if isinstance(outcome, Exception):
            raise outcome

    async def get(self, kind: str, name: str, namespace: str = "") -> Mapping[str, Any] | None:
        if self.unreachable:
            self.unreachable -= 1
            raise ClusterError("no answer")
        return self.objects.get((kind, name))

    async def update(self, kind: str, raw: Mapping[str, Any], subresource: str = "") -> Mapping[str, Any]:
        stored = {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(next(self._versions))}}
        self.shows(kind, stored)
        return stored

    async def create(self, kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        return raw

    async def patch(
        self, kind: str, name: str, namespace: str, change: Mapping[str, Any], subresource: str = ""
    ) -> Mapping[str, Any]:
        return change

    async def delete(self, kind: str, name: str, namespace: str, uid: str) -> None:
        self.objects.pop((kind, name), None)

    async def wait_for(self, *_: Any) -> None:
        raise AssertionError("no test waits for an object")


@dataclass
class FakeRecorder:
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """(pod, reason, note)"""
    policies: list[str] = field(default_factory=list)
    """The policy of each event."""
    forgotten: list[str] = field(default_factory=list)

    def record(self, regarding: PodInfo | Regarding, kind, reason, action, note, policy="", reporter="") -> None:
        self.events.append((regarding.name, reason, note))
        self.policies.append(policy)

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)

    def notes(self, reason: str) -> list[str]:
        return [note for _, r, note in self.events if r == reason]


@dataclass
class FakeStatus:
    written: list[tuple[str, Verdict | None, str | None]] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    def seen(self, uid: str, raw: Mapping[str, Any]) -> None:
        pass

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)

    def write(self, pod: PodInfo, verdict: Verdict | None, nominated_node: str | None) -> None:
        self.written.append((pod.name, verdict, nominated_node))


@dataclass
class FakeEvictor:
    """Completes evictions at once; with `waits`, the test completes them by calling `answers[victim's name]`."""

    evicted: list[tuple[str, str, str]] = field(default_factory=list)
    waits: bool = False
    answers: dict[str, Callable[[bool], None]] = field(default_factory=dict)
    within_budgets: set[str] = field(default_factory=set)
    """The names of the victims that budgets protect."""
    events: list[EvictionEvent] = field(default_factory=list)
    """Of pods that were not preempted."""
    wanted: dict[str, Callable[[], bool]] = field(default_factory=dict)
    """By name of the victim: whether its eviction is still wanted."""

    def evict(
        self,
        victim: PodInfo,
        preemptor: PodInfo,
        node_name: str,
        done: Callable[[bool], None],
        *,
        within_budgets: bool = False,
        event: EvictionEvent | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> None:
        if wanted is not None:
            self.wanted[victim.name] = wanted
        if event is not None:
            self.events.append(event)
        if within_budgets:
            self.within_budgets.add(victim.name)
        self.evicted.append((victim.name, preemptor.name, node_name))
        if self.waits:
            self.answers[victim.name] = done
        else:
            done(True)


@dataclass
class FakeGroups:
    """Records conditions of pod groups as (name, reason, message); the reason of a placed group is empty."""

    written: list[tuple[str, str, str]] = field(default_factory=list)
    lost: list[tuple[str, str, str]] = field(default_factory=list)
    """Those of groups below their minimum."""

    def scheduled(self, group: PodGroup) -> None:
        self.written.append((group.name, "", ""))

    def not_scheduled(self, group: PodGroup, verdict: Verdict) -> None:
        self.written.append((group.name, verdict.reason, verdict.message))

    def below_minimum(self, group: PodGroup, verdict: Verdict) -> None:
        self.lost.append((group.name, verdict.reason, verdict.message))

    def disrupted(self, group: PodGroup, message: str) -> None:
        self.written.append((group.name, "DisruptionTarget", message))


class FakeIntake:
    """Records if changes are held back now, and how often they were."""

    def __init__(self) -> None:
        self.held = False
        self.times = 0

    def hold_back(self) -> None:
        self.held = True
        self.times += 1

    def go_on(self) -> None:
        self.held = False


class Rig:
    """An engine on fakes. Time stands still unless a test changes `now`."""

    def __init__(
        self,
        plugins: Mapping[str, type] | None = None,
        gates: Mapping[str, bool] | None = None,
        evictor: Any = None,
        extenders: Mapping[str, Extender] | None = None,
        children: Any = None,
        solve: Solver | None = None,
        **options: Any,
    ) -> None:
        self.now = 1_000.0
        self.waits = 0
        """How often the thread that decides has waited by its own will."""
        self.stalled = 0.0
        """For how long other processes had the CPU. That is part of `now`, but not of the CPU time."""
        self.clock: Callable[[], float] = lambda: self.now
        self.cluster = FakeCluster()
        self.recorder = FakeRecorder()
        self.status = FakeStatus()
        self.evictor = evictor or FakeEvictor()
        self.groups = FakeGroups()
        self.intake = FakeIntake()
        self.children = children or InProcess()
        metrics = Metrics(lambda: self.now)
        self.ports = Ports(
            cluster=self.cluster,
            pods=RetryingPodReader(self.cluster),
            recorder=self.recorder,
            status=self.status,
            evictor=self.evictor,
            groups=self.groups,
            metrics=metrics,
            intake=self.intake,
            children=self.children,
            solve=solve,
            extenders=extenders or {},
        )
        sources = Sources(
            clock=self.steady,
            wall=lambda: self.now,
            cpu=lambda: self.steady() - self.stalled,
            below=lambda _n: 0,
            waits=lambda: self.waits,
        )
        classes = {**PLUGINS, **(plugins or {})}
        self.engine = Engine(classes, Features(gates), self.ports, sources, EngineOptions(**options))
        self.cluster.shows = lambda kind, raw: self.engine.objects(kind).put(raw)

    def steady(self) -> float:
        """The clock of the engine, which a test may replace."""
        return self.clock()

    def node(self, name: str, **options: Any) -> None:
        self.engine.nodes.put(make_node(name, **options))

    def pod(self, name: str, **options: Any) -> dict[str, Any]:
        """Puts a pending pod of ours."""
        raw = ours(name, **options)
        self.engine.pending.put(raw)
        return raw

    def confirm(self, raw: Mapping[str, Any], node: str) -> None:
        """The watches show that the pod is bound: it leaves the pending pods and joins the assigned ones."""
        self.engine.pending.drop(raw["metadata"]["uid"], raw)
        self.engine.assigned.put(on_node(raw, node))

    def placed_on(self, name: str) -> str:
        where = self.engine.cache.placement(f"default/{name}")
        return "" if where is None else where.name

    @property
    def counts(self) -> dict[str, int]:
        """The number of pods by queue, without empty queues."""
        return {place: count for place, count in self.engine.queue.counts().items() if count}


def ours(name: str, **options: Any) -> dict[str, Any]:
    """A pending pod that asks for our scheduler name."""
    spec = {"schedulerName": OURS, **options.pop("spec", {})}
    return make_pod(name, spec=spec, **options)


def on_node(raw: Mapping[str, Any], node: str) -> dict[str, Any]:
    return {**raw, "spec": {**raw["spec"], "nodeName": node}}


def custom_policy(point: str, plugin: str, generation: int = 1) -> dict[str, Any]:
    """A policy that adds one plugin to the default ones."""
    return {
        "metadata": {"name": "custom", "uid": "custom", "generation": generation},
        "spec": {"strategy": {"type": "Custom"}, "plugins": {point: {"enabled": [{"name": plugin}]}}},
    }


async def settle() -> None:
    """Lets all tasks that are ready run."""
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def deciding(rig: Rig) -> AsyncIterator[None]:
    """Runs the engine's loop during the block, and settles it before."""
    task = asyncio.create_task(rig.engine.run())
    try:
        await settle()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await rig.engine.stop(0)


class Slow(Plugin, PreBindPlugin):
    """PreBind that waits for a gate."""

    name = "Slow"
    gate: asyncio.Future

    async def pre_bind(self, _state, _pod, _node_name):
        return await asyncio.shield(self.gate)  # the end of one pod is not the end of the others


class PerNode(Plugin, FilterPlugin, ScorePlugin):
    """Filters and scores one node at a time."""

    name = "PerNode"

    def filter(self, _state, _pod, _node):
        return None

    def score(self, _state, _pod, _node):
        return 1


def values(rig, name):
    """The samples of a metric by the values of their labels, without buckets."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in rig.ports.metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    }
