"""Promises of plans, over generated clusters: what is planned happens, harms nobody, and ends."""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest

from podwright.core.preemption.budgets import Budgets, StoredBudgets
from podwright.core.rebalance.planner import Planner
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
)


def broken(cluster, asked):
    from podwright.core.state.transaction import CacheTransaction

    planner = Planner(cluster.cache, asked, view_of(cluster))
    with CacheTransaction(cluster.cache) as transaction:
        return {pod.uid.rstrip("+") for pod in planner.broken_pods(transaction)}


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_plans_keep_their_promises_and_end(seed):
    random = Random(seed)
    cluster = generated(random)
    asked = rules(goals=random.choice(GOALS), maxMoves=random.choice((3, 1000)), cooldown=random.choice(("0s", "1h")))
    moved = Counter()
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
    empty, harmed, room = empty_nodes(cluster), broken(cluster, asked), room_in(cluster, asked)
    pods = [cluster.cache.placement(move.uid).pods[move.uid] for move in plan.moves]
    assert Budgets(StoredBudgets(cluster.cache.store).rules(), by_eviction=True).spend(pods)
    assert len(plan.moves) <= asked.max_moves
    assert len({move.uid for move in plan.moves}) == len(plan.moves)
    count = cluster.cache.pod_count
    carry_out(cluster, plan, asked)
    assert cluster.cache.pod_count == count
    still = broken(cluster, asked)
    assert still <= harmed
    gained = asked.weights.get("EmptyNodes", 0) * (empty_nodes(cluster) - empty)
    gained += asked.weights.get("RepairViolations", 0) * len(harmed - still)
    gained += asked.weights.get("MakeRoom", 0) * (room_in(cluster, asked) - room)
    assert gained == plan.gain > 0


def room_in(cluster, asked):
    """For how many pods of the size there is room, at most as many as are asked for."""
    nodes = [info for info in cluster.cache.nodes.values() if info.node is not None and not info.node.unschedulable]
    fits = [
        min((info.allocatable(each) - info.requested.get(each, 0)) // amount for each, amount in asked.room.items())
        for info in nodes
        if asked.room
    ]
    return min(asked.room_count, sum(max(0, fit) for fit in fits))
