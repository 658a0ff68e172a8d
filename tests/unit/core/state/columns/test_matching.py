"""Columns of selectors, affinities and tolerations. Plugins rely on False or 0 in rows without a node."""

from unittest import mock

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.objects.selectors import Requirement
from podwright.core.objects.taints import parse_tolerations
from podwright.core.state.columns.matching import (
    TAINT_SETS_AT_ONCE,
    affinity_column,
    intolerable_column,
    preference_column,
    tolerated_column,
)
from podwright.core.state.columns.requirements import requirement_column
from support.objects.builders import make_node, make_taint
from support.plugins.kit import make_cache, pending

AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
NOT_IN = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["z1"]}]}
UNNAMED = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}
SLOW = make_taint("slow", effect="PreferNoSchedule")


def required(term):
    return pending(spec={"affinity": {"nodeAffinity": {AFFINITY: {"nodeSelectorTerms": [term]}}}}).node_affinity


def preferred(term):
    terms = [{"weight": 3, "preference": term}]
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    return pending(spec={"affinity": {"nodeAffinity": affinity}}).node_affinity


NO_TOLERATIONS = parse_tolerations([], "")
COLUMNS = [
    pytest.param(lambda d: affinity_column(d, pending().node_affinity), True, id="no affinity"),
    pytest.param(lambda d: affinity_column(d, required(NOT_IN)), True, id="a label value that is excluded"),
    pytest.param(lambda d: affinity_column(d, required(UNNAMED)), True, id="a node name that is excluded"),
    pytest.param(lambda d: preference_column(d, preferred(NOT_IN)), 3, id="preferences"),
    pytest.param(lambda d: tolerated_column(d, NO_TOLERATIONS, compare=False), True, id="tolerations"),
    pytest.param(lambda d: intolerable_column(d, NO_TOLERATIONS, compare=False), 1, id="intolerable taints"),
]


@pytest.mark.parametrize("column, value", COLUMNS)
@pytest.mark.parametrize("when", ["before the column is built", "after it was built"])
def test_rows_without_a_node_are_empty(column, value, when):
    cache = make_cache([make_node(name, taints=[SLOW]) for name in ("x", "y", "z")])
    if when == "after it was built":
        assert column(cache.derived).tolist() == [value] * 3
    cache.remove_node("y")
    assert column(cache.derived).tolist() == [value, 0, value]


@pytest.mark.parametrize("column, value", COLUMNS)
def test_a_column_grows_with_the_table(column, value):
    cache = make_cache([make_node("n0", taints=[SLOW])])
    assert len(column(cache.derived)) == 1
    for i in range(1, 100):
        cache.set_node(parse_node(make_node(f"n{i}", taints=[SLOW])))
    assert column(cache.derived).tolist() == [value] * 100


def test_a_column_of_many_requirements_is_built_again_rather_than_row_by_row():
    """One changed row in a hundred means: build again. A row is as expensive as the whole column."""
    cache = make_cache([make_node(f"n{i}", labels={"zone": "z1"}) for i in range(100)])
    affinity = required(NOT_IN)
    affinity_column(cache.derived, affinity)
    for i in range(50):
        cache.set_node(parse_node(make_node(f"n{i}", labels={"zone": "z2"})))
    with mock.patch.object(Requirement, "matches_value", autospec=True, side_effect=AssertionError):
        assert affinity_column(cache.derived, affinity).tolist() == [True] * 50 + [False] * 50


def test_an_unknown_label_value_matches_no_node():
    cache = make_cache([make_node("a", labels={"zone": "z1"}), make_node("b")])
    (requirement,) = (
        required({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z9", "z8"]}]})
        .required.terms[0]
        .expressions
    )
    assert requirement_column(cache.table, requirement).tolist() == [False, False]


@pytest.mark.parametrize("column", [tolerated_column, intolerable_column])
def test_an_attempt_may_pause_while_very_many_taint_lists_are_compared(column):
    count = 3 * TAINT_SETS_AT_ONCE
    cache = make_cache([make_node(f"n{i}", taints=[make_taint(f"key-{i}")]) for i in range(count)])
    paused = []
    cache.deadline.check = lambda: paused.append(1)
    column(cache.derived, NO_TOLERATIONS, compare=False)
    assert len(paused) >= 3
