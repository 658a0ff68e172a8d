"""The cost of evaluations: one answer for a node alone and for all nodes, and a bound over all nodes together."""

from __future__ import annotations

import random

import pytest

from podwright.core.cel.environment import Program
from podwright.core.cel.errors import EvaluationError
from podwright.core.cel_columns.kept import KeptColumns
from podwright.core.cel_columns.limits import COST_LIMIT, LEAST_LIMIT, TOO_COSTLY, TOTAL_COST, node_limit
from podwright.core.cel_columns.nodes import NodeColumns
from podwright.core.plugins.rules.expression import Expression
from podwright.simulator.world import World
from support.objects.builders import make_node
from support.rules.clusters import cluster, pending_pod, subject

TEXTS = str([f"v{i}" for i in range(60)])
WIDE = " && ".join([f"{TEXTS}.all(v, v != node.labels.zone && v != node.name && v != pod.name)"] * 18)
LONG = "lists.range(900).all(i, (pod.name + node.name + string(i)).matches('a') || true)"
COUNTING = "lists.range(60).exists(i, podsOnNode('app,' + (i < 1 ? '' : '!a' + string(i))) > 0)"
COSTLY_COUNTS = COUNTING.replace("'app,'", "'app,!" + "x" * 300 + ",'")


def nodes(count):
    world = World()
    world.fill({"nodes": [make_node(f"n{i}", labels={"zone": "z"}) for i in range(count)]})
    return world


def answers(expression, world, pod):
    """Of each node: what all rows together and what the node alone give."""
    asked = subject(world, pod)
    column = expression.column(asked, KeptColumns(NodeColumns(world.cache)))
    rows, alone = {}, {}
    for slot, name in enumerate(world.cache.table.names):
        if world.cache.table.nodes[slot] is None:
            continue
        code = 0 if column.vec.errors is None else int(column.vec.errors[slot])
        rows[name] = column.texts.text(code) if code else bool(column.vec.data[slot])
        try:
            alone[name] = expression.evaluate(asked, world.cache.nodes[name])
        except EvaluationError as error:
            alone[name] = str(error)
    return rows, alone


@pytest.mark.parametrize(
    "text",
    [
        WIDE,
        LONG,
        f"{LONG} || true",
        f"node.unschedulable ? true : {LONG}",
        f"({LONG} && false) || {LONG.replace('900', '300')}",
        f"[1, 2, 3].exists(k, k == 3 && {LONG.replace('900', '100')})",
        COUNTING,
        COSTLY_COUNTS,
        f"{WIDE} && node.free.cpu > 0 && node.taints.size() < 9 && node.podCount < 99 && 'x' in node.images",
        f"{WIDE} && node.annotations[?'a'].orValue('') == '' && node.images['i'] > 1",
        f"{WIDE} && podsOnNode('app') < 3 && podsInDomain('zone', 'app') < 9 && !node.unschedulable",
    ],
    ids=str,
)
def test_a_node_alone_and_all_nodes_give_one_answer_whatever_it_costs(text):
    expression = Expression(text, score=False)
    rows, alone = answers(expression, cluster(random.Random(4)), pending_pod())
    assert alone == rows


def test_a_rule_within_the_cost_of_its_parts_passes_on_a_node_alone():
    rows, alone = answers(Expression(WIDE, score=False), nodes(2), pending_pod())
    assert alone == rows == {"n0": True, "n1": True}


def test_counting_pods_in_a_loop_has_a_limit():
    rows, alone = answers(Expression(COSTLY_COUNTS, score=False), nodes(1), pending_pod())
    assert alone == rows == {"n0": TOO_COSTLY}


@pytest.mark.parametrize(
    ("text", "shares"), [(LONG, 2), (" && ".join([LONG] * 5), 10), (f"[1, 2, 3].all(k, k > 0 && {LONG})", 9)]
)
def test_all_nodes_together_have_a_limit(text, shares, monkeypatch):
    limits = []
    original = Program.evaluate

    def limited(self, variables, limit, *rest):
        if "node" in variables:
            limits.append(limit)
        return original(self, variables, limit, *rest)

    world = nodes(1_100)
    expression = Expression(text, score=False)
    monkeypatch.setattr(Program, "evaluate", limited)
    column = expression.column(subject(world, pending_pod()), KeptColumns(NodeColumns(world.cache)))
    assert max(limits) == node_limit(1_100) // shares
    assert sum(limits) <= TOTAL_COST
    assert column.vec.errors is not None
    assert {column.texts.text(code) for code in set(column.vec.errors.tolist())} == {TOO_COSTLY}


def test_the_limit_on_a_node_falls_as_nodes_are_added_but_not_with_each_one():
    assert [node_limit(count) for count in (0, 1, 1_024)] == [COST_LIMIT] * 3
    assert [node_limit(count) for count in (1_025, 2_048)] == [COST_LIMIT // 2] * 2
    assert node_limit(5_000) == COST_LIMIT // 8
    assert node_limit(10**9) == LEAST_LIMIT
