"""For random clusters: gang preemption leaves the cache as it was, and finds the same victims as when it runs all
filters again.
"""

from __future__ import annotations

import contextlib
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st

from podwright.core.cycle import find_feasible
from podwright.core.framework.interface import CycleState
from podwright.core.gangs import gang_preemption
from podwright.core.gangs.decisions import GangPreemption
from podwright.core.objects.pod import parse_pod
from podwright.core.state.deadline import TookLongError
from support.gangs.kit import HOST, ZONE, FullCluster, budget, group_of, one, room
from support.objects.builders import make_pod
from support.properties import examples

NODES = {"n0": "a", "n1": "a", "n2": "b", "n3": "b"}
APPS = ("gang", "x", "y")


def term(app: str, key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def affinity(kind: str, app: str, key: str) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}}


def spread(app: str, key: str) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term(app, key)}
    return {"topologySpreadConstraints": [constraint]}


apps, keys = st.sampled_from(APPS), st.sampled_from((HOST, ZONE))
wants = st.one_of(
    st.just({}),
    st.builds(affinity, st.sampled_from(("podAntiAffinity", "podAffinity")), apps, keys),
    st.builds(spread, apps, keys),
    st.just({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}),
)


@st.composite
def clusters(draw: st.DrawFn) -> FullCluster:
    placed = [
        one(
            f"p{i}",
            draw(st.sampled_from(list(NODES))),
            draw(st.integers(0, 3)) * 50,
            draw(st.sampled_from(("", "", "single", "whole"))),
            draw(st.sampled_from(("", "2023-01-01T00:00:00Z", "2023-02-01T00:00:00Z"))),
            labels={"app": draw(apps)},
            spec=draw(wants),
        )
        for i in range(draw(st.integers(0, 10)))
    ]
    members = draw(st.integers(1, 4))
    nodes = [room(name, draw(st.integers(1, 4)), zone) for name, zone in NODES.items()]
    wanted = draw(wants)
    note(f"{[node['status']['allocatable']['cpu'] for node in nodes]} {wanted} {placed}")
    cluster = FullCluster(
        nodes,
        placed,
        members=members,
        min_count=draw(st.integers(1, members)),
        groups=[group_of("single", draw(st.sampled_from((None, 50)))), group_of("whole", 50, whole=True)],
        budgets=[budget("x", draw(st.integers(0, 2)), {"app": "x"})],
        member={"labels": {"app": "gang"}, "spec": wanted},
    )
    for i in range(draw(st.integers(0, 2))):
        assumed = parse_pod(make_pod(f"a{i}", requests={"cpu": "1"}, priority=10, labels={"app": draw(apps)}))
        cluster.cache.assume(assumed, draw(st.sampled_from(list(NODES))))
    for pod in cluster.members[: draw(st.integers(0, members))]:
        cluster.cache.nominator.add(pod, draw(st.sampled_from(list(NODES))))
    note(f"nominated: {[(n, [p.name for p in cluster.cache.nominator.on(n)]) for n in NODES]}")
    if draw(st.booleans()):
        other = parse_pod(make_pod("nominated", requests={"cpu": "1"}, priority=draw(st.sampled_from((10, 200)))))
        cluster.cache.nominator.add(other, draw(st.sampled_from(list(NODES))))
    return cluster


def contents(cluster: FullCluster) -> dict[str, Any]:
    """The contents of the cache, and verdicts and scores that depend on its observers."""
    cache, table = cluster.cache, cluster.cache.table
    found: dict[str, Any] = {
        "nodes": {
            name: (
                list(info.pods.items()),
                {resource: amount for resource, amount in info.requested.items() if amount},
                info.scoring_cpu,
                info.scoring_memory,
                bool(info.ports),
                [cache.is_assumed(uid) for uid in info.pods],
            )
            for name, info in cache.nodes.items()
        },
        "columns": [
            table.requested("cpu").tolist(),
            table.pods.tolist(),
            table.scoring_cpu.tolist(),
            table.scoring_memory.tolist(),
        ],
        "count": cache.pod_count,
        "groups": {group.key: list(cache.groups.members(group.key).placed) for group in cache.groups.all()},
        "partially placed": [group.key for group in cache.groups.partially_placed],
        "nominated": [(name, [pod.uid for pod in cache.nominator.on(name)]) for name in cache.nominator.nodes()],
    }
    for app in APPS:
        for want in (affinity("podAntiAffinity", app, ZONE), affinity("podAffinity", app, HOST), spread(app, ZONE)):
            probe = parse_pod(make_pod(f"probe-{app}", labels={"app": app}, spec=want))
            state = CycleState()
            feasible = find_feasible(cluster.framework, cache, probe, state).feasible
            scores = cluster.framework.score(state, probe, feasible) if len(feasible) else np.empty(0)
            found[f"{app} {want}"] = (feasible.slots.tolist(), scores.tolist())
    return found


@given(clusters())
@settings(max_examples=examples(60), deadline=None)
def test_preemption_leaves_the_cache_as_it_was_and_filters_all_affected_members(cluster):
    before = contents(cluster)
    with mock.patch.object(gang_preemption, "THOROUGH", (False,)):
        found = cluster.preempt()
    note(f"found {found}")
    assert contents(cluster) == before
    with mock.patch.object(gang_preemption, "THOROUGH", (True,)):
        thorough = cluster.preempt()
    note(f"thorough {thorough}")
    assert type(thorough) is type(found)
    if isinstance(found, GangPreemption):
        assert found.nominations == thorough.nominations
        assert [pod.name for pod in found.victims] == [pod.name for pod in thorough.victims]
    assert contents(cluster) == before


@given(clusters(), st.integers(1, 60))
@settings(max_examples=examples(60), deadline=None)
def test_an_attempt_that_ends_at_any_point_leaves_no_trace(cluster, last):
    before, points = contents(cluster), []

    def check() -> None:
        points.append(True)
        if len(points) == last:
            raise TookLongError

    cluster.cache.deadline.check = check
    with contextlib.suppress(TookLongError):
        cluster.preempt()
    cluster.cache.deadline.check = None
    assert contents(cluster) == before
