import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.objects.node import parse_node
from podwright.core.state.columns import DerivedColumns, NodeTable
from podwright.core.state.columns.change_log import ChangeLog
from podwright.core.state.columns.table import MAX_LABEL_COLUMNS
from support.objects.builders import make_node, make_taint


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


@settings(max_examples=50, deadline=None)
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


def test_resources_that_no_node_offers_and_no_pod_uses_share_one_column():
    table = NodeTable()
    slot = table.add(parse_node(make_node("a", allocatable={"gpu": "2"})))
    unknown = table.allocatable("example.com/0")
    for number in range(500):
        for column in (table.allocatable(f"example.com/{number}"), table.requested(f"example.com/{number}")):
            assert list(column) == [0]
            assert np.shares_memory(column, unknown)
    table.set_usage(slot, "example.com/7", 3)
    assert list(table.requested("example.com/7")) == [3]
    table.update(slot, parse_node(make_node("a", allocatable={"example.com/7": "5"})))
    assert (list(table.allocatable("example.com/7")), list(table.allocatable("gpu"))) == ([5], [0])


def test_dropped_label_columns_are_built_again_with_the_same_ids():
    table = NodeTable()
    for number in range(3):
        table.add(parse_node(make_node(f"n{number}", labels={"zone": f"z{number}"})))
    column, ids = table.labels("zone"), dict(table.label_values("zone"))
    before = list(column)
    for number in range(MAX_LABEL_COLUMNS - 1):
        table.labels(f"key-{number}")
    assert np.shares_memory(table.labels("zone"), column)
    for number in range(MAX_LABEL_COLUMNS):
        table.labels(f"key-{number}")
    table.update(0, parse_node(make_node("n0", labels={"zone": "z9"})))
    assert not np.shares_memory(table.labels("zone"), column)
    assert list(table.labels("zone"))[1:] == before[1:]
    assert table.labels("zone")[0] == table.label_values("zone")["z9"]
    assert ids.items() <= table.label_values("zone").items()
