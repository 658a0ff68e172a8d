import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.objects.node import parse_node
from podwright.core.state.columns import NodeTable
from podwright.core.state.columns import labels as module
from podwright.core.state.columns.labels import ABSENT
from support.objects.builders import make_node
from support.properties import examples
from support.state.allocations import bytes_left_by

VALUES = 2_000


def values_of(table, key):
    """The label's value on each node, None without it, read from the column."""
    names = {number: value for value, number in table.label_values(key).items()}
    return [None if number == ABSENT else names[number] for number in table.labels(key)]


def test_a_key_that_no_node_has_takes_no_column():
    table = NodeTable()
    for number in range(3):
        table.add(parse_node(make_node(f"n{number}", labels={"zone": f"z{number}"})))
    zone = table.labels("zone")
    absent = table.labels("key-0")
    for number in range(500):
        assert table.labels(f"key-{number}") is absent
        assert not table.label_values(f"key-{number}")
    assert list(absent) == [ABSENT] * 3
    assert table.labels("zone") is zone
    assert table.label_keys == {"zone"}
    with pytest.raises(ValueError, match="read-only"):
        absent[0] = 1


def test_the_least_recently_used_columns_are_dropped_and_built_again(monkeypatch):
    monkeypatch.setattr(module, "max_columns", lambda _capacity: 20)
    table = NodeTable()
    keys = {f"key-{number}": "v" for number in range(20)}
    for number in range(3):
        table.add(parse_node(make_node(f"n{number}", labels={"zone": f"z{number}", **keys})))
    column = table.labels("zone")
    for key in list(keys)[1:]:
        table.labels(key)
    assert table.labels("zone") is column
    for key in keys:
        table.labels(key)
    assert not np.shares_memory(table.labels("zone"), column)
    assert values_of(table, "zone") == ["z0", "z1", "z2"]
    table.update(0, parse_node(make_node("n0", labels={"zone": "z9"})))
    assert values_of(table, "zone") == ["z9", "z1", "z2"]


def test_values_and_keys_that_nodes_no_longer_have_are_forgotten():
    table = NodeTable()
    slots = [table.add(parse_node(make_node(f"n{number}"))) for number in range(2)]

    def change(number):
        labels = {"build": f"value-{number}", f"own-{number}": "x", "zone": "a"}
        table.update(slots[number % 2], parse_node(make_node(f"n{number % 2}", labels=labels)))
        table.labels("build")
        table.labels(f"own-{number}")

    def come_and_go():
        for number in range(VALUES):
            change(number)

    come_and_go()
    assert bytes_left_by(come_and_go) < VALUES * 64
    assert len(table.label_values("build")) < 200
    assert values_of(table, "build") == [f"value-{VALUES - 2}", f"value-{VALUES - 1}"]
    assert table.label_keys == {"build", "zone", f"own-{VALUES - 2}", f"own-{VALUES - 1}"}


_labels = st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from([f"v{i}" for i in range(9)]))


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 79), st.one_of(st.none(), _labels)), max_size=120))
def test_columns_equal_the_labels_of_the_nodes(changes):
    table = NodeTable()
    slots = {}
    for number, labels in changes:
        if labels is not None:
            node = parse_node(make_node(f"n{number}", labels=labels))
            if number in slots:
                table.update(slots[number], node)
            else:
                slots[number] = table.add(node)
        elif number in slots:
            table.remove(slots.pop(number))
        for key in ("zone", "disk"):
            expected = [None if node is None else node.labels.get(key) for node in table.nodes]
            assert values_of(table, key) == expected
            assert (key in table.label_keys) == any(value is not None for value in expected)


def passes_while_reading(monkeypatch):
    """The lengths of the passes over all nodes from now on."""
    passes = []
    fromiter = np.fromiter
    monkeypatch.setattr(module.np, "fromiter", lambda *args: passes.append(args[-1]) or fromiter(*args))
    return passes


def test_columns_of_default_constraints_grow_with_the_nodes_and_no_decision_reads_all_labels(monkeypatch):
    table, zone = NodeTable(), "topology.kubernetes.io/zone"
    for number in range(3000):
        table.add(parse_node(make_node(f"n{number}", labels={zone: f"z{number % 3}", "disk": "ssd"})))
    passes = passes_while_reading(monkeypatch)
    assert values_of(table, zone) == [f"z{number % 3}" for number in range(3000)]
    assert passes == []
    assert values_of(table, "disk") == ["ssd"] * 3000
    assert passes == [3000]


def test_a_label_that_flaps_on_one_of_many_nodes_takes_no_pass_over_the_others(monkeypatch):
    table, zone = NodeTable(), "topology.kubernetes.io/zone"
    for number in range(2000):
        table.add(parse_node(make_node(f"n{number}")))
    passes = passes_while_reading(monkeypatch)
    for number in range(100):
        table.update(1999, parse_node(make_node("n1999", labels={zone: "a"} if number % 2 else {})))
    assert passes == []
