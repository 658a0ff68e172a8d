"""Which nodes the extender keeps, how it scores them, and which victims it accepts."""

from collections import Counter

import numpy as np
import pytest

from podwright.core.objects.compaction import compact_all
from podwright.core.objects.pod import parse_pod
from podwright.extender.server.verdicts import UNKNOWN_NODE, UnusablePolicyError, scaled
from podwright.extender.wire import MetaVictims
from support.engine.kit import on_node, ours
from support.extender.kit import ExtenderRig
from support.objects.builders import make_node, make_pod, make_taint
from support.policies.local import delegating, local_policy
from support.steps import run_steps


def pod(name="asks", **options):
    return parse_pod(ours(name, **options))


def test_nodes_are_kept_in_the_order_in_which_they_were_asked_about():
    rig = ExtenderRig("a", "b", "c")
    assert list(rig.verdicts.filter(pod(), "", ["c", "a"]).kept) == [0, 1]


def test_rejected_nodes_have_kube_schedulers_words_by_whether_preemption_may_help():
    rig = ExtenderRig("good")
    rig.rig.node("small", allocatable={"cpu": "1"})
    rig.rig.node("tainted", taints=[make_taint("gpu")])
    rig.rig.engine.assigned.put(on_node(make_pod("there", requests={"cpu": "1"}), "small"))
    found = rig.verdicts.filter(pod(requests={"cpu": "1"}), "", ["small", "tainted", "good", "absent"])
    assert list(found.kept) == [2]
    assert found.failed == {"small": "Insufficient cpu"}
    assert found.unresolvable == {
        "tainted": "node(s) had untolerated taint(s)",
        "absent": UNKNOWN_NODE,
    }


def test_a_rejection_of_the_pod_as_a_whole_rejects_every_node():
    rig = ExtenderRig("a", "b")
    found = rig.verdicts.filter(
        pod(spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}), "", ["a", "b"]
    )
    assert found.unresolvable == dict.fromkeys("ab", 'persistentvolumeclaim "c" not found')


def test_without_any_node_in_the_cache_all_are_unknown():
    rig = ExtenderRig()
    assert rig.verdicts.filter(pod(), "", ["a"]).unresolvable == {"a": UNKNOWN_NODE}
    assert rig.verdicts.prioritize(pod(), "", ["a"]).tolist() == [0]


def test_the_nominated_node_is_no_shortcut():
    rig = ExtenderRig("a", "b")
    asking = pod(status={"nominatedNodeName": "b"})
    assert len(rig.verdicts.filter(asking, "", ["a", "b"]).kept) == 2


@pytest.mark.parametrize(
    ("totals", "scores"),
    [
        pytest.param([300, 100, 200], [10, 0, 5], id="the best gets ten, the worst none, the others in proportion"),
        pytest.param([1000, 999, 0], [10, 9, 0], id="only the best gets ten"),
        pytest.param([7, 7], [10, 10], id="equal totals are all the best"),
        pytest.param([2**61, -(2**61)], [10, 0], id="totals as large as weights allow"),
    ],
)
def test_totals_are_scaled_to_ten(totals, scores):
    assert scaled(np.array(totals, np.int64)).tolist() == scores


def test_the_policys_strategy_scores():
    rig = ExtenderRig("empty", "full")
    rig.rig.engine.assigned.put(on_node(make_pod("there", requests={"cpu": "4", "memory": "4Gi"}), "full"))
    rig.policy("packs", strategy={"type": "MostAllocated"})
    selected = {"podSelector": {"matchLabels": {"spread": "yes"}}}
    rig.policy("spreads", strategy={"type": "LeastAllocated"}, match=selected, precedence=1)
    asking = {"requests": {"cpu": "1"}}
    assert rig.verdicts.prioritize(pod(**asking), "", ["empty", "full"]).tolist() == [0, 10]
    assert rig.verdicts.prioritize(pod(**asking, labels={"spread": "yes"}), "", ["empty", "full"]).tolist() == [10, 0]
    assert rig.verdicts.prioritize(pod(**asking), "spreads", ["full", "empty", "full"]).tolist() == [0, 10, 0]


