import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.objects.node import parse_node
from podwright.core.state.columns import DerivedColumns, NodeTable
from podwright.core.state.columns.change_log import ChangeLog
from support.objects.builders import make_node, make_taint
from support.properties import examples


def test_a_node_keeps_its_slot_and_a_later_node_reuses_it():
    table = NodeTable()
    slots = [table.add(parse_node(make_node(name))) for name in "abc"]
    table.remove(slots[1])
    assert list(table.valid) == [True, False, True]
    assert not table.full
    assert table.add(parse_node(make_node("d"))) == slots[1]
    assert table.names == ["a", "d", "c"]


def test_a_row_without_a_node_has_no_resources_and_no_labels():
    table = NodeTable()
    slot = table.add(parse_node(make_node("a", labels={"zone": "z"}, allocatable={"gpu": "2"})))
    assert table.labels("zone")[slot] == table.label_values("zone")["z"]
    assert table.allocatable("gpu")[slot] == 2
    table.remove(slot)
    assert table.labels("zone")[slot] == -1
    assert table.allocatable("gpu")[slot] == 0


def test_columns_cannot_be_written_by_readers():
    table = NodeTable()
    table.add(parse_node(make_node("a")))
    with pytest.raises(ValueError, match="read-only"):
        table.allocatable("cpu")[0] = 1


def test_columns_grow_with_the_cluster():
    table = NodeTable()
    cpus = [table.add(parse_node(make_node(f"n{i}", allocatable={"cpu": str(i)}))) for i in range(200)]
    assert cpus == list(range(200))
    assert list(table.allocatable("cpu")) == [1000 * i for i in range(200)]
    assert len(table.labels("new")) == 200


def test_equal_taint_lists_share_one_id():
    table = NodeTable()
    for name, taints in (("a", [make_taint("k")]), ("b", []), ("c", [make_taint("k")])):
        table.add(parse_node(make_node(name, taints=taints)))
    assert table.taints[0] == table.taints[2] != table.taints[1]


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["x", "y", None]), st.booleans()), max_size=60))
def test_an_updated_derived_column_equals_one_computed_from_scratch(changes):
    table = NodeTable()
    derived = DerivedColumns(table, limit=2)
    slots = {}

    def row(node):
        return len(node.labels)

    for number, label, removed in changes:
        name = f"n{number}"
        if removed and name in slots:
            table.remove(slots.pop(name))
        elif not removed:
            node = parse_node(make_node(name, labels={"l": label} if label else {}))
            if name in slots:
                table.update(slots[name], node)
            else:
                slots[name] = table.add(node)
        if table.size:
            kept = derived.get("labels", row, np.int64)
            fresh = DerivedColumns(table).get("labels", row, np.int64)
            assert list(kept) == list(fresh)


def test_a_change_log_reports_that_it_dropped_changes():
    log = ChangeLog(limit=4)
    for slot in range(9):
        log.append(slot)
    assert log.since(0) is None
    assert list(log.since(7)) == [7, 8]
    assert log.seq == 9


def test_a_node_is_found_by_its_name_until_it_is_removed():
    table = NodeTable()
    slot = table.add(parse_node(make_node("a")))
    assert table.slot_of("a") == slot
    assert table.slots_of(["none", "a", "a"]).tolist() == [-1, slot, slot]
    table.remove(slot)
    assert table.slot_of("a") is None


def test_functions_of_two_modules_have_columns_of_their_own():
    table = NodeTable()
    table.add(parse_node(make_node("a")))
    derived = DerivedColumns(table)

    def old(_node):
        return 1

    def new(_node):
        return 2

    new.__module__ = "the_next_version"
    for _ in range(2):
        assert derived.get("plugin.column", old, np.int64)[0] == 1
        assert derived.get("plugin.column", new, np.int64)[0] == 2
