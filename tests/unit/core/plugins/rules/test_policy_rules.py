"""The plugin PolicyRules: filters and scores in CEL, their reasons, errors, scopes and caches."""

from __future__ import annotations

import random

import numpy as np
import pytest

from podwright.core.cycle import Placement, Rejection
from podwright.core.framework.interface import CycleState, Scope
from podwright.core.framework.status import Code
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.rules.policy_rules import scaled
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod
from support.plugins.kit import raw_scores, verdicts
from support.rules.clusters import change, cluster, pending_pod
from support.rules.running import NAMESPACE, decided, framework_of, plugin_of, policy_of


def world_of(*nodes, pods=(), **objects):
    world = World()
    world.fill({"nodes": nodes, "pods": pods, **objects})
    return world


def labelled(name, **labels):
    return make_node(name, labels=labels)


def sized(name, cpu, **labels):
    return make_node(name, labels=labels, allocatable={"cpu": cpu})


def placed(name, node, cpu="1", priority=1, **labels):
    return make_pod(
        name, node=node, requests={"cpu": cpu}, priority=priority, labels=labels, status={"phase": "Running"}
    )


def pod(cpu="1", **parts):
    return parse_pod(make_pod(requests={"cpu": cpu}, **parts), keep_raw=True)


THREE = (labelled("a", tier="gold"), labelled("b", tier="silver"), labelled("c"))
SAME_TIER = {
    "name": "same-tier",
    "expression": "node.labels.tier == pod.labels.tier",
    "message": "node(s) had another tier",
}


def test_a_filter_rejects_nodes_with_its_message_and_nodes_with_an_error_with_the_error():
    found = verdicts(plugin_of(world_of(*THREE), policy_of([SAME_TIER])), pod(labels={"tier": "gold"}))
    assert found == {
        "a": "",
        "b": "node(s) had another tier",
        "c": "node(s) failed rule same-tier: no such key: tier",
    }


def test_the_event_groups_nodes_by_the_reason_of_the_first_filter_that_rejects_them():
    policy = policy_of([SAME_TIER, {"name": "big", "expression": "node.allocatable.cpu > 64000"}])
    answer = decided(world_of(*THREE), policy, pod(labels={"tier": "gold"}))
    assert isinstance(answer, Rejection)
    assert answer.filter_message == (
        "0/3 nodes are available: 1 node(s) didn't satisfy rule big, 1 node(s) failed rule same-tier: no such key: tier, "
        "1 node(s) had another tier."
    )
    assert answer.status_plugins == {"PolicyRules"}


@pytest.mark.parametrize("normalize", ["None", "MinMax"])
def test_scores_of_many_rules_with_the_greatest_weight_do_not_overflow(normalize):
    """Their sum is beyond 16 bits, though the plugin's own weight is 1."""
    rule = {"expression": "node.labels.tier == 'gold' ? 100 : 1", "weight": 100, "normalize": normalize}
    world = world_of(labelled("a", tier="gold"), labelled("b", tier="silver"))
    decision = decided(world, policy_of(scores=[{"name": f"r{i}", **rule} for i in range(5)]), pod())
    assert (decision.node_name, decision.runner_up[0]) == ("a", "b")
    assert decision.score - decision.runner_up[1] == 500 * (100 if normalize == "MinMax" else 99)


def test_a_score_counts_times_its_weight_and_an_error_counts_as_zero():
    policy = policy_of(
        scores=[
            {"name": "tier", "expression": "node.labels.tier == 'gold' ? 70 : 150", "weight": 3},
            {"name": "low", "expression": "-5.0"},
        ]
    )
    plugin, failures = plugin_of(world_of(*THREE), policy), []
    plugin.rule_failed = lambda *failure: failures.append(failure)
    assert raw_scores(plugin, pod()) == {"a": 210, "b": 300, "c": 0}
    assert failures[-1] == ("tier", "c", "no such key: tier")


@pytest.mark.parametrize(
    ("values", "sound", "normalize", "expected"),
    [
        pytest.param([1.0, 2.0, 4.0], None, "Max", [25, 50, 100], id="the greatest becomes 100"),
        pytest.param([-1.0, 2.0], None, "Max", [0, 100], id="a negative value becomes 0"),
        pytest.param([-1.0, -2.0], None, "Max", [0, 0], id="no value is positive"),
        pytest.param([10.0, 20.0, 15.0], None, "MinMax", [0, 100, 50], id="the least becomes 0"),
        pytest.param([-1e308, 1e308, 0.0], None, "MinMax", [0, 100, 50], id="a range that exceeds a double"),
        pytest.param([7.0, 7.0], None, "MinMax", [0, 0], id="all are equal"),
        pytest.param([7.0, -1e9, 9.0], [True, False, True], "MinMax", [0, 0, 100], id="an error is no least value"),
        pytest.param([0.0, 0.0], [False, False], "Max", [0, 0], id="only errors"),
    ],
)
def test_values_are_normalised_over_the_feasible_nodes(values, sound, normalize, expected):
    given = np.array(sound if sound is not None else [True] * len(values))
    assert scaled(np.array(values), given, normalize).tolist() == expected