def test_scores_go_on_from_the_filters_unless_something_changed(monkeypatch):
    rig = ExtenderRig("a", "b")
    rig.policy("other", strategy={"type": "MostAllocated"})
    counts = Counter()
    for name in ("built-in-default", "other"):
        framework = rig.verdicts.policy_for(pod(), name).framework
        run = framework.pre_filter

        def counted(state, asking, run=run, name=name):
            counts[name] += 1
            return run(state, asking)

        monkeypatch.setattr(framework, "pre_filter", counted)
    names, asking = ["a", "b"], pod(requests={"cpu": "1"})

    def pre_filters(change=lambda: None, scored=asking, policy="built-in-default"):
        rig.verdicts.filter(asking, "built-in-default", names)
        counts.clear()
        change()
        rig.verdicts.prioritize(scored, policy, names)
        return dict(counts)

    assert pre_filters() == {}
    assert pre_filters(scored=pod("another")) == {"built-in-default": 1}
    assert pre_filters(policy="other") == {"other": 1}
    there = on_node(make_pod("there", requests={"cpu": "4"}), "a")
    assert pre_filters(change=lambda: rig.rig.engine.assigned.put(there)) == {"built-in-default": 1}
    assert pre_filters(change=compact_all) == {"built-in-default": 1}


def test_a_pod_that_pre_filter_rejects_gets_no_scores_after_filter_either():
    rig = ExtenderRig("a")
    asking = pod(spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]})
    rig.verdicts.filter(asking, "", ["a"])
    assert rig.verdicts.prioritize(asking, "", ["a"]).tolist() == [0]


def test_pods_of_other_schedulers_get_the_built_in_policy():
    rig = ExtenderRig("a")
    foreign = parse_pod(make_pod("foreign", spec={"schedulerName": "default-scheduler"}))
    assert rig.verdicts.policy_for(foreign, "").compiled.name == "built-in-default"
    assert rig.verdicts.policy_for(foreign, "built-in-default").compiled.name == "built-in-default"


def test_an_unknown_policy_is_named():
    with pytest.raises(
        UnusablePolicyError, match='there is no SchedulerPolicy "none", which the URL of the extender names'
    ):
        ExtenderRig("a").verdicts.filter(pod(), "none", ["a"])


def test_a_policy_in_shadow_mode_decides_nothing_even_if_it_is_named():
    rig = ExtenderRig("a")
    rig.policy("tries", mode="Shadow", schedulerName="default-scheduler")
    for ask in (rig.verdicts.filter, rig.verdicts.prioritize):
        with pytest.raises(
            UnusablePolicyError, match='policy "tries" has mode Shadow, in which it decides about no pods'
        ):
            ask(pod(), "tries", ["a"])


@pytest.mark.parametrize("name", ["", "base"])
def test_a_local_policy_decides_about_pods_of_its_namespace_within_the_policy_that_is_selected_or_named(name):
    rig = ExtenderRig("a", "b")
    policies = rig.rig.engine.policies
    assert policies.apply(delegating("base", delegation={"strategies": ["NodeName"]})).accepted
    assert policies.apply_local(local_policy(strategy={"type": "NodeName"})).accepted
    rig.rig.engine.policies_changed({"team-a"})
    names = ["b", "a"]
    assert rig.verdicts.prioritize(pod(namespace="team-a"), name, names).tolist() == [0, 10]
    assert rig.verdicts.prioritize(pod(namespace="team-b"), name, names).tolist() == [10, 10]


def test_the_pods_of_a_refused_policy_wait_for_it():
    rig = ExtenderRig("a")
    rig.policy("bad", strategy={"type": "Best"})
    with pytest.raises(UnusablePolicyError, match="policy bad, generation 1, was not accepted"):
        rig.verdicts.filter(pod(), "", ["a"])


# Preemption


def full_node(rig, name, *victims):
    rig.rig.node(name, allocatable={"cpu": "2"})
    for uid, cpu, priority in victims:
        rig.rig.engine.assigned.put(on_node(make_pod(uid, uid=uid, requests={"cpu": cpu}, priority=priority), name))


def preempt(rig, asked, policy="", between=lambda: None, **options):
    asking = pod(requests={"cpu": "1"}, priority=10, **options)
    victims = {node: MetaVictims(tuple(uids), 0) for node, uids in asked.items()}
    found, _ = run_steps(rig.verdicts.preempt(asking, policy, victims, 0.0), between)
    return {node: (tuple(each.uids), each.num_pdb_violations) for node, each in found.items()}


def test_other_tasks_may_run_after_each_node():
    rig = ExtenderRig()
    for name in "abc":
        full_node(rig, name, (f"low-{name}", "2", 1))
    victims = {name: MetaVictims((f"low-{name}",), 0) for name in "abc"}
    found, steps = run_steps(rig.verdicts.preempt(pod(requests={"cpu": "1"}, priority=10), "", victims, 0.0))
    assert (sorted(found), steps) == (["a", "b", "c"], 3)


