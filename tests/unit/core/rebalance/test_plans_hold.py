"""Promises of plans, over generated clusters: what is planned happens, harms nobody, and ends."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from podwright.core.preemption.budgets import Budgets, StoredBudgets
from podwright.core.rebalance.gangs import places_of, waiting_gang
from podwright.core.rebalance.planner import RebalancePlanner
from podwright.simulator.rebalance import view_of
from support.rebalance.kit import carry_out, empty_nodes, generated, plan_of, rules
from support.simulator.kit import copy_of

CLUSTERS = int(os.environ.get("PODWRIGHT_REBALANCES", "40"))
GOALS = (
    [{"type": "EmptyNodes"}],
    [{"type": "RepairViolations"}],
    [{"type": "EmptyNodes", "weight": 2}, {"type": "RepairViolations", "weight": 3}],
    [{"type": "MakeRoom", "requests": {"cpu": "3"}, "count": 3}],
    [{"type": "MakeRoom", "requests": {"cpu": 4, "memory": "1Gi"}, "count": 9, "weight": 4}, {"type": "EmptyNodes"}],
    [{"type": "MakeRoom", "gangs": ["*"], "weight": 3}, {"type": "EmptyNodes"}],
)


def broken(cluster, asked):
    from podwright.core.state.transaction import CacheTransaction

    planner = RebalancePlanner(cluster.cache, asked, view_of(cluster))
    with CacheTransaction(cluster.cache) as transaction:
        return {pod.uid.rstrip("+") for pod in planner.broken_pods(transaction)}


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_plans_keep_their_promises_and_end(seed):
    random = Random(seed)
    goals = random.choice(GOALS)
    cluster = generated(random, gangs="gangs" in goals[0])
    asked = rules(goals=goals, maxMoves=random.choice((3, 1000)), cooldown=random.choice(("0s", "1h")))
    moved = Counter()
    start_gang(cluster, "scheduling.x-k8s.io:default/train")
    for _ in range(20):
        before = copy_of(cluster)
        plan = plan_of(cluster, asked)
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
    count = cluster.cache.pod_count
    for step in plan.steps:
        empty, before, room = empty_nodes(cluster), broken(cluster, asked), room_in(cluster, asked)
        carry_out(cluster, replace(plan, steps=[step]), asked)
        gained += asked.weights.get("EmptyNodes", 0) * (empty_nodes(cluster) - empty)
        gained += asked.weights.get("RepairViolations", 0) * len(before - broken(cluster, asked))
        gained += asked.weights.get("MakeRoom", 0) * (room_in(cluster, asked) - room)
        if step.gang:
            members = start_gang(cluster, step.gang)
            assert members
            started += members
            gained += asked.weights["MakeRoom"] * members
    assert cluster.cache.pod_count == count + started
    assert broken(cluster, asked) <= harmed
    assert gained >= plan.gain > 0
    assert gained == plan.gain or started, "that nodes are empty until a gang comes does not count"


def start_gang(cluster, key):
    """The gang is placed, if it has room. Returns with how many members."""
    gang = waiting_gang(cluster.cache, key)
    places = gang and places_of(gang, view_of(cluster).framework_of(gang.members[0]), cluster.cache)
    for member in gang.members if places else ():
        cluster.cache.assume(member, places[member.uid])
    return len(places or ())


def room_in(cluster, asked):
    """For how many pods of the size there is room, at most as many as are asked for."""
    nodes = [info for info in cluster.cache.nodes.values() if info.node is not None and not info.node.unschedulable]
    fits = [
        min((info.allocatable(each) - info.requested.get(each, 0)) // amount for each, amount in asked.room.items())
        for info in nodes
        if asked.room
    ]
    return min(asked.room_count, sum(max(0, fit) for fit in fits))
