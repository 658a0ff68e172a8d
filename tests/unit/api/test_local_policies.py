"""Which LocalSchedulerPolicies are within what is delegated to them, and which of them applies to a pod."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from podwright.api.compile import BUILT_IN
from podwright.api.configuration.signals import load_signals
from podwright.api.local_policies import MAX_BASES, MAX_IN_NAMESPACE
from podwright.api.permissions import PolicySettings
from podwright.api.policy_set import PolicySet
from podwright.core.framework.features import Features
from podwright.core.framework.interface import Plugin, ScorePlugin
from podwright.core.framework.profile import Point, expand
from podwright.core.plugins import PLUGINS
from support.engine.stand_ins import STAND_INS
from support.policies.local import delegating, local_policy
from support.policies.policy_sets import BAD, build, chosen, pod, policy, select_namespaces, select_pods

BINPACK = {"strategy": {"type": "MostAllocated"}}
RANDOM = {"strategy": {"type": "Random"}}
OURS = "team-a/ours"


def apply(policies, raw):
    return policies.local.apply(raw)


def remove(policies, key):
    policies.local.remove(key)


def check_due(policies):
    """Checks what is due, as the controller does. Returns the keys."""
    due = [*policies.local.due]
    for key in due:
        policies.local.check(key)
    return due


def team_pod(labels=None, namespace="team-a", **options):
    return pod(labels, namespace=namespace, **options)


def scores(policies, a_pod):
    return expand(policies.select(a_pod, {}).profile.plugins, STAND_INS).points[Point.SCORE]


# Which policy applies


def test_a_local_policy_decides_about_the_pods_of_its_namespace_and_no_others():
    policies = build(delegating())
    assert apply(policies, local_policy(**RANDOM)).accepted
    assert chosen(policies, team_pod()) == OURS
    assert chosen(policies, team_pod(namespace="team-b")) == "gold"
    assert scores(policies, team_pod()) == ("RandomScore",)
    assert scores(policies, team_pod(namespace="team-b")) != ("RandomScore",)


@pytest.mark.parametrize(
    ("locals_", "a_pod", "expected"),
    [
        pytest.param([local_policy(match=select_pods(x="1"), **RANDOM)], team_pod({"x": "1"}), OURS, id="the labels match"),
        pytest.param([local_policy(match=select_pods(x="1"), **RANDOM)], team_pod({"x": "2"}), "gold", id="the labels do not match"),
        pytest.param([local_policy(match={"priorityClasses": ["high"]}, **RANDOM)], team_pod(priority_class="high"), OURS, id="the priority class matches"),
        pytest.param([local_policy(match={"priorityClasses": ["high"]}, **RANDOM)], team_pod(), "gold", id="the pod has no priority class"),
        pytest.param([local_policy(), local_policy("second", precedence=1)], team_pod(), "team-a/second", id="the greatest precedence among those of the namespace"),
        pytest.param([local_policy(created="2026-01-02T00:00:00Z"), local_policy("second", created="2026-01-01T00:00:00Z")], team_pod(), "team-a/second", id="the older one"),
        pytest.param([local_policy("second"), local_policy()], team_pod(), OURS, id="the first name"),
        pytest.param([local_policy(schedulerName="other")], team_pod(), "gold", id="for another scheduler name"),
    ],
)  # fmt: skip
def test_which_local_policy_applies(locals_, a_pod, expected):
    policies = build(delegating())
    for raw in locals_:
        apply(policies, raw)
    assert chosen(policies, a_pod) == expected


def test_the_precedence_of_a_local_policy_counts_in_its_namespace_only():
    policies = build(delegating(), policy("strict", {"precedence": 1, "match": select_pods(x="1")}))
    apply(policies, local_policy(precedence=1_000_000_000))
    assert chosen(policies, team_pod({"x": "1"})) == "strict", (
        "the policy that would otherwise decide delegates nothing"
    )
    assert chosen(policies, team_pod()) == OURS


def test_a_removed_local_policy_does_not_apply():
    policies = build(delegating())
    apply(policies, local_policy())
    version = policies.version
    remove(policies, OURS)
    assert chosen(policies, team_pod()) == "gold"
    assert policies.version > version
    assert len(policies.local) == 0


def test_a_pod_may_name_the_policy_that_bounds_the_local_one():
    policies = build(delegating(), delegating("silver", byName="Required", delegation={"strategies": ["Random"]}))
    apply(policies, local_policy(match=select_pods(x="1"), **RANDOM))
    assert policies.select(team_pod({"x": "1"}), {}).base.name == "gold"
    assert policies.select(team_pod({"x": "1"}, names="silver"), {}).base.name == "silver"


def test_a_local_strategy_ends_what_a_plugin_calls_its_scoring_args():
    @dataclass(frozen=True)
    class Args:
        curve: str = "flat"
        floor: int = 0

    own = {"name": "Tilt", "score": lambda *_: 0, "args_type": Args, "scoring_args": ("curve",)}
    classes = {**PLUGINS, "Tilt": type("Tilt", (Plugin, ScorePlugin), own)}
    policies = PolicySet(classes, Features())
    tilt = {"plugins": {"score": {"enabled": [{"name": "Tilt"}]}}, "strategy": {"type": "Custom"}}
    config = [{"name": "Tilt", "args": {"curve": "steep", "floor": 3}}]
    policies.apply(delegating(delegation={"strategies": ["MostAllocated"]}, pluginConfig=config, **tilt))
    apply(policies, local_policy(match=select_pods(x="1")))
    apply(policies, local_policy("packed", match=select_pods(x="2"), **BINPACK))
    assert policies.select(team_pod({"x": "1"}), {}).profile.args["Tilt"] == Args("steep", 3)
    assert policies.select(team_pod({"x": "2"}), {}).profile.args["Tilt"] == Args("flat", 3)


# What is delegated


@pytest.mark.parametrize(
    ("delegation", "spec", "problem"),
    [
        pytest.param({"strategies": ["Random"]}, BINPACK, "spec.strategy.type: MostAllocated is not delegated: SchedulerPolicy gold delegates only Random (its spec.delegation.strategies)", id="a strategy"),
        pytest.param({}, {"rebalancing": "Never"}, "spec.rebalancing: SchedulerPolicy gold does not delegate rebalancing (its spec.delegation.rebalancing)", id="an exemption from rebalancing"),
        pytest.param({}, BINPACK, "spec.strategy.type: MostAllocated is not delegated: SchedulerPolicy gold delegates none (its spec.delegation.strategies)", id="any strategy"),
        pytest.param({}, {"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "RandomScore"}]}}}, "spec.plugins.score.enabled[0].name: RandomScore is not delegated: SchedulerPolicy gold delegates none (its spec.delegation.plugins)", id="a plugin"),
        pytest.param({"plugins": ["RandomScore"]}, {"strategy": {"type": "Custom"}, "plugins": {"score": {"disabled": [{"name": "*"}]}}}, "spec.plugins.score.disabled[0].name: * is not delegated: SchedulerPolicy gold delegates only RandomScore (its spec.delegation.plugins)", id="disabling all scores"),
        pytest.param({"plugins": ["*"], "maxWeight": 5}, {"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "RandomScore", "weight": 6}]}}}, "spec.plugins.score.enabled[0].weight: 6 is more than the 5 that SchedulerPolicy gold delegates (its spec.delegation.maxWeight)", id="a weight"),
        pytest.param({"plugins": ["*"]}, {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/gpu"]}}]}, "spec.pluginConfig[0].name: NodeResourcesFit also filters nodes, and its arguments are those of SchedulerPolicy gold", id="arguments of a filter"),
        pytest.param({"plugins": ["*"]}, {"pluginConfig": [{"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}}]}, "spec.pluginConfig[0].name: DefaultPreemption does more than score nodes, and its arguments are those of SchedulerPolicy gold", id="arguments of preemption"),
        pytest.param({}, {"pluginConfig": [{"name": "ImageLocality", "args": {}}]}, "spec.pluginConfig[0].name: ImageLocality is not delegated: SchedulerPolicy gold delegates none (its spec.delegation.plugins)", id="arguments of a plugin"),
        pytest.param({}, {"rules": {"filters": [{"name": "a", "expression": "true"}]}}, "spec.rules: SchedulerPolicy gold does not delegate rules (its spec.delegation.rules)", id="rules"),
        pytest.param({"rules": True, "maxRules": 1}, {"rules": {"filters": [{"name": "a", "expression": "true"}], "scores": [{"name": "b", "expression": "1"}]}}, "spec.rules: 2 rules are more than the 1 that SchedulerPolicy gold delegates (its spec.delegation.maxRules)", id="many rules"),
        pytest.param({"rules": True, "maxWeight": 2}, {"rules": {"scores": [{"name": "b", "expression": "1", "weight": 3}]}}, "spec.rules.scores[0].weight: 3 is more than the 2 that SchedulerPolicy gold delegates (its spec.delegation.maxWeight)", id="the weight of a rule"),
        pytest.param({"rules": True}, {"signals": ["load"]}, "spec.signals[0]: load is not delegated: SchedulerPolicy gold delegates none (its spec.delegation.signals)", id="a signal"),
        pytest.param({"rules": True}, {"rules": {"filters": [{"name": "a", "expression": "{'x': true}[node.annotations['secret']]"}]}}, "spec.rules.filters[0].expression: reads node.annotations: annotations is not delegated: SchedulerPolicy gold delegates only labels, taints (its spec.delegation.nodeFields)", id="annotations of nodes"),
        pytest.param({"rules": True}, {"rules": {"scores": [{"name": "a", "expression": "node.images.size()"}]}}, "spec.rules.scores[0].expression: reads node.images: images is not delegated: SchedulerPolicy gold delegates only labels, taints (its spec.delegation.nodeFields)", id="images of nodes"),
        pytest.param({"rules": True, "nodeFields": []}, {"rules": {"filters": [{"name": "a", "expression": "podsInDomain('zone', 'app=web') > 0"}]}}, "spec.rules.filters[0].expression: reads node.labels: labels is not delegated: SchedulerPolicy gold delegates none (its spec.delegation.nodeFields)", id="labels of nodes, by a function"),
        pytest.param({"rules": True, "nodeFields": ["labels", "taints", "images"]}, {"rules": {"filters": [{"name": "a", "expression": "cel.bind(n, node, [n].exists(m, m.annotations.x == ''))"}]}}, "spec.rules.filters[0].expression: reads node.annotations as part of the whole node: annotations is not delegated: SchedulerPolicy gold delegates only labels, taints, images (its spec.delegation.nodeFields)", id="the whole node"),
    ],
)  # fmt: skip
def test_a_local_policy_that_asks_for_more_is_refused_with_the_bound_and_its_owner(delegation, spec, problem):
    policies = build(delegating(delegation=delegation))
    result = apply(policies, local_policy(**spec))
    assert (result.accepted, result.reason, result.active_generation) == (False, "NotAllowed", None)
    assert result.message == f"{problem}. No generation of this policy is in force."
    waiting = policies.select(team_pod(), {})
    assert (waiting.name, waiting.refusal) == (OURS, result.message), "its pods wait"
    assert chosen(policies, team_pod(namespace="team-b")) == "gold"


SIGNALS = PolicySettings(signals=load_signals(b"signals: [{name: load, values: {}}, {name: io, values: {}}]"))


def reading(signal, **spec):
    return local_policy(rules={"scores": [{"name": "idle", "expression": f"100.0 - signals.{signal}"}]}, **spec)


def test_a_local_policy_reads_the_signals_that_it_is_given_and_no_others():
    base = delegating(delegation={"rules": True, "signals": ["load"]}, signals=["load", "io"])
    policies = PolicySet(PLUGINS, Features(), settings=SIGNALS)
    assert policies.apply(base).accepted
    assert apply(policies, reading("load", signals=["load"])).accepted
    result = apply(policies, reading("io", name="greedy", signals=["load"]))
    assert "spec.rules.scores[0].expression: reads signal 'io', which spec.signals does not name" in result.message
    result = apply(policies, reading("load", name="silent"))
    assert "reads signal 'load', which spec.signals does not name" in result.message
    result = apply(policies, reading("io", name="asking", signals=["io"]))
    assert result.message.startswith("spec.signals[0]: io is not delegated: SchedulerPolicy gold delegates only load")


def test_a_policy_delegates_only_signals_that_exist():
    policies = build(settings=SIGNALS)
    result = policies.apply(delegating(delegation={"signals": ["load", "heat"]}))
    assert result.message.startswith("spec.delegation.signals[1]: signal 'heat' is not defined")


@pytest.mark.parametrize("base", [None, policy("gold", {})], ids=["the built-in policy", "a policy"])
def test_where_nothing_is_delegated_local_policies_have_no_effect(base):
    policies = build(*([] if base is None else [base]))
    result = apply(policies, local_policy())
    owner = f"the built-in policy {BUILT_IN}" if base is None else "SchedulerPolicy gold"
    assert (result.accepted, result.reason) == (False, "NotAllowed")
    assert result.message.startswith(
        f"spec: {owner} decides about these pods, and nothing is delegated (spec.delegation)."
    )
    assert chosen(policies, team_pod()) == (BUILT_IN if base is None else "gold")
    assert not policies.local.makes_pods_wait(OURS)


def test_a_local_policy_must_stay_within_the_delegation_of_each_policy_that_may_decide_about_its_pods():
    gold = delegating("gold", match=select_pods(x="1"), delegation={"strategies": ["Random"]})
    policies = build(gold, delegating("silver"))
    result = apply(policies, local_policy(**BINPACK))
    assert "SchedulerPolicy gold delegates only Random" in result.message
    assert apply(policies, local_policy(generation=2, match=select_pods(x="2"), **BINPACK)).accepted
    assert policies.local.bases_of(OURS) == ("silver",)
    assert apply(policies, local_policy(generation=3, match=select_pods(x="1"), **RANDOM)).accepted
    assert policies.local.bases_of(OURS) == ("gold",)


def test_only_policies_of_the_namespace_bound_a_local_one():
    labels = {"team-a": {"t": "a"}}
    gold = delegating("gold", match=select_namespaces(t="b"), delegation={}, precedence=2)
    other = delegating("other", match={"namespaces": ["team-b"]}, delegation={}, precedence=1)
    policies = build(gold, other, delegating("silver"), namespace_labels=lambda name: labels.get(name, {}))
    assert apply(policies, local_policy(**BINPACK)).accepted
    assert policies.local.bases_of(OURS) == ("silver",)


def test_another_scheduler_name_must_be_served():
    policies = build(delegating())
    result = apply(policies, local_policy(schedulerName="mine"))
    assert result.message.startswith("spec.schedulerName: no policy serves the scheduler name 'mine'.")
    assert policies.scheduler_names == {"podwright"}


def test_too_many_bases_are_too_many():
    bases = [delegating(f"p{i:02}", match=select_pods(x=str(i))) for i in range(MAX_BASES + 1)]
    policies = build(*bases)
    result = apply(policies, local_policy())
    assert (
        f"spec.match: {MAX_BASES + 1} SchedulerPolicies may decide about these pods: at most {MAX_BASES}"
        in result.message
    )
    assert apply(policies, local_policy(generation=2, match=select_pods(x="3"))).accepted


# Changes


def test_when_the_delegation_changes_local_policies_are_checked_again():
    policies = build(delegating())
    woken = []
    policies.local.listen(lambda: woken.append(1))
    apply(policies, local_policy(**BINPACK))
    policies.apply(delegating(generation=2, delegation={"strategies": ["Random"]}))
    assert woken
    waiting = policies.select(team_pod(), {})
    assert waiting.refusal == "is being checked against a policy that has changed", "no filter is left out meanwhile"
    assert check_due(policies) == [OURS]
    result = policies.local.result_of(OURS)
    assert (result.accepted, result.reason, result.active_generation) == (False, "NotAllowed", None)
    assert policies.local.makes_pods_wait(OURS)
    policies.apply(delegating(generation=3))
    check_due(policies)
    assert policies.local.result_of(OURS).accepted
    assert policies.select(team_pod(), {}).base.generation == 3


def test_an_older_generation_stays_in_force_as_long_as_it_is_within_the_bounds():
    policies = build(delegating())
    apply(policies, local_policy(**RANDOM))
    result = apply(policies, local_policy(generation=2, strategy={"type": "LeastAllocated"}))
    assert (result.accepted, result.active_generation) == (False, 1)
    assert result.message.endswith("Generation 1 stays in force.")
    assert scores(policies, team_pod()) == ("RandomScore",)
    assert policies.local.last_accepted(OURS).generation == 1
    policies.apply(delegating(generation=2, delegation={"strategies": ["BalancedAllocation"]}))
    check_due(policies)
    result = policies.local.result_of(OURS)
    assert result.active_generation is None
    assert "generation 1 is not acceptable any more: spec.strategy.type: Random is not delegated" in result.message


def test_after_a_restart_the_last_accepted_generation_is_in_force():
    policies = build(delegating())
    status = {"lastAccepted": {"generation": 1, "spec": RANDOM}}
    result = apply(policies, local_policy(generation=2, status=status, strategy={"type": "Best"}))
    assert (result.accepted, result.reason, result.active_generation) == (False, "Invalid", 1)
    assert scores(policies, team_pod()) == ("RandomScore",)


def test_a_new_policy_of_the_same_name_inherits_nothing():
    policies = build(delegating())
    apply(policies, local_policy(**RANDOM))
    result = apply(policies, local_policy(uid="another", strategy={"type": "Best"}))
    assert result.active_generation is None


def test_when_the_labels_of_the_namespace_change_its_policies_are_checked_again():
    labels = {}
    policies = build(delegating(match=select_namespaces(t="a")), namespace_labels=lambda _name: labels)
    assert not apply(policies, local_policy()).accepted
    labels = {"t": "a"}
    policies.local.recheck_namespace("team-b")
    assert not policies.local.due
    policies.local.recheck_namespace("team-a")
    check_due(policies)
    assert policies.local.result_of(OURS).accepted


def test_a_refused_cluster_policy_bounds_nothing_and_its_pods_wait_for_it():
    policies = build(policy("gold", {**BAD, "delegation": {}}))
    apply(policies, local_policy())
    assert chosen(policies, team_pod()) == "gold"


def test_with_fallback_the_pods_of_a_refused_local_policy_get_the_next_one():
    policies = build(delegating(), settings=PolicySettings(waits_for_bad_policies=False))
    result = apply(policies, local_policy(strategy={"type": "LeastAllocated"}))
    assert not result.accepted
    assert chosen(policies, team_pod()) == "gold"
    assert policies.passed_over(team_pod(), {}).refusal == result.message
    assert policies.passed_over(team_pod(namespace="team-b"), {}) is None


# Bounds


def test_of_too_many_policies_in_a_namespace_the_older_ones_count():
    policies = build(delegating())
    for number in range(MAX_IN_NAMESPACE):
        assert apply(policies, local_policy(f"p{number:02}", created=f"2026-01-{number + 2:02}T00:00:00Z")).accepted
    late = apply(policies, local_policy("late", created="2026-02-01T00:00:00Z"))
    assert late.message.startswith(f"metadata.namespace: a namespace may have {MAX_IN_NAMESPACE} of these policies")
    assert apply(policies, local_policy("late", "team-b", created="2026-02-01T00:00:00Z")).accepted
    assert apply(policies, local_policy("early", created="2026-01-01T00:00:00Z")).accepted
    check_due(policies)
    accepted = [key for key in ("team-a/p14", "team-a/p15", "team-a/late") if policies.local.result_of(key).accepted]
    assert accepted == ["team-a/p14"]
    remove(policies, "team-a/early")
    check_due(policies)
    assert policies.local.result_of("team-a/p15").accepted


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"metadata": {"name": "x"}},
        {"metadata": {"name": "x", "namespace": 7}},
        {"metadata": {"name": "ours", "namespace": "team-a"}},
        {"metadata": {"name": "ours", "namespace": "team-a"}, "spec": []},
        {"metadata": {"name": "ours", "namespace": "team-a"}, "spec": {"extenders": ["x"]}},
        {"metadata": {"name": "ours", "namespace": "team-a"}, "spec": {"match": {"namespaces": ["team-b"]}}},
        {"metadata": {"name": "ours", "namespace": "team-a"}, "spec": {"match": {"namespaceSelector": {}}}},
        {"metadata": {"name": "ours", "namespace": "team-a"}, "spec": {"delegation": {}}},
        {"metadata": {"name": "ours", "namespace": "team-a"}, "spec": {"byName": "Allowed"}},
        {"kind": "SchedulerPolicy", "metadata": {"name": "ours", "namespace": "team-a"}, "spec": {}},
    ],
    ids=str,
)
def test_a_malformed_policy_is_refused_and_changes_nothing_for_others(raw):
    policies = build(delegating())
    assert not apply(policies, raw).accepted
    assert chosen(policies, team_pod(namespace="team-b")) == "gold"
