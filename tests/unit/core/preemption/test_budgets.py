"""Which evictions violate a budget, and what it costs where a user has created thousands of budgets."""

from __future__ import annotations

import random
from unittest import mock

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.core.objects.selectors import parse_label_selector
from podwright.core.preemption import budgets as module
from podwright.core.preemption.budgets import KIND, BudgetRules, Budgets, StoredBudgets
from podwright.core.state.object_store import ObjectStore
from support.costs.operation_counts import counted_elements
from support.objects.builders import make_pod


def budget(name, allowed, *, not_in="", labels=None, namespace="default", **status):
    selector = {"matchLabels": labels or {}}
    if not_in:
        selector["matchExpressions"] = [{"key": "app", "operator": "NotIn", "values": [not_in]}]
    metadata = {"name": name, "namespace": namespace}
    return {"metadata": metadata, "spec": {"selector": selector}, "status": {"disruptionsAllowed": allowed, **status}}


def pod(name, **labels):
    return parse_pod(make_pod(name, labels=labels))


def expected(budgets, pods):
    """The pods that violate a budget, asked one budget after the other."""
    left = [raw["status"]["disruptionsAllowed"] for raw in budgets]
    violating = []
    for each in pods:
        for position, raw in enumerate(budgets):
            selector = parse_label_selector(raw["spec"]["selector"], "selector")
            disrupted = raw["status"].get("disruptedPods", {})
            if not each.labels or selector.empty or not selector.matches(each.labels) or each.name in disrupted:
                continue
            left[position] -= 1
            if left[position] < 0:
                violating.append(each.name)
                break
    return violating


@pytest.mark.parametrize("count", [3, 6])
@pytest.mark.parametrize("seed", range(20))
def test_the_violations_are_those_of_a_plain_loop(count, seed):
    below = random.Random(seed)
    budgets = [
        budget(
            f"b{i}",
            below.randrange(9),
            not_in=below.choice(["", "a", "b"]),
            labels=below.choice([{}, {"app": "a"}, {"tier": "x"}]),
            disruptedPods=below.choice([{}, {"p3": "now"}]),
        )
        for i in range(count)
    ]
    pods = [
        pod(f"p{i}", **below.choice([{}, {"app": "a"}, {"app": "b", "tier": "x"}, {"tier": "x"}])) for i in range(25)
    ]
    remaining = Budgets(BudgetRules(budgets))
    assert [each.name for each in pods if remaining.violations([each])] == expected(budgets, pods)


def test_a_selector_is_evaluated_once_for_each_set_of_labels():
    rules = BudgetRules([budget(f"b{i}", 5, not_in=f"v{i}") for i in range(1_000)])
    with mock.patch.object(module, "interned_selector", wraps=module.interned_selector) as parsed:
        for node in range(100):
            Budgets(rules).violations([pod(f"p{node}", app="a")])
        assert parsed.call_count == 1_000


def test_an_attempt_may_pause_at_each_selector_that_it_parses():
    store, points = ObjectStore(), []
    for number in range(50):
        store.set(KIND, budget(f"b{number}", 1, not_in="x"))
    stored = StoredBudgets(store, lambda: points.append(len(points)))
    Budgets(stored.rules()).violations([pod("one", app="a")])
    Budgets(stored.rules()).violations([pod("two", app="b")])
    assert len(points) == 50


def test_rules_are_kept_until_budgets_change_and_selectors_while_these_do_not():
    store = ObjectStore()
    for number in range(50):
        store.set(KIND, budget(f"b{number}", 1, not_in="x"))
    stored = StoredBudgets(store)
    one = pod("one", app="a")
    assert Budgets(stored.rules()).violations([one, one]) == 1
    assert stored.rules() is stored.rules()
    for number in range(50):
        store.set(KIND, budget(f"b{number}", 2, not_in="x"))
    with mock.patch.object(module.SelectorRows, "matching") as evaluated:
        assert Budgets(stored.rules()).violations([one, one]) == 0
        assert not evaluated.called
    store.set(KIND, budget("b7", 0, not_in="a"))
    assert Budgets(stored.rules()).violations([one, one]) == 0
    store.remove(KIND, "b7", "default")
    assert Budgets(stored.rules()).violations([one, one, one]) == 1


def test_a_namespace_is_compiled_only_if_its_pods_are_asked_about():
    rules = BudgetRules([budget(f"b{i}", 0, not_in="x", namespace="other") for i in range(100)])
    with counted_elements() as elements, mock.patch.object(module, "interned_selector") as parsed:
        assert Budgets(rules).violations([pod("one", app="a")]) == 0
    assert (len(elements), parsed.call_count) == (0, 0)


def test_huge_numbers_of_allowed_disruptions_count_as_very_many():
    rules = BudgetRules([budget("b", 1 << 80, not_in="x")])
    assert Budgets(rules).violations([pod("one", app="a")]) == 0


def test_what_is_kept_about_the_labels_of_pods_is_bounded():
    rules = BudgetRules([budget(f"b{i}", 5, not_in=f"v{i}") for i in range(1_000)])
    pods = [pod(f"p{i}", app=f"a{i}") for i in range(50)]
    with mock.patch.object(module, "MOST_KEPT", 10_000):
        for each in pods:
            Budgets(rules).violations([each])
        with mock.patch.object(module.SelectorRows, "matching", return_value=[]) as evaluated:
            for each in pods:
                Budgets(rules).violations([each])
        assert evaluated.call_count >= 40


def test_a_pod_that_violates_the_first_budget_is_not_compared_with_all_others():
    with counted_elements() as elements:
        rules = BudgetRules([budget(f"b{i}", 0, not_in=f"v{i}") for i in range(1_000)])
        Budgets(rules).violations([pod("one", app="a")])
        elements.clear()
        assert Budgets(rules).violations([pod(f"p{i}", app="a") for i in range(50)]) == 50
    assert sum(elements) < 10_000
