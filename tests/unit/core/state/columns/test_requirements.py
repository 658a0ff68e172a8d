"""Masks of requirements agree with the rule for one node, whether the table has a column of the label, reads it, or no
node has it.
"""

import pytest

from podwright.core.objects.selectors import Requirement, parse_node_selector_term
from podwright.core.state.columns.requirements import (
    MAX_NEW_COLUMNS,
    RequirementMasks,
    all_of,
    any_of,
    as_column,
    requirement_column,
)
from support.costs.call_counts import calls_of
from support.objects.builders import make_node
from support.plugins.kit import make_cache

HUGE = "9" * 4400
VALUES = ("", "x", "5", "-5", "+5", "007", "1_0", "٣", str(2**63 - 1), str(2**63), HUGE)
KEYS = [f"key-{number}" for number in range(2 * MAX_NEW_COLUMNS)]
NODES = [
    make_node("named", labels={**dict.fromkeys(KEYS, "z"), "number": "5"}),
    *(make_node(f"n{i}", labels={key: value for key in KEYS if len(key) > 5}) for i, value in enumerate(VALUES)),
    *(make_node(f"m{i}", labels={"key-0": value}) for i, value in enumerate(VALUES)),
    make_node("12"),
]


def requirement(operator, *values, key="key-0"):
    raw = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    (parsed,) = parse_node_selector_term({"matchExpressions": [raw]}, "", allow_invalid_bounds=True).expressions
    return parsed


REQUIREMENTS = [
    requirement("Exists"),
    requirement("DoesNotExist"),
    requirement("In", "x"),
    requirement("In", "x", "5", "nowhere"),
    requirement("In", "nowhere"),
    requirement("NotIn", "x"),
    requirement("NotIn", "x", "5"),
    requirement("NotIn", "nowhere"),
    *(requirement(operator, value) for operator in ("Gt", "Lt") for value in (*VALUES, "4")),
]


@pytest.mark.parametrize("found", REQUIREMENTS, ids=lambda found: f"{found.operator} {sorted(found.values)!s:.40}")
@pytest.mark.parametrize("key", ["key-0", KEYS[-1], "no-node-has-it"])
@pytest.mark.parametrize("keys", [KEYS[:1], KEYS], ids=["few labels", "more labels than columns are made for"])
def test_a_mask_agrees_with_the_rule_for_one_node(found, key, keys):
    table = make_cache(NODES).table
    found = Requirement(key, found.operator, found.values, found.bound)
    mask = as_column(RequirementMasks(table, {*keys, key}).of_label(found), table)
    assert mask.tolist() == [found.matches(node.labels) for node in table.nodes]


@pytest.mark.parametrize(
    "found",
    [*REQUIREMENTS, requirement("In", "n1", "12"), requirement("NotIn", "n1"), requirement("Gt", "11")],
    ids=lambda found: f"{found.operator} {sorted(found.values)!s:.40}",
)
def test_a_mask_of_names_agrees_with_the_rule_for_one_node(found):
    table = make_cache(NODES).table
    mask = as_column(RequirementMasks(table, ()).of_name(found), table)
    assert mask.tolist() == [found.matches_value(name) for name in table.names]


def test_labels_that_no_node_has_need_no_column():
    table = make_cache(NODES).table
    keys = [f"unknown-{number}" for number in range(1000)]
    masks = RequirementMasks(table, keys)
    for key in keys:
        assert masks.of_label(requirement("In", "v", key=key)) is False
        assert masks.of_label(requirement("NotIn", "v", key=key)) is True
        assert not table.has_label_column(key)


@pytest.mark.parametrize("count, columns", [(MAX_NEW_COLUMNS, MAX_NEW_COLUMNS), (MAX_NEW_COLUMNS + 1, 0)])
def test_only_a_few_columns_are_added_to_the_table(count, columns):
    table = make_cache(NODES).table
    masks = RequirementMasks(table, KEYS[:count])
    for key in KEYS[:count]:
        masks.of_label(requirement("In", "z", key=key))
    assert sum(map(table.has_label_column, KEYS)) == columns


def test_labels_that_nodes_share_are_read_once_for_all_of_them():
    keys = [f"key-{number}" for number in range(300)]
    table = make_cache([make_node(f"n{i}", labels=dict.fromkeys(keys, str(i % 2))) for i in range(100)]).table
    made = []
    assert calls_of(lambda: made.append(RequirementMasks(table, keys)), ("c_call",)) < 20 * len(keys)
    (masks,) = made
    assert masks.of_label(requirement("In", "1", key=keys[7])).sum() == 50


def test_masks_are_combined_until_the_result_is_certain():
    table = make_cache(NODES).table
    some = [requirement_column(table, requirement("In", "x")) for _ in range(4)]

    def then(*masks):
        yield from masks
        raise AssertionError("no further mask was needed")

    assert all_of(()) is True
    assert any_of(()) is False
    assert all_of(then(some[0], False)) is False
    assert any_of(then(some[1], True)) is True
    assert as_column(all_of((True, some[2])), table).tolist() == some[2].tolist()
    assert as_column(any_of((False, some[3])), table).tolist() == some[3].tolist()
