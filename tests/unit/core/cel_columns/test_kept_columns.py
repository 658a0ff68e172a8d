"""Cached results of rules are bounded, and dropped when they are not used any more."""

from __future__ import annotations

import random

import pytest

from podwright.core.cel_columns.kept import KeptColumns
from podwright.core.cel_columns.nodes import NodeColumns
from podwright.core.cel_columns.run import Operation
from podwright.core.cel_columns.vectors import MAX_TEXT, MAX_TEXTS, TOO_MANY, ErrorTexts
from podwright.core.objects.compaction import compact_all
from podwright.core.plugins.rules.expression import Expression
from support.rules.clusters import cluster, pending_pod, subject


def test_pods_that_all_differ_keep_no_more_than_the_bytes_allow():
    world = cluster(random.Random(1))
    kept = KeptColumns(NodeColumns(world.cache), max_bytes=100_000)
    expression = Expression("node.labels.tier == pod.labels.tier", score=False)
    for i in range(500):
        expression.column(subject(world, pending_pod(tier=f"t{i}")), kept)
    assert 0 < len(kept) <= 100


def test_results_that_nobody_uses_are_dropped_by_two_compactions():
    world = cluster(random.Random(1))
    kept = KeptColumns(NodeColumns(world.cache))
    Expression("node.podCount > 1", score=False).column(subject(world, pending_pod()), kept)
    assert len(kept) == 1
    for _ in range(2):
        compact_all()
    assert len(kept) == 0


def test_pods_of_one_template_share_a_result():
    world = cluster(random.Random(1))
    kept = KeptColumns(NodeColumns(world.cache))
    expression = Expression("node.labels.tier == pod.labels.tier", score=False)
    first = expression.column(subject(world, pending_pod("a")), kept)
    assert expression.column(subject(world, pending_pod("b", app="other")), kept) is first


def test_texts_of_errors_are_bounded_in_number_and_length():
    texts = ErrorTexts()
    codes = [texts.code(f"error {i}") for i in range(2 * MAX_TEXTS)]
    assert texts.full
    assert texts.text(codes[0]) == "error 0"
    assert texts.text(codes[-1]) == TOO_MANY
    assert len(set(codes)) <= MAX_TEXTS + 1


@pytest.mark.parametrize("text", ["x" * 100_000, "a\nb\x00\u202ec", "é" * MAX_TEXT])
def test_a_text_of_an_error_is_one_printable_line(text):
    texts = ErrorTexts()
    found = texts.text(texts.code(text))
    assert found.isprintable()
    assert len(found) <= MAX_TEXT


def test_results_are_right_after_the_texts_of_errors_were_full():
    world = cluster(random.Random(1))
    kept = KeptColumns(NodeColumns(world.cache))
    expression = Expression("node.labels[pod.labels.key] == 'x'", score=False)
    for i in range(MAX_TEXTS + 10):
        kept.errors.code(f"error {i}")
    column = expression.column(subject(world, pending_pod(key="nowhere")), kept)
    assert column.failing is not None
    assert column.texts.text(int(column.vec.errors[column.failing])) == "no such key: nowhere"


class Broken(Operation):
    """Has a mistake."""

    def run(self, run):
        raise ZeroDivisionError("a mistake")


def test_a_mistake_in_an_operation_is_an_error_on_each_node():
    world = cluster(random.Random(1))
    column = KeptColumns(NodeColumns(world.cache)).column(Broken(), (), dict)
    assert column.failing is not None
    assert not column.passing.any()
    slot = next(info.slot for info in world.cache.nodes.values() if info.node is not None)
    assert column.texts.text(int(column.vec.errors[slot])) == "internal error: ZeroDivisionError: a mistake"
