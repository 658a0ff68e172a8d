"""The size of policies: what is too large is refused cheaply, with a short message."""

from __future__ import annotations

import pytest

from podwright.api.scheduler_policy import parse_policy
from support.costs.call_counts import calls_of
from support.policies.policy_sets import (
    GOOD,
    build,
    policy,
    select_pods,
)


def terms(count, values=1):
    """A policy whose added affinity has this many terms, each with this many values."""
    expressions = [{"key": "k", "operator": "In", "values": [f"v{i}" for i in range(values)]}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions} for _ in range(count)]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return policy("a", {"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": affinity}}]})


def deep(depth):
    value = {}
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param({"x": [1] * 3_000}, "too large: it consists of more than 3000 values", id="many values"),
        pytest.param(
            {f"k{i}": 1 for i in range(3_000)}, "too large: it consists of more than 3000 values", id="many fields"
        ),
        pytest.param({"x": deep(33)}, "nested too deeply: the maximum is 32 levels", id="deep"),
        pytest.param({"x": deep(100_000)}, "nested too deeply: the maximum is 32 levels", id="far too deep"),
        pytest.param(
            {"x": "\N{SNOWMAN}" * 45_000}, "too large: 135044 bytes of JSON, the maximum is 131072", id="one text"
        ),
        pytest.param(
            {"x": "\ud800" * 131_073}, "too large: 131117 bytes of JSON, the maximum is 131072", id="lone surrogates"
        ),
    ],
)
def test_a_spec_that_is_too_large_is_refused(spec, problem):
    result = build().apply(policy("a", {**GOOD, **spec}))
    assert (result.accepted, result.message.partition(". ")[0]) == (False, f"spec: {problem}")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(lambda n: {"x": [1] * n}, id="values"),
        pytest.param(lambda n: {f"k{i}": 1 for i in range(n)}, id="fields"),
        pytest.param(lambda n: {"match": select_pods(**{f"k{i}": "v" for i in range(n)})}, id="labels"),
        pytest.param(lambda n: {"pluginConfig": [{"name": f"P{i}"} for i in range(n)]}, id="entries"),
        pytest.param(lambda n: {"x": deep(n)}, id="levels"),
    ],
)
def test_the_cost_of_a_refusal_does_not_grow_with_a_spec_that_is_far_too_large(spec):
    def calls(count):
        raw, policies, results = policy("a", spec(count)), build(), []
        found = calls_of(lambda: results.append(policies.apply(raw)))
        assert not results[0].accepted
        return found

    assert calls(20_000) == calls(10_000)


def test_a_value_that_is_repeated_many_times_costs_one_look_at_each():
    def looks(count):
        class Text(str):
            __slots__ = ()
            count = 0

            def __eq__(self, other):
                type(self).count += 1
                return str.__eq__(self, other)

            __hash__ = str.__hash__

        values = [Text("v") for _ in range(count)]
        expressions = [{"key": "k", "operator": "In", "values": values}]
        assert not build().apply(policy("a", {"match": {"podSelector": {"matchExpressions": expressions}}})).accepted
        return Text.count

    assert looks(64) <= 64 * 4


def test_a_message_names_only_the_first_problems_and_cuts_long_names():
    result = build().apply(policy("a", {**{f"field{i:04}" + "x" * 5_000: 1 for i in range(20)}}))
    assert "spec.field0009x" in result.message
    assert "spec.field0010x" not in result.message
    assert "and 10 more" in result.message
    assert len(result.message) < 10_000


def test_the_largest_policies_that_are_accepted():
    assert parse_policy(terms(64, 40)).name == "a"
    result = build().apply(terms(65))
    assert "nodeSelectorTerms: too many: 65 entries, the maximum is 64" in result.message


def test_a_plugin_of_a_user_may_have_args_of_the_same_names_and_other_types():
    args = {"resources": "all", "shape": {"a": 1}, "defaultConstraints": 7, "addedAffinity": ["x"]}
    parsed = parse_policy(policy("a", {"pluginConfig": [{"name": "Mine", "args": args}]}))
    assert parsed.spec.plugin_config[0].args == args
