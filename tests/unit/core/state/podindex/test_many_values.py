"""Selectors with very many values: the work for them does not grow with the values, except to read each once."""

import pytest

from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.pod import parse_pod
from podwright.core.state.podindex import PodSelector, SelectorList
from podwright.core.state.podindex.label_rows import LabelRows
from podwright.core.state.podindex.placed import PlacedPodClasses
from podwright.core.state.podindex.selecting import MANY_VALUES, SelectorIndex
from support.costs.call_counts import calls_of
from support.objects.builders import make_node, make_pod
from support.plugins.kit import make_cache

MANY = 20 * MANY_VALUES


def app_in(count, *further):
    values = [f"v{number}" for number in range(count)]
    expressions = [{"key": "app", "operator": "In", "values": values}, *further]
    return interned_selector({"matchExpressions": expressions}, "selector")


def pod(name, **labels):
    return parse_pod(make_pod(name, labels=labels, node="n0"))


def test_the_index_does_not_list_each_value():
    def calls(count):
        index = SelectorIndex()
        selector = app_in(count)
        return calls_of(lambda: index.add("a", selector, "default"))

    assert calls(10 * MANY) <= calls(MANY)


def test_pods_with_the_key_are_candidates_for_a_selector_with_many_values():
    index = SelectorIndex()
    index.add("many", app_in(MANY), None)
    index.add("few", app_in(MANY, {"key": "tier", "operator": "In", "values": ["x"]}), None)
    assert list(index.candidates("default", {"app": "other"})) == ["many"]
    assert list(index.candidates("default", {"tier": "x"})) == ["few"]
    assert list(index.candidates("default", {"own": "x"})) == []
    index.remove("many")
    assert list(index.candidates("default", {"app": "other"})) == []


@pytest.mark.parametrize("namespaces", [["default"], ["default", "other"]])
def test_placed_pods_are_not_looked_up_by_more_values_than_there_are(namespaces):
    def calls(count):
        placed = PlacedPodClasses()
        for number in range(3):
            placed.add_all(pod(f"p{number}", app=f"v{number}"), {0: 1})
        selector = app_in(count)
        return calls_of(lambda: placed.candidates(namespaces, selector))

    assert calls(10 * MANY) <= calls(MANY)


def test_rows_are_matched_by_few_or_many_values():
    rows = LabelRows()
    for value in ("v1", "other", "v0", "v1"):
        rows.append({"app": value})
    for count, expected in ((1, [2]), (2, [0, 2, 3]), (MANY, [0, 2, 3])):
        assert rows.matching(app_in(count)).nonzero()[0].tolist() == expected


def test_counts_for_many_values_are_not_kept_and_each_selector_is_evaluated_by_itself():
    selectors = SelectorList([app_in(MANY)])
    assert selectors.many
    assert not SelectorList([app_in(50)]).many
    assert calls_of(lambda: selectors.matching({"app": "v3"})) < 20
    assert selectors.matching({"app": "v3"}) == [0]


def counted(classes, nodes=40):
    """The index of a cluster with pods of so many classes on all nodes, and the selector of all of them."""
    cache = make_cache([make_node(f"n{index}") for index in range(nodes)])
    index = cache.pods_index
    number = 0
    for app in range(classes):
        for node in range(nodes):
            cache.set_pod(parse_pod(make_pod(f"p{number}", labels={"app": f"v{app}"}, node=f"n{node}")))
            number += 1
    return index, (PodSelector(app_in(MANY), frozenset({"default"})),)


def test_a_counter_that_is_not_kept_costs_the_same_for_more_classes_of_many_pods():
    def calls(classes):
        index, selectors = counted(classes)
        index.counter(selectors, keep=False)
        return calls_of(lambda: index.counter(selectors, keep=False))

    assert calls(120) <= calls(60) + 150  # it still asks how many pods each class has


@pytest.mark.parametrize("keep", [False, True])
def test_counters_that_are_kept_and_others_agree(keep):
    index, selectors = counted(30)
    assert index.counter(selectors, keep=keep).column(40).tolist() == [30] * 40
