"""Random pods, gangs and preemptions: attempts that pause at every point decide as attempts in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.engine.pauses import slices
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.gangs.kit import HOST, ZONE, budget
from support.objects.builders import in_group, make_pod_group
from support.plugins.volumes import make_claim, make_class, make_volume
from support.properties import examples

ROUNDS = 3
PRIORITY = 100
"""Of all pending pods. A victim whose Binding is in progress is spared the eviction, and how far that is differs if attempts pause."""
NODES = {"n0": "a", "n1": "a", "n2": "b", "n3": "b"}
APPS = ("x", "y")
Raw = dict[str, Any]


def term(app: str, key: str) -> Raw:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def affinity(kind: str, app: str, key: str) -> Raw:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}}


def spread(app: str, key: str) -> Raw:
    return {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term(app, key)}]}


apps, keys = st.sampled_from(APPS), st.sampled_from((HOST, ZONE))
wants = st.one_of(
    st.just({}),
    st.builds(affinity, st.sampled_from(("podAntiAffinity", "podAffinity")), apps, keys),
    st.builds(spread, apps, keys),
    st.just({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}),
    st.just({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "later"}}]}),
)
groups = st.one_of(st.just({}), st.builds(lambda key: {"schedulingConstraints": {"topology": [{"key": key}]}}, keys))


@dataclass
class Case:
    """`pending`: pods, and groups of pods."""

    nodes: Sequence[int]
    placed: Sequence[tuple[str, Raw]]
    groups: Sequence[Raw]
    pending: Sequence[Raw]
    budgets: Sequence[Raw]
    volumes: Sequence[Raw]


@st.composite
def pods(draw: st.DrawFn, name: str, spec: Raw, priority: int) -> Raw:
    cpu = draw(st.sampled_from(("1", "1", "2")))
    return ours(name, requests={"cpu": cpu}, priority=priority, labels={"app": draw(apps)}, spec=spec)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    gangs, pending = [], []
    for g in range(draw(st.integers(0, 2))):
        size, want = draw(st.integers(1, 4)), draw(wants)
        least = draw(st.integers(1, size))
        gangs.append(make_pod_group(f"g{g}", least, priority=PRIORITY, **draw(groups)))
        same = draw(st.booleans())
        for i in range(size):
            spec = {**(want if same else draw(wants)), **in_group(f"g{g}")}
            pending.append(draw(pods(f"g{g}-{i}", spec, PRIORITY)))
    pending += [draw(pods(f"p{i}", draw(wants), PRIORITY)) for i in range(draw(st.integers(0, 4)))]
    return Case(
        nodes=[draw(st.integers(1, 4)) for _ in NODES],
        placed=[
            (draw(st.sampled_from(list(NODES))), draw(pods(f"old{i}", {}, draw(st.sampled_from((0, 0, 50))))))
            for i in range(draw(st.integers(0, 10)))
        ],
        groups=gangs,
        pending=draw(st.permutations(pending)),
        budgets=[budget("x", draw(st.integers(0, 2)), {"app": "x"})] if draw(st.booleans()) else [],
        volumes=[make_volume(f"pv{zone}", zones=[zone]) for zone in draw(st.sampled_from(("", "a", "ab")))],
    )


async def outcome(case: Case) -> Raw:
    """What the engine does in some rounds. After each, victims are gone, and bound pods run."""

    async def update(*_: Any) -> None:
        """PreBind does not end: if it did, that would be earlier or later among the decisions if attempts pause."""
        await asyncio.Event().wait()

    rig = Rig()
    rig.cluster.update = update
    engine = rig.engine
    engine.cache.groups.serve(WORKLOAD_API)
    for (name, zone), cpu in zip(NODES.items(), case.nodes, strict=True):
        rig.node(name, labels={HOST: name, ZONE: zone}, allocatable={"cpu": str(cpu)})
    engine.objects("StorageClass").put(make_class())
    engine.objects("PersistentVolumeClaim").put(make_claim("later", bound=False))
    for kind, objects in (
        ("PersistentVolume", case.volumes),
        ("PodDisruptionBudget", case.budgets),
        (KIND, case.groups),
    ):
        for raw in objects:
            engine.objects(kind).put(raw)
    for node, raw in case.placed:
        engine.assigned.put(on_node(raw, node))
    known = {raw["metadata"]["name"]: raw for raw in case.pending}
    for raw in known.values():
        engine.pending.put(raw)
    done: list[Any] = []
    async with deciding(rig), asyncio.timeout(30):
        for _ in range(ROUNDS):
            engine.first_idle.clear()
            engine.wake()
            await engine.first_idle.wait()
            await settle()
            bound, evicted = dict(rig.cluster.bound), [victim for victim, _, _ in rig.evictor.evicted]
            placed = {uid: info.name for name in NODES for info in (engine.cache.nodes[name],) for uid in info.pods}
            done.append((bound, sorted(rig.evictor.evicted), placed, sorted(rig.recorder.events)))
            for victim in evicted:
                engine.assigned.drop(f"default/{victim}", None)
            for name, node in bound.items():
                if name not in evicted:
                    rig.confirm(known[name], node)
            rig.cluster.bound.clear()
            rig.evictor.evicted.clear()
            rig.now += 100.0
    return {"rounds": done}


@given(cases())
@settings(max_examples=examples(60), deadline=None)
def test_pauses_at_every_point_change_no_decision(case):
    whole = asyncio.run(outcome(case))
    with mock.patch.object(slices, "SLICE_SECONDS", -1.0), mock.patch.object(slices, "RESTARTS", 1000):
        assert asyncio.run(outcome(case)) == whole
