from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.objects.node import parse_node
from podwright.core.objects.taints import Taint
from podwright.core.state.columns import NodeTable
from support.objects.builders import make_node, make_taint
from support.properties import examples


def test_taint_lists_that_no_node_has_any_more_are_forgotten():
    table = NodeTable()
    slots = [table.add(parse_node(make_node(f"n{number}"))) for number in range(3)]
    for number in range(2_000):
        taints = [make_taint("deletion-candidate", str(number))]
        table.update(slots[number % 2], parse_node(make_node(f"n{number % 2}", taints=taints)))
    in_use = {taints for taints in table.taint_sets if taints}
    assert in_use == {(Taint("deletion-candidate", str(number), "NoSchedule"),) for number in (1_998, 1_999)}
    assert len(table.taint_sets) < 100


_taints = st.lists(st.sampled_from([make_taint("a"), make_taint("b"), make_taint("c", "1")]), max_size=3)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), _taints)), max_size=60), st.sampled_from([1, 200]))
def test_each_node_has_the_number_of_its_taint_list(changes, burst):
    table = NodeTable()
    slots = {}
    for number, taints in changes:
        if number == 0:  # many lists that come and go, so that numbers are reused or dropped
            extra = [table.add(parse_node(make_node(f"x{i}", taints=[make_taint("x", str(i))]))) for i in range(burst)]
            for slot in extra:
                table.remove(slot)
        elif taints is not None:
            node = parse_node(make_node(f"n{number}", taints=taints))
            if number in slots:
                table.update(slots[number], node)
            else:
                slots[number] = table.add(node)
        elif number in slots:
            table.remove(slots.pop(number))
        for slot, node in enumerate(table.nodes):
            assert table.taint_sets[table.taints[slot]] == (() if node is None else node.taints)
        in_use = {node.taints for node in table.nodes if node is not None}
        assert set(table.taint_sets) == in_use | {()}


def test_the_version_rises_with_each_list_that_comes_or_goes():
    table = NodeTable()
    versions = [table.taint_version]
    slot = table.add(parse_node(make_node("a", taints=[make_taint("k")])))
    versions.append(table.taint_version)
    other = table.add(parse_node(make_node("b", taints=[make_taint("k")])))
    table.remove(other)
    assert table.taint_version == versions[-1] > versions[0]
    table.remove(slot)
    assert table.taint_version > versions[-1]