def test_what_changes_between_two_nodes_counts_for_the_next_one(monkeypatch):
    rig = ExtenderRig()
    for name in "abc":
        full_node(rig, name, (f"low-{name}", "1", 1))
    framework = rig.verdicts.policy_for(pod(), "").framework
    pre_filter, runs = framework.pre_filter, []
    monkeypatch.setattr(framework, "pre_filter", lambda *args: runs.append(None) or pre_filter(*args))
    asked = {name: [f"low-{name}"] for name in "abc"}
    assert list(preempt(rig, asked)) == ["a", "b", "c"]
    assert len(runs) == 1

    arriving = [make_pod("high", uid="high", requests={"cpu": "2"}, priority=20)]

    def arrives():
        if arriving:
            rig.rig.engine.assigned.put(on_node(arriving.pop(), "b"))

    assert list(preempt(rig, asked, between=arrives)) == ["a", "c"]
    assert len(runs) == 3


def test_a_pod_that_pre_filter_comes_to_reject_preempts_nothing():
    rig = ExtenderRig()
    for name in "ab":
        full_node(rig, name, (f"low-{name}", "1", 1))
    volume = {
        "metadata": {"name": "v", "uid": "v"},
        "spec": {"claimRef": {"namespace": "default", "name": "c", "uid": "c"}},
    }
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {"metadata": {"name": "c", "namespace": "default", "uid": "c", **bound}, "spec": {"volumeName": "v"}}
    asked = {name: [f"low-{name}"] for name in "ab"}
    volumes = {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}
    claims = rig.rig.engine.objects("PersistentVolumeClaim")
    claims.put(claim)
    rig.rig.engine.objects("PersistentVolume").put(volume)
    assert list(preempt(rig, asked, **volumes)) == ["a", "b"]
    assert preempt(rig, asked, between=lambda: claims.drop("default/c", claim), **volumes) == {}


def test_victims_that_suffice_are_accepted_as_they_are():
    rig = ExtenderRig()
    full_node(rig, "a", ("low", "1", 1), ("lower", "1", 0))
    assert preempt(rig, {"a": ["low"]}) == {"a": (("low",), 0)}


def test_victims_that_do_not_suffice_are_completed_by_the_least_important():
    rig = ExtenderRig()
    full_node(rig, "a", ("tiny", "1m", 0), ("low", "999m", 1), ("lower", "1", 0))
    ((uids, violations),) = preempt(rig, {"a": ["tiny"]}).values()
    assert (sorted(uids), violations) == (["lower", "tiny"], 0)


def test_nodes_where_the_policy_would_not_preempt_are_left_out():
    rig = ExtenderRig()
    full_node(rig, "important", ("equal", "1", 10), ("unimportant", "1", 0))
    full_node(rig, "tainted", ("low", "2", 0))
    rig.rig.engine.nodes.put(make_node("tainted", allocatable={"cpu": "2"}, taints=[make_taint("gpu")]))
    full_node(rig, "good", ("there", "2", 0))
    assert preempt(rig, {"important": ["equal"], "tainted": ["low"], "absent": ["x"], "good": ["there"]}) == {
        "good": (("there",), 0)
    }


def test_a_policy_without_preemption_accepts_no_victims():
    rig = ExtenderRig()
    full_node(rig, "a", ("low", "2", 0))
    rig.policy("gentle", strategy={"type": "Custom"}, plugins={"postFilter": {"disabled": [{"name": "*"}]}})
    assert preempt(rig, {"a": ["low"]}) == {}
    assert preempt(rig, {"a": ["low"]}, policy="built-in-default") == {"a": (("low",), 0)}


def test_victims_that_the_cache_does_not_know_yet_are_kept():
    rig = ExtenderRig()
    full_node(rig, "a", ("low", "2", 0))
    assert preempt(rig, {"a": ["low", "late"]}) == {"a": (("low", "late"), 0)}


def test_violations_of_budgets_are_counted_anew():
    rig = ExtenderRig()
    full_node(rig, "a")
    labelled = make_pod("low", uid="low", labels={"app": "db"}, requests={"cpu": "2"}, priority=0)
    rig.rig.engine.assigned.put(on_node(labelled, "a"))
    budget = {
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    rig.rig.engine.objects("PodDisruptionBudget").put(budget)
    assert preempt(rig, {"a": ["low"]}) == {"a": (("low",), 1)}
