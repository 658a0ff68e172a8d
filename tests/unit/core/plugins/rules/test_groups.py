"""Rules in groups: a decision evaluates only what the last one changed, and the results are those of each rule on each
node.
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from podwright.core.cel_columns.kept import KeptColumns
from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.objects.node import parse_node
from podwright.core.plugins.rules.expression import Expression
from podwright.core.plugins.rules.groups import with_rows
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod
from support.plugins.kit import raw_scores, verdicts
from support.rules.clusters import change, cluster, pending_pod
from support.rules.running import plugin_of, policy_of

FILTERS = (
    "node.labels[?'zone'].orValue('') != pod.labels.tier",
    "node.taints.all(t, t.key != 'dedicated')",
    "node.free.cpu >= 100 && node.free.memory >= 100",
    "node.podCount < 100 && !node.name.startsWith('gpu-')",
)
SCORES = ("node.free.cpu * 100 / node.allocatable.cpu", "100 - 25 * size(node.taints)", "node.podCount * 5")


def make_world(nodes: int = 40) -> World:
    world = World()
    room = {"cpu": "64", "memory": "64Gi", "pods": "500"}
    world.fill({"nodes": [make_node(f"n{i}", labels={"zone": f"z{i % 3}"}, allocatable=room) for i in range(nodes)]})
    return world


def place(world: World, name: str, node: str) -> None:
    world.set_pod(make_pod(name, node=node, requests={"cpu": "1", "memory": "1Gi"}, status={"phase": "Running"}))


def decide(plugin, world: World, pod) -> tuple[list[bool], list[int]]:
    """Returns the plugin's answers about all nodes, as in a decision: bool[nodes] and int64[nodes]."""
    state = CycleState()
    plugin.pre_filter(state, pod)
    passing = plugin.filter_all(state, pod, world.cache.table)
    return passing.ok.tolist(), scores(plugin, state, pod, world)


def scores(plugin, state, pod, world) -> list[int]:
    feasible = Feasible(world.cache.table, np.arange(world.cache.table.size))
    plugin.pre_score(state, pod, feasible)
    return plugin.score_all(state, pod, feasible).tolist()


@pytest.fixture
def counted(monkeypatch) -> Counter:
    """How often expressions are evaluated: as columns, and on single nodes."""
    counts: Counter = Counter()
    column, of_view = KeptColumns.column, Expression.of_view

    def counting_column(self, *args):
        counts["columns"] += 1
        return column(self, *args)

    def counting_view(self, *args):
        counts["nodes"] += 1
        return of_view(self, *args)

    monkeypatch.setattr(KeptColumns, "column", counting_column)
    monkeypatch.setattr(Expression, "of_view", counting_view)
    return counts


def test_after_a_placement_the_rules_about_usage_are_evaluated_on_one_node_and_the_others_not_at_all(counted):
    world = make_world()
    plugin = plugin_of(world, policy_of(FILTERS, SCORES))
    before = decide(plugin, world, pending_pod())
    counted.clear()
    assert decide(plugin, world, pending_pod()) == before
    assert counted == {}
    place(world, "p", "n7")
    after = decide(plugin, world, pending_pod())
    assert counted == {"nodes": 4}
    assert [i for i, (a, b) in enumerate(zip(before[1], after[1], strict=True)) if a != b] == [7]


def test_a_changed_node_is_evaluated_alone_by_all_rules(counted):
    world = make_world()
    plugin = plugin_of(world, policy_of(FILTERS, SCORES))
    before = decide(plugin, world, pending_pod(tier="z9"))
    counted.clear()
    world.cache.set_node(parse_node(make_node("n7", labels={"zone": "z9"}, allocatable={"cpu": "1", "memory": "1Gi"})))
    after = decide(plugin, world, pending_pod(tier="z9"))
    assert counted == {"nodes": len(FILTERS) + len(SCORES)}
    assert [i for i, (a, b) in enumerate(zip(before[0], after[0], strict=True)) if a != b] == [7]


def test_pods_that_a_rule_about_usage_cannot_tell_apart_share_its_results(counted):
    world = make_world()
    plugin = plugin_of(world, policy_of(FILTERS, SCORES))
    for tier in ("a", "b", "c"):
        decide(plugin, world, pending_pod(tier=tier))
    place(world, "p", "n7")
    counted.clear()
    for tier in ("a", "b", "c"):
        decide(plugin, world, pending_pod(tier=tier))
    assert counted == {"nodes": 4}


def test_policies_with_equal_rules_share_results(counted):
    world = make_world()
    plugins = [plugin_of(world, policy_of(FILTERS, SCORES)) for _ in range(10)]
    first = decide(plugins[0], world, pending_pod())
    counted.clear()
    assert all(decide(plugin, world, pending_pod()) == first for plugin in plugins)
    assert counted == {}


def test_a_result_depends_on_the_weights_of_scores():
    world = make_world()
    policies = [
        policy_of(scores=[{"name": "s", "expression": "node.podCount + 1", "weight": weight}]) for weight in (1, 5)
    ]
    found = [scores(plugin_of(world, policy), CycleState(), pending_pod(), world)[0] for policy in policies]
    assert found == [1, 5]


def test_results_of_few_changed_nodes_are_right_also_where_rules_have_errors():
    source = random.Random(5)
    world = cluster(source)
    plugin = plugin_of(
        world,
        policy_of(
            ["node.labels.tier != pod.labels.tier", "node.free['x/gpu'] >= 0", "100 / (node.podCount - 1) > 1"],
            ["node.allocatable['x/gpu'] * 9", "double(node.free.cpu) / 100.0", "10 / node.podCount"],
        ),
    )
    for step in range(120):
        asked = pending_pod(tier=("gold", "silver")[step % 2])
        verdicts(plugin, asked)
        raw_scores(plugin, asked)
        change(world, source)


def test_a_result_that_was_handed_out_is_not_changed_later():
    world = make_world(3)
    plugin = plugin_of(world, policy_of(["node.podCount == 0"], ["node.podCount * 10"]))
    state = CycleState()
    plugin.pre_filter(state, pending_pod())
    ok = plugin.filter_all(state, pending_pod(), world.cache.table).ok
    place(world, "p", "n1")
    assert plugin.filter_all(state, pending_pod(), world.cache.table).ok.tolist() == [True, False, True]
    assert ok.tolist() == [True, True, True]


def test_rows_are_written_to_a_copy_if_they_differ():
    values = np.array([1, 2, 3])
    assert with_rows(values, [(0, 1), (2, 3)]) is values
    found = with_rows(values, [(0, 1), (2, 5), (1, 7)])
    assert (found.tolist(), values.tolist()) == ([1, 7, 5], [1, 2, 3])
