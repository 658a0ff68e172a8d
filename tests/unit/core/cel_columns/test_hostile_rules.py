"""The cost of hostile teams' rules: time between pauses, memory, and errors instead of crashes. Operations are counted,
not timed.
"""

from __future__ import annotations

import random

import pytest

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel_columns.counts import MAX_SELECTOR, selector_of
from podwright.core.cel_columns.kept import KeptColumns
from podwright.core.cel_columns.lifting import MAX_VALUES
from podwright.core.cel_columns.nodes import NodeColumns
from podwright.core.cel_columns.vectors import MAX_TEXTS, held_bytes
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.rules.expression import Expression
from podwright.simulator.world import World
from support.objects.builders import make_node
from support.rules.clusters import cluster, pending_pod, subject

NO_OVERLOAD = "no such overload"


def nodes(count):
    world = World()
    world.fill({"nodes": [make_node(f"n{i}", labels={"name": f"n{i}"}) for i in range(count)]})
    return world


def kept_of(world, **sizes):
    return KeptColumns(NodeColumns(world.cache), **sizes)


def texts_of(column):
    errors = column.vec.errors
    return [] if errors is None else [column.texts.text(int(code)) if code else "" for code in errors]


def annotated(index, text):
    raw = {"metadata": {"name": "p", "namespace": "default", "uid": f"u{index}", "annotations": {"x": text}}}
    return parse_pod({**raw, "spec": {"containers": [{"name": "c", "image": "i"}]}}, keep_raw=True)


def test_errors_keep_their_texts_if_these_become_full_within_one_evaluation():
    world = cluster(random.Random(1))
    kept = kept_of(world)
    for i in range(MAX_TEXTS - 5):
        kept.errors.code(f"error {i}")
    expression = Expression("{'a': 1}[pod.name + node.name] > 0 || {'a': 1}[node.name] > 0", score=False)
    column = expression.column(subject(world, pending_pod()), kept)
    texts = texts_of(column)
    assert column.failing is not None
    assert texts[column.failing] == f"no such key: pending{world.cache.table.names[column.failing]}"
    assert set(texts) & {"too many different errors"}


@pytest.mark.parametrize(
    "expression",
    [
        "domainOf(dyn(1), 'zone') == ''",
        "domainOf(dyn(pod), 'zone') == ''",
        "domainOf(node, dyn(1)) == ''",
        "podsOnNode(dyn(1)) > 0",
        "podsInDomain(dyn(null), 'app') > 0",
        "podsInDomain('zone', dyn(1)) > 0",
    ],
)
def test_an_argument_of_the_wrong_type_is_an_error_compiled_and_interpreted(expression):
    world = cluster(random.Random(1))
    found = Expression(expression, score=False)
    asked = subject(world, pending_pod())
    assert set(texts_of(found.column(asked, kept_of(world)))) == {NO_OVERLOAD}
    with pytest.raises(EvaluationError, match=NO_OVERLOAD):
        found.evaluate(asked, world.cache.nodes["n1"])


def test_a_selector_of_kubectl_has_spaces_where_these_may_be():
    found = selector_of("  a = b , c in ( d , e ),f notin (g),! h ,i!= j,k  ")
    assert [(each.key, each.operator, set(each.values)) for each in found.requirements] == [
        ("a", "In", {"b"}),
        ("c", "In", {"d", "e"}),
        ("f", "NotIn", {"g"}),
        ("h", "DoesNotExist", set()),
        ("i", "NotIn", {"j"}),
        ("k", "Exists", set()),
    ]


def test_counting_pods_costs_what_the_selector_and_the_pods_take():
    world = cluster(random.Random(1), nodes=1, pods=25)
    terms = ",".join(f"!k{i}" for i in range(600))
    assert len(terms) < MAX_SELECTOR
    expression = Expression(f"podsOnNode('{terms}' + node.labels.zone) == 0", score=False)
    many = f"['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].exists(s, podsOnNode('{terms},' + s) > 0)"
    asked, node = subject(world, pending_pod()), world.cache.nodes["n0"]
    assert expression.evaluate(asked, node) is False
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        Expression(many, score=False).evaluate(asked, node)


def test_texts_of_all_nodes_together_have_a_limit():
    world = nodes(300)
    pod = annotated(1, "a" * 80_000)
    column = Expression("(pod.annotations.x + node.name).contains('y')", score=False).column(
        subject(world, pod), kept_of(world)
    )
    failed = texts_of(column).count("operation cancelled: memory limit exceeded")
    assert 300 - MAX_VALUES // 80_000 <= failed < 300


def test_what_tells_pods_apart_counts_as_memory():
    world = nodes(10)
    kept = kept_of(world, max_bytes=4_000_000)
    expression = Expression("pod.annotations.x.startsWith('a') && node.name != pod.name", score=False)
    for i in range(100):
        expression.column(subject(world, annotated(i, "a" * 200_000 + str(i))), kept)
    assert 0 < len(kept) <= 4_000_000 // 200_000


def test_texts_that_are_kept_for_nodes_count_as_memory():
    world = nodes(10)
    kept = kept_of(world, max_bytes=200_000)
    for i in range(10):
        expression = Expression(f"('{i}{'x' * 3_000}' + node.name).contains(pod.name)", score=False)
        expression.column(subject(world, pending_pod()), kept)
    assert len(kept) < 12


def test_held_bytes_counts_what_is_shared_once():
    shared = ["x" * 1_000] * 1_000
    assert 1_000 < held_bytes([shared, shared, {"a": shared}]) < 20_000


@pytest.mark.parametrize(
    "expression",
    [
        "size(pod.name + node.name) > 0",
        "node.labels.name.matches(pod.name)",
        "[1, 2, 3].all(x, x > 0 || node.labels.name == 'a')",
        "podsInDomain('name', 'a') + podsInDomain('name', 'b') + podsOnNode('c') == 0",
    ],
    ids=["lifted", "matched", "unrolled", "counting"],
)
def test_an_evaluation_of_many_nodes_pauses(expression):
    world = nodes(200)
    pauses = []
    world.cache.deadline.check = lambda: pauses.append(1)
    Expression(expression, score=False).column(subject(world, pending_pod()), kept_of(world))
    assert len(pauses) >= 3


def test_an_evaluation_without_the_node_pauses():
    world = nodes(2)
    pauses = []
    world.cache.deadline.check = lambda: pauses.append(1)
    digits = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
    expression = Expression(f"{digits}.all(x, {digits}.all(y, {digits}.all(z, x + y + z > 0)))", score=False)
    expression.column(subject(world, pending_pod()), kept_of(world))
    assert len(pauses) >= 10


def test_each_expression_begins_with_a_pause():
    world = nodes(200)
    pauses = []
    world.cache.deadline.check = lambda: pauses.append(1)
    kept = kept_of(world)
    for number in range(4):
        Expression(f"[1, 2].all(x, [1, 2].all(y, x + y > {number}))", score=False).column(
            subject(world, pending_pod()), kept
        )
    assert len(pauses) == 4
