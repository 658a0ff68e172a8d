"""Invariants of the search of changes: nothing is left behind, it is bounded, and the pods' own objects are not
changed.
"""

import copy

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.simulator.explain.changes import groups, search
from podwright.simulator.explain.changes.trials import Trials
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.explain.results import PodState, as_object
from support.explain.kit import KINDS
from support.explain.objects import cluster, full, node, waiting
from support.explain.situations import SITUATIONS
from support.objects.builders import make_policy, make_taint


def state_of(loaded):
    cache = loaded.cache
    return (
        {name: (info.node, list(info.pods), dict(info.requested)) for name, info in cache.nodes.items()},
        {kind: [raw["metadata"]["name"] for raw in cache.store.list(kind)] for kind in KINDS.values()},
        {group.key: group.min_count for group in cache.groups.all()},
        cache.nominator.nodes() and list(cache.nominator.nodes()),
        list(loaded.pending),
    )


@pytest.mark.parametrize("situation", [pytest.param(each, id=each.id) for each in SITUATIONS])
def test_an_explanation_leaves_the_cluster_and_the_pod_as_they_were(situation):
    loaded, raw = situation.cluster.load(), copy.deepcopy(situation.pod)
    before = state_of(loaded)
    first = explain_pod(loaded, parse_pod(raw, keep_raw=True), raw=raw)
    assert state_of(loaded) == before
    assert raw == situation.pod
    assert as_object(explain_pod(loaded, parse_pod(raw, keep_raw=True), raw=raw)) == as_object(first)


@pytest.mark.parametrize("situation", [pytest.param(each, id=each.id) for each in SITUATIONS if each.helps])
def test_nothing_is_proposed_that_the_core_does_not_do(situation, monkeypatch):
    for method, nothing in (("place", ""), ("place_in", ""), ("preempts", None)):
        monkeypatch.setattr(Trials, method, lambda *_args, nothing=nothing: nothing)
    monkeypatch.setattr(groups, "_node_of", lambda *_args: "")
    assert situation.cluster.explain(situation.pod).changes == ()


def trials_of(monkeypatch, size, most):
    """How many decisions an explanation makes in a cluster in which every node needs another change."""
    made = []

    class Counting(Trials):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr("podwright.simulator.explain.explanation.Trials", Counting)
    monkeypatch.setattr(search, "MOST_TRIALS", most)
    nodes = [node(f"n{i}", taints=[make_taint("own", str(i))], labels={"kind": str(i)}) for i in range(size)]
    pods = [full(f"p{i}", f"n{i}", f"{i % 7 + 1}", priority=i) for i in range(size)]
    cluster(nodes, pods).explain(waiting(requests={"cpu": "20"}))
    return made[-1].count


def test_the_number_of_decisions_does_not_grow_with_the_cluster(monkeypatch):
    assert trials_of(monkeypatch, 100, search.MOST_TRIALS) <= trials_of(monkeypatch, 10, search.MOST_TRIALS)


def test_the_number_of_decisions_has_a_bound(monkeypatch):
    assert trials_of(monkeypatch, 20, 3) <= 3 < trials_of(monkeypatch, 20, 60)


def test_the_nearest_nodes_come_first():
    pods = [full("a", "one", "7"), full("b", "two", "4"), full("c", "three", "6")]
    found = cluster([node("one"), node("two"), node("three")], pods).explain(waiting(requests={"cpu": "5"}))
    assert found.rejections[0].examples == ("two", "three", "one")
    assert [miss.node for miss in found.nearest] == ["two", "three", "one"]
    assert "nearest is two" in found.cause.text


def test_pods_that_a_budget_protects_are_not_moved():
    situation = next(each for each in SITUATIONS if "Budget" in each.id)
    found = situation.cluster.explain(situation.pod)
    assert found.preemption.violations == 1
    assert not any(edit.verb == "move" for change in found.changes for edit in change.edits)


