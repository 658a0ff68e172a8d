"""Promises of plans, over generated clusters: what is planned happens, harms nobody, and ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import floor
from random import Random

import pytest

from podwright.core.preemption.budgets import Budgets, StoredBudgets
from podwright.core.rebalance.fragments import DeviceFragments
from podwright.core.rebalance.gangs import places_of, waiting_gang
from podwright.core.rebalance.planner import CONSTRAINTS, RebalancePlanner
from podwright.simulator.rebalance import view_of
from support.gangs.highs import by_highs
from support.properties import case_count
from support.rebalance.kit import ZONE, carry_out, empty_nodes, generated, rules
from support.simulator.kit import copy_of

CLUSTERS = case_count("PODWRIGHT_REBALANCES", 40)
RARE = (1598, 1782, 6110, 6183)
"""Fragments become more with the second move of a step, and with a step that empties several nodes. What running pods
request is counted anew while a move is tried.
"""
GOALS = (
    [{"type": "EmptyNodes"}],
    [{"type": "RepairViolations"}],
    [{"type": "EmptyNodes", "weight": 2}, {"type": "RepairViolations", "weight": 3}],
    [{"type": "MakeRoom", "requests": {"cpu": "3"}, "count": 3}],
    [{"type": "MakeRoom", "requests": {"cpu": 4, "memory": "1Gi"}, "count": 9, "weight": 4}, {"type": "EmptyNodes"}],
    [{"type": "MakeRoom", "gangs": ["*"], "weight": 3}, {"type": "EmptyNodes"}],
    [{"type": "FewestFragments", "weight": 10}],
    [{"type": "FewestFragments", "weight": 10}, {"type": "EmptyNodes", "weight": 3}, {"type": "RepairViolations"}],
)
LARGE = {"type": "EmptyNodes", "requests": {"cpu": "8"}}
"""Half of the nodes offer that."""
OF_SIZES = (
    [LARGE],
    [{**LARGE, "count": 2, "weight": 2}, {"type": "RepairViolations"}],
    [{"type": "MakeRoom", "requests": {"cpu": "3"}, "count": 6}, {**LARGE, "count": 1}],
)
ROOM_IN_ZONES = {"type": "MakeRoom", "requests": {"cpu": "4"}, "weight": 3, "topologyKey": ZONE}


def broken(cluster, asked):
    planner = RebalancePlanner(cluster.cache, asked, view_of(cluster))
    return {pod.uid.rstrip("+") for pod in planner.broken_pods()}


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_many_pods_are_broken_as_each_of_them_is(seed):
    cluster = generated(Random(seed))
    pods = [pod for info in cluster.cache.nodes.values() for pod in info.pods.values()]
    planner = RebalancePlanner(cluster.cache, rules(), view_of(cluster))
    assert planner.broken_of(pods) == {pod.uid for pod in pods if planner.is_broken(pod, CONSTRAINTS)}


@pytest.mark.parametrize("seed", sorted({*range(CLUSTERS), *RARE}))
def test_plans_keep_their_promises_and_end(seed):
    random = Random(seed)
    goals = random.choice(GOALS)
    if seed % 7 == 3:
        zones = {**ROOM_IN_ZONES, "count": random.randint(1, 3), "domains": random.randint(2, 3)}
        goals = [zones, *random.choice(([], [{"type": "EmptyNodes"}]))]
    if seed % 7 in (1, 5):
        goals = random.choice(OF_SIZES)
    cluster = generated(random, gangs="gangs" in goals[0], shares=goals[0]["type"] == "FewestFragments")
    asked = rules(goals=goals, maxMoves=random.choice((3, 1000)), cooldown=random.choice(("0s", "1h")))
    moved = Counter()
    start_gang(cluster, "scheduling.x-k8s.io:default/train")
    for _ in range(20):
        before = copy_of(cluster)
        elapsed = iter(range(0, 10_000, random.randint(1, 4))).__next__ if seed % 5 == 2 else float
        view = replace(view_of(cluster), solve=by_highs if seed % 4 == 0 else None, elapsed=elapsed)
        plan = RebalancePlanner(cluster.cache, asked, view).plan()
        assert copy_of(cluster) == before
        if not plan.steps:
            break
        keep(cluster, plan, asked)
        moved.update(move.uid.rstrip("+") for move in plan.moves)
    else:
        pytest.fail("plans did not end")
    if asked.cooldown:
        assert max(moved.values(), default=1) == 1


def keep(cluster, plan, asked):
    harmed, gained, started = broken(cluster, asked), 0, 0
    pods = [cluster.cache.placement(move.uid).pods[move.uid] for move in plan.moves]
    assert Budgets(StoredBudgets(cluster.cache.store).rules(), by_eviction=True).spend(pods)
    assert len(plan.moves) <= asked.max_moves
    assert len({move.uid for move in plan.moves}) == len(plan.moves)
    assert {move.source for move in plan.moves}.isdisjoint(move.target for move in plan.moves)
    count = cluster.cache.pod_count
    for step in plan.steps:
        empty, before, room = empty_nodes(cluster, asked), broken(cluster, asked), room_in(cluster, asked)
        fragments = fragments_in(cluster, asked)
        carry_out(cluster, replace(plan, steps=[step]), asked)
        gained += asked.weights.get("EmptyNodes", 0) * (empty_nodes(cluster, asked) - empty)
        gained += asked.weights.get("RepairViolations", 0) * len(before - broken(cluster, asked))
        gained += asked.weights.get("MakeRoom", 0) * (room_in(cluster, asked) - room)
        assert not step.makes_room or room_in(cluster, asked) > room
        fewer = asked.weights.get("FewestFragments", 0) * (fragments - fragments_in(cluster, asked))
        gained += floor(fewer + 1e-9)
        if step.gang:
            members = start_gang(cluster, step.gang)
            assert members
            started += members
            gained += asked.weights["MakeRoom"] * members
    assert cluster.cache.pod_count == count + started
    assert broken(cluster, asked) <= harmed
    assert gained >= plan.gain > 0
    taken = len(asked.weights) > 1 and "EmptyNodes" in asked.weights and view_of(cluster).waiting
    assert gained == plan.gain or taken, "that nodes are empty until a pod that waits takes them does not count"


def start_gang(cluster, key):
    """The gang is placed, if it has room. Returns with how many members."""
    gang = waiting_gang(cluster.cache, key)
    places = gang and places_of(gang, view_of(cluster).framework_of(gang.members[0]), cluster.cache)
    for member in gang.members if places else ():
        cluster.cache.assume(member, places[member.uid])
    return len(places or ())


def fragments_in(cluster, asked):
    """How many devices are fragments, if that counts."""
    return DeviceFragments(cluster.cache, asked, view_of(cluster)).total()


def room_in(cluster, asked):
    """For how many pods of the size there is room, at most as many as are asked for, and all of them in a zone."""
    nodes = [info for info in cluster.cache.nodes.values() if info.node is not None and not info.node.unschedulable]
    fits = [
        min((info.allocatable(each) - info.requested.get(each, 0)) // amount for each, amount in asked.room.items())
        for info in nodes
        if asked.room
    ]
    if asked.room_key:
        zones = Counter()
        for info, fit in zip(nodes, fits, strict=True):
            zones[info.node.labels[asked.room_key]] += max(0, fit)
        return asked.room_count * min(asked.room_domains, sum(fit >= asked.room_count for fit in zones.values()))
    return min(asked.room_count, sum(max(0, fit) for fit in fits))
