"""The members that a reprieve filters again, and those that it puts in place for that. Oracle: a reprieve that filters
all of them each time.
"""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest

from podwright.core.gangs import gang_preemption
from podwright.core.gangs.decisions import GangPreemption
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from support.gangs.kit import HOST, ZONE, FullCluster, budget, group_of, one, room
from support.objects.builders import in_group, make_pod

APPS = ("gang", "low", "other")


def term(rng: random.Random, key: str) -> dict[str, Any]:
    expression = {"key": "app", "operator": rng.choice(("In", "NotIn")), "values": [rng.choice(APPS)]}
    return {"labelSelector": {"matchExpressions": [expression]}, "topologyKey": key}


def constrained(rng: random.Random) -> dict[str, Any]:
    """A spec with required terms or a hard spread constraint, or without any."""
    kind = rng.choice(("plain", "plain", "host", "host", "zone", "affinity", "spread", "port"))
    key = {"host": HOST, "zone": ZONE}.get(kind, rng.choice((HOST, ZONE)))
    if kind in ("host", "zone"):
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(rng, key)]}}}
    if kind == "affinity":
        return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(rng, key)]}}}
    if kind == "spread":
        selector = {"matchLabels": {"app": rng.choice(APPS)}}
        constraint = {"maxSkew": 2, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        return {"topologySpreadConstraints": [constraint]}
    return {}


def replace_members(cluster: FullCluster, raws: list[dict[str, Any]]) -> FullCluster:
    for old in cluster.members:
        cluster.cache.groups.remove_waiting(old.uid)
    cluster.members[:] = [parse_pod(raw, keep_raw=True) for raw in raws]
    for pod in cluster.members:
        cluster.cache.groups.add_waiting(pod)
    return cluster


def random_cluster(seed: int) -> FullCluster:
    rng = random.Random(seed)
    count = rng.randint(3, 8)
    nodes = [room(f"n{i}", rng.randint(2, 4), f"z{i % 3}") for i in range(count)]
    placed = []
    for i in range(count):
        for j in range(rng.randint(1, 4)):
            labels = {"app": rng.choice(APPS), "index": f"{i}-{j}"}
            group = rng.choice(("", "", "", "whole"))
            spec = constrained(rng) if rng.random() < 0.3 else {}
            placed.append(one(f"p{i}-{j}", f"n{i}", rng.randint(0, 3), group, labels=labels, spec=spec))
    members = rng.randint(1, 6)
    cluster = FullCluster(
        nodes,
        placed,
        members=members,
        min_count=rng.randint(1, members),
        groups=[group_of("whole", 1, whole=True)],
        budgets=[budget("low", rng.randint(0, 2), {"app": "low"})],
    )
    raws = []
    for i in range(members):
        labels = {"app": rng.choice(("gang", "gang", "other")), "index": str(i)}
        spec = {**constrained(rng), **in_group()}
        raws.append(
            make_pod(f"m{i}", labels=labels, priority=100, requests={"cpu": rng.choice(("500m", "1", "2"))}, spec=spec)
        )
    return replace_members(cluster, raws)


def found(seed: int, thorough: tuple[bool, ...]) -> Any:
    """The nominations, victims and violations that the search finds."""
    with mock.patch.object(gang_preemption, "THOROUGH", thorough):
        result = random_cluster(seed).preempt()
    if not isinstance(result, GangPreemption):
        return type(result)
    return dict(result.nominations), [victim.name for victim in result.victims], result.violations


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_the_victims_are_those_of_a_reprieve_that_filters_all_members(first):
    preempted = 0
    for seed in range(first, first + 50):
        expected = found(seed, (True,))
        assert found(seed, (False,)) == expected, seed
        preempted += isinstance(expected, tuple)
    assert preempted > 5


def attracted_gang(members: int) -> FullCluster:
    """Members that need a node with a pod of the app, such as the pods that they evict."""
    nodes = [room(f"n{i}", 4) for i in range(members)]
    placed = [
        one(f"p{i}-{j}", f"n{i}", 200 if j == 0 else 0, labels={"app": "a"}) for i in range(members) for j in range(4)
    ]
    near = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": HOST}
    spec = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}, **in_group()}
    raws = [make_pod(f"m{i}", priority=100, requests={"cpu": "3"}, spec=spec) for i in range(members)]
    return replace_members(FullCluster(nodes, placed, members=members), raws)


def repelling_gang(members: int) -> FullCluster:
    """Members with an anti-affinity term of their own each, which keeps them from all other pods on their node. All
    nodes are full.
    """
    nodes = [room(f"n{i}", 4, f"z{i % 3}") for i in range(members + 5)]
    placed = [one(f"p{i}-{j}", f"n{i}", j) for i in range(members + 5) for j in range(4)]
    raws = []
    for i in range(members):
        expression = {"key": "app", "operator": "NotIn", "values": [f"other-{i}"]}
        apart = {"labelSelector": {"matchExpressions": [expression]}, "topologyKey": HOST}
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}}
        raws.append(
            make_pod(
                f"m{i}", labels={"index": str(i)}, priority=100, requests={"cpu": "1"}, spec={**spec, **in_group()}
            )
        )
    return replace_members(FullCluster(nodes, placed, members=members), raws)


def assumed(cluster: FullCluster, victims: int) -> int:
    """How often a search for victims assumes a pod."""
    with mock.patch.object(Cache, "assume", autospec=True, side_effect=Cache.assume) as assume:
        result = cluster.preempt()
    assert len(result.victims) == victims
    return assume.call_count


def test_a_reprieve_puts_only_those_members_in_place_that_matter_for_the_ones_it_filters():
    few, many = assumed(repelling_gang(10), 40), assumed(repelling_gang(40), 160)
    assert many <= 4.5 * few


def test_a_reprieve_puts_no_members_in_place_for_what_the_node_itself_refuses():
    few, many = assumed(attracted_gang(10), 30), assumed(attracted_gang(40), 120)
    assert many <= 4.5 * few