def test_a_higher_priority_names_the_pods_that_it_evicts_and_the_budgets_that_it_breaks():
    budget = {
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    pods = [full("db", "one", labels={"app": "db"})]
    found = cluster([node("one")], pods, podDisruptionBudgets=[budget]).explain(waiting(requests={"cpu": "4"}))
    (change,) = [each for each in found.changes if each.after_preemption]
    assert [victim.pod for victim in change.victims] == ["default/db"]
    assert change.violations == 1
    assert change.text == (
        "have a PriorityClass of at least 1, to preempt 1 pod: default/db (priority 0); 1 eviction would break a PodDisruptionBudget"
    )
    assert as_object(change)["victims"][0]["pod"] == "default/db"


def test_events_have_the_names_that_people_use_for_kinds():
    events = {event for each in SITUATIONS for event in each.cluster.explain(each.pod, changes=False).events}
    assert "a PodGroup of scheduling.x-k8s.io is added" in events
    assert not [event for event in events if "v1alpha1" in event]


def test_events_of_a_rule_say_only_what_can_happen():
    rules = {"filters": [{"name": "night", "expression": "now.getHours() > 24", "message": "at night"}]}
    events = cluster([node("a")], policies=[make_policy("night", rules=rules)]).explain(waiting(), changes=False).events
    assert "the time changes" in events
    assert "the pod itself gets other labels" in events
    assert not [event for event in events if event.startswith("the pod") and ("taints" in event or "alloc" in event)]
    assert sum("time" in event for event in events) == 1


def test_many_victims_are_counted_in_the_text():
    pods = [full(f"p{i}", "one", "1", priority=7) for i in range(8)]
    found = cluster([node("one")], pods).explain(waiting(requests={"cpu": "5"}))
    (change,) = [each for each in found.changes if each.after_preemption]
    assert len(change.victims) == 5
    assert change.violations == 0
    assert change.text.startswith("have a PriorityClass of at least 8, to preempt 5 pods: default/p")
    assert change.text.endswith(" and 2 more")


def test_pods_move_only_to_other_nodes_where_they_fit():
    pods = [full("a", "one", "5"), full("b", "two", "4")]
    found = cluster([node("one"), node("two")], pods).explain(waiting(requests={"cpu": "6"}))
    assert not any(edit.verb == "move" for change in found.changes for edit in change.edits)
    found = cluster([node("one"), node("two")], [full("a", "one", "3"), full("b", "two", "4")]).explain(
        waiting(requests={"cpu": "8"})
    )
    moves = [(edit.name, edit.node) for change in found.changes for edit in change.edits if edit.verb == "move"]
    assert moves == [("a", "two")]


def test_no_budget_is_broken_by_a_move():
    budget = {
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": 0},
    }
    pods = [full(name, on, cpu, labels={"app": "a"}) for name, on, cpu in (("a", "one", "3"), ("b", "two", "4"))]
    for allowed, moved in ((0, []), (1, ["a"])):
        budget["status"]["disruptionsAllowed"] = allowed
        given = cluster([node("one"), node("two")], pods, podDisruptionBudgets=[budget])
        changes = given.explain(waiting(requests={"cpu": "8"})).changes
        assert [edit.name for change in changes for edit in change.edits if edit.verb == "move"] == moved


def test_pods_of_daemon_sets_stay():
    owner = {"ownerReferences": [{"kind": "DaemonSet", "name": "logs", "controller": True, "apiVersion": "apps/v1"}]}
    nodes = [node("one"), node("two", unschedulable=True, allocatable={"cpu": "1"})]
    found = cluster([*nodes, node("three")], [full("logs", "one", metadata=owner), full("x", "three")]).explain(
        waiting(requests={"cpu": "4"})
    )
    assert not any(edit.name == "logs" for change in found.changes for edit in change.edits)


def test_a_node_that_two_plugins_reject_gets_both_changes():
    nodes = [node("one", unschedulable=True, taints=[make_taint("dedicated", "gpu")])]
    found = cluster(nodes).explain(waiting())
    (change,) = [each for each in found.changes if "uncordon" in each.text and "take" in each.text]
    assert change.node == "one"


def test_without_changes_nothing_is_searched():
    assert not cluster([node("one", unschedulable=True)]).explain(waiting(), changes=False).changes


@pytest.mark.parametrize("situation", [pytest.param(each, id=each.id) for each in SITUATIONS if each.helps])
def test_the_search_ends_when_the_time_is_up_with_what_it_has_found(situation):
    loaded, pod = situation.cluster.load(), parse_pod(situation.pod, keep_raw=True)
    before, asked = state_of(loaded), []

    def stopped():
        asked.append(None)
        return len(asked) > most

    whole = explain_pod(loaded, pod)
    counts = []
    for most in range(3):
        asked.clear()
        found = explain_pod(loaded, pod, stopped=stopped)
        assert (found.cause, found.changes) == (whole.cause, whole.changes[: len(found.changes)])
        assert len(asked) <= most + 1
        assert any("no time" in note for note in found.notes) == (len(asked) > most)
        counts.append(len(found.changes))
    assert counts[0] == 0
    assert state_of(loaded) == before


def test_a_pod_that_fits_needs_no_change():
    found = cluster([node("one")]).explain(waiting())
    assert (found.state, found.changes) == (PodState.FITS, ())