def test_only_feasible_nodes_count_for_a_normalisation():
    policy = policy_of(
        ["node.name != 'c'"], [{"name": "s", "expression": "node.allocatable.cpu", "normalize": "MinMax"}]
    )
    nodes = (sized("a", "1"), sized("b", "3"), sized("c", "9"))
    framework = framework_of(world_of(*nodes), policy)
    answer = decided(world_of(*nodes), policy, pod())
    assert isinstance(answer, Placement)
    assert answer.node_name == "b"
    assert framework.weights["PolicyRules"] == 1


@pytest.mark.parametrize("expression", ["1.0 / 0.0", "0.0 / 0.0", "double('NaN')"])
def test_a_score_that_is_not_finite_is_an_error(expression):
    plugin, failures = plugin_of(world_of(*THREE), policy_of(scores=[expression])), []
    plugin.rule_failed = lambda *failure: failures.append(failure)
    assert raw_scores(plugin, pod()) == {"a": 0, "b": 0, "c": 0}
    assert {(rule, text) for rule, _, text in failures} == {("r0", "the score is not a finite number")}


@pytest.mark.parametrize(
    ("expression", "scope", "code"),
    [
        ("node.labels.tier == 'gold'", Scope.NODE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        ("size(node.taints) == 1", Scope.NODE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        ("node.free.cpu > 99999999", Scope.NODE_PODS, Code.UNSCHEDULABLE),
        ("node.podCount > 7", Scope.NODE_PODS, Code.UNSCHEDULABLE),
        ("podsOnNode('app=web') > 7", Scope.NODE_PODS, Code.UNSCHEDULABLE),
        ("podsInDomain('zone', 'app=web') > 7", Scope.CLUSTER, Code.UNSCHEDULABLE),
    ],
)
def test_the_scope_says_which_pods_can_change_the_result(expression, scope, code):
    world = world_of(labelled("n"))
    plugin = plugin_of(world, policy_of([expression]))
    state = CycleState()
    plugin.pre_filter(state, pod())
    status = plugin.filter(state, pod(), world.cache.present("n"))
    assert (plugin.scope, status.code) == (scope, code)
    assert (plugin.verdict_key(pod()) is None) == (scope is Scope.CLUSTER)


def test_pods_that_the_filters_cannot_tell_apart_have_one_verdict_key():
    plugin = plugin_of(world_of(labelled("n")), policy_of(["node.labels.tier == pod.labels.tier"]))
    gold, other, silver = (
        plugin.verdict_key(pod(name=name, labels={"tier": tier}))
        for name, tier in (("a", "gold"), ("b", "gold"), ("c", "silver"))
    )
    assert gold == other != silver


def test_preemption_makes_room_that_a_filter_asks_for():
    low = placed("low", "n", "3")
    world = world_of(sized("n", "4"), pods=[low])
    answer = decided(world, policy_of(["node.free.cpu >= 2000"]), pod(cpu="1", priority=10))
    assert isinstance(answer, Rejection)
    assert [victim.name for victim in answer.victims] == ["low"]


def test_preemption_does_not_evict_for_a_filter_that_no_eviction_helps():
    low = placed("low", "n", "3")
    world = world_of(sized("n", "4"), pods=[low])
    answer = decided(world, policy_of(["node.labels.tier == 'gold'"]), pod(cpu="2", priority=10))
    assert isinstance(answer, Rejection)
    assert answer.victims == ()


def test_preemption_evicts_a_pod_that_a_domain_count_excludes():
    nodes = [sized(name, "4", zone="z") for name in ("a", "b")]
    web = placed("web", "a", app="web")
    world = world_of(*nodes, pods=[web])
    answer = decided(world, policy_of(["podsInDomain('zone', 'app=web') == 0"]), pod(cpu="1", priority=10))
    assert isinstance(answer, Rejection)
    assert [victim.name for victim in answer.victims] == ["web"]


def test_counts_are_those_of_all_namespaces():
    pods = [make_pod(f"p{i}", node="a", labels={"app": "web"}, namespace=f"ns{i}") for i in range(3)]
    world = world_of(labelled("a"), labelled("b"), pods=pods)
    found = verdicts(plugin_of(world, policy_of(["podsOnNode('app=web') == 3"])), pod())
    assert found == {"a": "", "b": "node(s) didn't satisfy rule r0"}


def test_a_param_of_the_config_map_takes_precedence_and_its_change_applies_at_once():
    world = world_of(labelled("a", tier="gold"), labelled("b", tier="silver"))
    policy = policy_of(
        ["node.labels.tier == params.tier && policy.params.tier == 'gold'"],
        params={"tier": "gold"},
        paramsFrom={"configMapRef": {"name": "tiers"}},
    )
    framework = framework_of(world, policy)

    def node() -> str:
        return decided(world, framework, pod()).node_name

    assert node() == "a"
    raw = {"metadata": {"name": "tiers", "namespace": NAMESPACE}, "data": {"tier": "silver"}}
    world.cache.set_object("ConfigMap", raw)
    assert node() == "b"
    world.cache.set_object("ConfigMap", {**raw, "data": {"tier": 5}})
    assert node() == "a"
    world.cache.set_object("ConfigMap", raw)
    assert node() == "b"
    plugin = framework.plugins["PolicyRules"]
    assert plugin.params_problem({}) == ""
    world.cache.remove_object("ConfigMap", "tiers", NAMESPACE)
    assert node() == "b"
    assert plugin.params_problem({}) == f"ConfigMap {NAMESPACE}/tiers does not exist: its last content stays in use"


def test_a_config_map_of_another_namespace_is_not_read():
    world = world_of(labelled("a", tier="gold"))
    world.cache.set_object("ConfigMap", {"metadata": {"name": "tiers", "namespace": "other"}, "data": {"t": "gold"}})
    policy = policy_of(["node.labels.tier == params.t"], paramsFrom={"configMapRef": {"name": "tiers"}})
    plugin = plugin_of(world, policy)
    assert verdicts(plugin, pod()) == {"a": "node(s) failed rule r0: no such key: t"}
    assert plugin.params_problem({}) == (
        f"ConfigMap {NAMESPACE}/tiers does not exist: the params of the policy alone are used"
    )


def test_every_row_and_every_node_agree_while_the_cluster_changes():
    source = random.Random(3)
    world = cluster(source)
    plugin = plugin_of(
        world,
        policy_of(
            [
                "node.labels[?'tier'].orValue('gold') == pod.labels.tier",
                "node.free.cpu > -3000 && !node.unschedulable",
                "podsInDomain('zone', 'app') < 9",
            ],
            ["node.free.cpu / 100", "double(size(node.taints)) * 10.5"],
            params={"tier": "gold"},
        ),
    )
    for step in range(60):
        asked = pending_pod(tier=("gold", "silver")[step % 2])
        verdicts(plugin, asked)
        raw_scores(plugin, asked)
        change(world, source)


def test_a_run_of_decisions_evaluates_only_what_has_changed():
    evaluated = []
    world = world_of(*(labelled(f"n{i}", tier=f"t{i}") for i in range(200)))
    plugin = plugin_of(world, policy_of(["node.labels.tier.replace('t', 'u') != 'x' && pod.priority >= 0"]))
    expression = plugin.rules.filters[0].expression
    program, original = type(expression.program), type(expression.program).evaluate

    def counting(self, *args, **kwargs):
        evaluated.append(self)
        return original(self, *args, **kwargs)

    program.evaluate = counting
    try:
        verdict = [plugin_filter(plugin, world, priority) for priority in (1, 2, 3)]
        before = len(evaluated)
        world.cache.set_node(parse_node(labelled("n7", tier="x")))
        verdict.append(plugin_filter(plugin, world, 3))
    finally:
        program.evaluate = original
    assert verdict == [200, 200, 200, 199]
    assert 200 <= before <= 210
    assert len(evaluated) - before <= 4


def plugin_filter(plugin, world, priority) -> int:
    state, asked = CycleState(), pod(priority=priority)
    plugin.pre_filter(state, asked)
    return int(plugin.filter_all(state, asked, world.cache.table).ok.sum())


def test_reasons_that_are_asked_for_late_are_those_of_the_verdict():
    world = world_of(*(labelled(f"n{i}", tier="a") for i in range(20)))
    plugin = plugin_of(world, policy_of(["node.labels.tier == 'a'", "node.name != 'n1' || pod.priority == 7"]))
    asked, state = pod(), CycleState()
    plugin.pre_filter(state, asked)
    result = plugin.filter_all(state, asked, world.cache.table)
    world.cache.set_node(parse_node(labelled("n1", tier="b")))
    later = plugin.filter_all(state, asked, world.cache.table)
    reasons = []
    for each in (result, later):
        codes, statuses = each.explain()
        reasons.append(statuses[codes[1]].reasons)
    assert reasons == [("node(s) didn't satisfy rule r1",), ("node(s) didn't satisfy rule r0",)]
