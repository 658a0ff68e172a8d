"""Compiling the rules of a policy: what is refused, with line, column and field, and which plugins run."""

from __future__ import annotations

import pytest

from podwright.api.scheduler_policy import PolicyError
from podwright.core.framework.profile import Point, expand
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.rules.rule_set import MOST_WORK
from podwright.simulator.world import World
from support.objects.builders import make_node
from support.rules.running import policy_of


def refusal(filters=(), scores=(), **spec):
    with pytest.raises(PolicyError) as caught:
        policy_of(filters, scores, **spec)
    return caught.value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        pytest.param("node.lables.tier == 'x'", "line 1, column 5: undefined field 'lables'", id="a field that does not exist"),
        pytest.param("true &&\n  nodes.name == 'x'", "line 2, column 8: undeclared reference to 'nodes.name'", id="a variable that does not exist"),
        pytest.param("node.name == 5", "line 1, column 11: found no matching overload for '_==_'", id="a comparison of two types"),
        pytest.param("node.name ==", "line 1, column 13: Syntax error", id="half an expression"),
        pytest.param("node.name", "a filter must be a bool, not string", id="a text"),
        pytest.param("dyn(true)", "a filter must be a bool, not dyn", id="a type that is not known"),
        pytest.param("node.name.matches('(')", "line 1, column 18: ", id="a malformed regular expression"),
        pytest.param("node.labels.all(a, node.labels.all(b, a != b))", "it may cost 2426371 on one node, the maximum is 1000000", id="an expression that may cost too much"),
        pytest.param("podsOnNode(5) > 1", "line 1, column 11: found no matching overload for 'podsOnNode'", id="a selector that is a number"),
    ],
)  # fmt: skip
def test_a_filter_that_cannot_work_is_refused_with_line_and_column(expression, message):
    (problem, *_) = refusal(["true", expression]).problems
    assert problem[0] == "spec.rules.filters[1].expression"
    assert problem[1].startswith(message)


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("node.free.cpu > quantity('2')", "; amounts are whole numbers, CPU in milli-CPU and memory in bytes"),
        ("100.0 - node.podCount > 1.0", "; an amount or a count is an int, a signal a double"),
        ("node.name > 5", ""),
    ],
)
def test_a_mix_of_types_is_refused_with_what_helps(expression, hint):
    ((_, problem),) = refusal([expression]).problems
    assert "found no matching overload" in problem
    assert problem.endswith(")'") if not hint else hint in problem


@pytest.mark.parametrize(
    "expression",
    ["(" * 40 + "true" + ")" * 40, "1" + " + 1" * 40 + " > 1"],
    ids=["parentheses", "a sum"],
)
def test_deep_nesting_is_refused_in_words(expression):
    ((_, problem),) = refusal([expression]).problems
    assert "the expression is nested more than 32 levels deep: each parenthesis" in problem


def test_a_score_must_be_a_number():
    error = refusal(scores=["true", "quantity('1')"])
    assert error.problems == (
        ("spec.rules.scores[0].expression", "a score must be an int, uint or double, not bool"),
        ("spec.rules.scores[1].expression", "a score must be an int, uint or double, not kubernetes.Quantity"),
    )


def test_all_problems_are_reported_together():
    error = refusal(["node.x"], ["node.y"])
    assert [where for where, _ in error.problems] == [
        "spec.rules.filters[0].expression",
        "spec.rules.scores[0].expression",
    ]


def test_the_plugin_runs_after_the_others_where_it_has_rules():
    points = expand(policy_of(["true"]).profile.plugins, PLUGINS).points
    assert points[Point.FILTER][-1] == points[Point.PRE_FILTER][-1] == "PolicyRules"
    assert "PolicyRules" not in points[Point.SCORE]
    points = expand(policy_of(scores=["1"]).profile.plugins, PLUGINS).points
    assert points[Point.SCORE][-1] == points[Point.PRE_SCORE][-1] == "PolicyRules"
    assert "PolicyRules" not in points[Point.FILTER]


def test_a_policy_without_rules_does_not_run_the_plugin():
    assert "PolicyRules" not in expand(policy_of().profile.plugins, PLUGINS).names


def test_scores_count_beside_a_strategy_that_replaces_all_others():
    points = expand(policy_of(scores=["1"], strategy={"type": "Random"}).profile.plugins, PLUGINS).points
    assert points[Point.SCORE] == ("RandomScore", "PolicyRules")


@pytest.mark.parametrize("place", ["enabled", "disabled"])
def test_no_policy_can_name_the_plugin(place):
    error = refusal(["true"], strategy={"type": "Custom"}, plugins={"filter": {place: [{"name": "PolicyRules"}]}})
    assert error.problems == (
        (f"spec.plugins.filter.{place}[0].name", "plugin PolicyRules cannot be named: spec.rules enables it"),
    )


def test_policies_with_the_same_expression_share_it():
    first, second = (policy_of(["node.podCount < 7"]).profile.args["PolicyRules"].filters[0] for _ in range(2))
    assert first.expression is second.expression
    assert first.owner is not second.owner


TENS = str([*range(10)])
SHARED = "pod.labels.all(k, k in node.labels)"
HOSTILE = "(pod.annotations.x + node.name).findAll('a?b?').size() > 0"


@pytest.mark.parametrize(
    ("expression", "count", "costly"),
    [
        pytest.param(HOSTILE, 16, True, id="all matches in texts that differ for each node"),
        pytest.param(f"{TENS}.all(a, {TENS}.all(b, {TENS}.all(c, a + b + c >= 0 || node.name == 'x')))", 16, True, id="nested loops over constants"),
        pytest.param(HOSTILE, 1, False, id="one of these"),
        pytest.param("node.labels.tier == 'x' && node.free.cpu > 100", 64, False, id="labels and amounts"),
        pytest.param("!node.taints.exists(t, t.key == 'm' && !pod.tolerations.exists(x, x.key == t.key))", 64, False, id="taints that many nodes share"),
        pytest.param(SHARED, 16, False, id="all labels of a node"),
        pytest.param("podsInDomain('zone', 'app=' + pod.name) == 0", 64, False, id="counts"),
    ],
)  # fmt: skip
def test_only_rules_that_a_cluster_cannot_bear_are_estimated_above_the_bound(expression, count, costly):
    (rules,) = policy_of([expression] * count).rules
    world = World()
    for nodes in (2_000, 5_000):
        world.fill({"nodes": [make_node(f"n{i}") for i in range(len(world.cache.nodes), nodes)]})
        assert (sum(each.cost for each in rules.work(world.cache.table)) > MOST_WORK) is costly
