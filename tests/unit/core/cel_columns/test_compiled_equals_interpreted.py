"""Compiled expressions give on every node what the evaluator gives for it, value or error: over generated expressions
and nodes.
"""

from __future__ import annotations

import os
import random

import pytest

from podwright.core.cel.errors import CelError, EvaluationError
from podwright.core.cel_columns.compiler import ColumnCompiler
from podwright.core.cel_columns.kept import kept_columns
from podwright.core.cel_columns.nodes import NodeViewer
from podwright.core.cel_columns.vectors import shortened, value_at
from podwright.core.plugins.rules.environment import environment
from podwright.core.plugins.rules.subject import VARIABLES
from support.properties import case_count
from support.rules.clusters import SIGNALS, change, cluster, pending_pod, subject
from support.rules.expressions import Expressions

EXPRESSIONS = case_count("PODWRIGHT_CEL_EXPRESSIONS", 1000)
SEED = int(os.environ.get("PODWRIGHT_CEL_SEED") or 0)
"""Other ones give other expressions."""
BATCH = 50


def compiled(text):
    parts = environment(tuple(SIGNALS))
    program = parts.compile(text)
    return program, ColumnCompiler(program.tree, lambda tree: parts.part(tree).evaluate).compile()


def interpreted(program, variables):
    try:
        found = program.evaluate(variables)
    except EvaluationError as error:
        return "error", shortened(str(error))
    return type(found).__name__, repr(found)


def of_node(info, viewer, cache):
    """The variables that differ from node to node."""
    return {"node": viewer.of(info), "signals": cache.signals.of_node(info.name)}


def at(column, slot):
    vec = column.vec
    if vec.errors is not None and vec.errors[slot]:
        return "error", column.texts.text(int(vec.errors[slot]))
    found = value_at(vec, slot)
    return type(found).__name__, repr(found)


def compare(world, kept, asked, expressions):
    cache, variables = world.cache, asked.variables(VARIABLES)
    for text, program, operation in expressions:
        viewer = NodeViewer(operation.reads)

        def one(info, program=program, viewer=viewer):
            return program.evaluate({**variables, **of_node(info, viewer, cache)})

        simple = program.result_type.name in ("bool", "int", "double")
        column = kept.column(operation, (), lambda: variables, one if simple else None)
        for info in cache.nodes.values():
            if info.node is not None:
                expected = interpreted(program, {**variables, **of_node(info, viewer, cache)})
                assert at(column, info.slot) == expected, f"{text} on {info.name}: {info.node}"


@pytest.mark.parametrize("seed", range(SEED, SEED + max(1, EXPRESSIONS // 500)))
def test_compiled_expressions_equal_interpreted_ones_while_nodes_and_pods_change(seed):
    source = random.Random(seed)
    generated = Expressions(source)
    world = cluster(source)
    kept = kept_columns(world.cache)
    asked = subject(world, pending_pod())
    refused = 0
    for _ in range(500 // BATCH):
        known = []
        for text in (generated.any() for _ in range(BATCH)):
            try:
                program, found = compiled(text)
            except CelError:
                refused += 1
                continue
            known.append((text, program, found.operation))
        compare(world, kept, asked, known)
        for _ in range(source.choice((1, 3, 20))):
            change(world, source)
        compare(world, kept, asked, known)
    assert refused < 100


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "-(has(node.labels.n) ? double(pod.labels.tier) : double(pod.name))", id="minus of an error everywhere"
        ),
        pytest.param(
            "(has(node.labels.n) ? double(pod.labels.tier) : double(pod.name)) - (has(node.labels.n) ? double(pod.labels.app) : double(pod.name))",
            id="a difference of errors everywhere",
        ),
        pytest.param(
            "int(has(node.labels.n) ? double(pod.labels.tier) : double(pod.name))", id="int of an error everywhere"
        ),
        pytest.param("0.0 * (node.unschedulable ? -2.0 : 1e300)", id="zeros of both signs"),
    ],
)
def test_errors_on_all_nodes_and_zeros_of_both_signs_equal_interpreted_ones(text):
    source = random.Random(99)
    world = cluster(source)
    kept = kept_columns(world.cache)
    asked = subject(world, pending_pod())
    program, found = compiled(text)
    for _ in range(30):
        compare(world, kept, asked, [(text, program, found.operation)])
        change(world, source)
