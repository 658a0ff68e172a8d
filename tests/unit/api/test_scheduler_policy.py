"""Decoding a SchedulerPolicy: its fields, and the bounds and rules that it is checked against."""

from __future__ import annotations

import pytest

from podwright.api.scheduler_policy import PolicyError, parse_policy


def policy(spec, name="p"):
    return {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": {"name": name}, "spec": spec}


def decoded(spec):
    return parse_policy(policy(spec)).spec


def rejection(spec) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        decoded(spec)
    return caught.value


def test_an_empty_spec_has_all_defaults():
    spec = decoded({})
    assert (spec.scheduler_name, spec.precedence, spec.strategy.type) == ("podwright", 0, "Default")
    assert (spec.match.namespace_selector, spec.match.pod_selector) == (None, None)
    assert (spec.plugins, spec.plugin_config) == ({}, ())


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param({"strategy": {"type": "Best"}}, "Invalid", "spec.strategy.type: 'Best' is not one of Default, LeastAllocated", id="a strategy that does not exist"),
        pytest.param({"strategy": {"type": "Custom"}}, "Invalid", "spec.plugins: is required with strategy type Custom; strategy type Default takes pluginConfig without plugins", id="Custom without plugins"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {}}}, "Invalid", "spec.plugins: is required with strategy type Custom", id="Custom with empty plugins"),
        pytest.param({"plugins": {"score": {"disabled": [{"name": "*"}]}}}, "Invalid", "spec.plugins: is only for strategy type Custom, not Default", id="plugins without Custom"),
        pytest.param({"strategy": {"type": "Random", "resources": [{"name": "cpu"}]}}, "Invalid", "spec.strategy.resources: is not used by strategy type Random", id="resources with a strategy that does not use them"),
        pytest.param({"strategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 0}]}}, "Invalid", "spec.strategy.resources[0].weight: 0 is less than 1", id="a resource weight of 0"),
        pytest.param({"strategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}}, "Invalid", "spec.strategy.resources[0].weight: 101 is greater than 100", id="a resource weight over 100"),
        pytest.param({"strategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}, {"name": "cpu"}]}}, "Invalid", "spec.strategy.resources[1].name: 'cpu' is listed twice", id="a resource listed twice"),
        pytest.param({"strategy": {"type": "MostAllocated", "resources": [{"name": "a b"}]}}, "Invalid", "spec.strategy.resources[0].name: 'a b' does not have the form", id="a resource name with a blank"),
        pytest.param({"strategy": {"type": "BalancedAllocation", "resources": [{"name": "cpu", "weight": 2}]}}, "Invalid", "spec.strategy.resources[0].weight: strategy type BalancedAllocation accepts only weight 1", id="a weight for BalancedAllocation"),
        pytest.param({"strategy": {"type": "RequestedToCapacityRatio"}}, "Invalid", "spec.strategy.requestedToCapacityRatio: is required with strategy type RequestedToCapacityRatio", id="a missing shape"),
        pytest.param({"strategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": []}}}, "Invalid", "spec.strategy.requestedToCapacityRatio.shape: too few: 0 entries, the minimum is 1", id="an empty shape"),
        pytest.param({"strategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 5, "score": 0}, {"utilization": 5, "score": 9}]}}}, "Invalid", "spec.strategy.requestedToCapacityRatio.shape[1].utilization: utilization must rise", id="a shape whose utilization does not rise"),
        pytest.param({"strategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 5, "score": 11}]}}}, "Invalid", "spec.strategy.requestedToCapacityRatio.shape[0].score: 11 is greater than 10", id="a score over 10 in a shape"),
        pytest.param({"strategy": {"type": "Random", "requestedToCapacityRatio": {"shape": [{"utilization": 5, "score": 1}]}}}, "Invalid", "spec.strategy.requestedToCapacityRatio: is not used by strategy type Random", id="a shape with another strategy"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": -1}]}}}, "Invalid", "spec.plugins.score.enabled[0].weight: -1 is less than 0", id="a plugin weight below 0"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 2**31}]}}}, "Invalid", "spec.plugins.score.enabled[0].weight: 2147483648 is greater than 2147483647", id="a plugin weight above int32"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "ImageLocality"}, {"name": "ImageLocality"}]}}}, "Invalid", "spec.plugins.score.enabled[1].name: 'ImageLocality' is listed twice", id="a plugin listed twice"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"scores": {"enabled": [{"name": "ImageLocality"}]}}}, "Invalid", "spec.plugins.scores: unknown extension point; there are multiPoint, preEnqueue", id="an extension point that does not exist"),
        pytest.param({"pluginConfig": [{"name": "InterPodAffinity"}, {"name": "InterPodAffinity"}]}, "Invalid", "spec.pluginConfig[1].name: 'InterPodAffinity' is listed twice", id="args of a plugin listed twice"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"placementScore": {}}}, "NotSupported", "spec.plugins.placementScore: extension points for pod groups are not supported by this version", id="an extension point for pod groups"),
        pytest.param({"rules": {"filters": [{"name": "a"}]}}, "Invalid", "spec.rules.filters[0].expression: a value is required", id="a filter without an expression"),
        pytest.param({"rules": {"filters": [{"expression": "true"}]}}, "Invalid", "spec.rules.filters[0].name: a value is required", id="a filter without a name"),
        pytest.param({"rules": {"filters": [{"name": "a", "expression": ""}]}}, "Invalid", "spec.rules.filters[0].expression: too short", id="an empty expression"),
        pytest.param({"rules": {"filters": [{"name": "a", "expression": "x" * 100_000}]}}, "Invalid", "spec.rules.filters[0].expression: too long: 100000 characters, the maximum is 10240", id="an expression of 100 kB"),
        pytest.param({"rules": {"filters": [{"name": "A_b", "expression": "true"}]}}, "Invalid", "spec.rules.filters[0].name: 'A_b' does not have the form", id="a rule's name with capitals"),
        pytest.param({"rules": {"filters": [{"name": "a", "expression": "true"}] * 2}}, "Invalid", "spec.rules.filters[1].name: 'a' is listed twice", id="a filter's name listed twice"),
        pytest.param({"rules": {"filters": [{"name": f"n{i}", "expression": "true"} for i in range(900)]}}, "Invalid", "spec.rules.filters: too many: 900 entries, the maximum is 64", id="900 filters"),
        pytest.param({"rules": {"filters": [{"name": f"n{i}", "expression": "true"} for i in range(1500)]}}, "Invalid", "spec: too large: it consists of more than 3000 values", id="1,500 filters"),
        pytest.param({"rules": {"filters": [{"name": "a", "expression": "true", "message": "a\nb"}]}}, "Invalid", "spec.rules.filters[0].message: 'a\\nb' does not have the form", id="a line break in a message"),
        pytest.param({"rules": {"filters": [{"name": "a", "expression": "true", "message": "a\u202eb"}]}}, "Invalid", "spec.rules.filters[0].message: has characters that cannot be printed", id="a change of direction in a message"),
        pytest.param({"rules": {"filters": [{"name": "a", "expression": "true", "message": "x" * 257}]}}, "Invalid", "spec.rules.filters[0].message: too long: 257 characters, the maximum is 256", id="a message that is too long"),
        pytest.param({"rules": {"scores": [{"name": "a", "expression": "1", "weight": 0}]}}, "Invalid", "spec.rules.scores[0].weight: 0 is less than 1", id="a rule's weight of 0"),
        pytest.param({"rules": {"scores": [{"name": "a", "expression": "1", "weight": 101}]}}, "Invalid", "spec.rules.scores[0].weight: 101 is greater than 100", id="a rule's weight over 100"),
        pytest.param({"rules": {"scores": [{"name": "a", "expression": "1", "normalize": "Best"}]}}, "Invalid", "spec.rules.scores[0].normalize: 'Best' is not one of None, Max, MinMax", id="a normalization that does not exist"),
        pytest.param({"params": {"a": 1}}, "Invalid", "spec.params.a: expected a string, got whole number 1", id="a param that is a number"),
        pytest.param({"params": {"a b": "1"}}, "Invalid", "spec.params[a b]: is not a key: expected at most 253 letters", id="a param's key with a blank"),
        pytest.param({"params": {f"k{i}": "" for i in range(65)}}, "Invalid", "spec.params: too many: 65 entries, the maximum is 64", id="too many params"),
        pytest.param({"paramsFrom": {}}, "Invalid", "spec.paramsFrom.configMapRef: a value is required", id="paramsFrom without a source"),
        pytest.param({"paramsFrom": {"configMapRef": {"name": "../x"}}}, "Invalid", "spec.paramsFrom.configMapRef.name: '../x' does not have the form", id="a ConfigMap's name with slashes"),
        pytest.param({"extenders": [{}]}, "Invalid", "spec.extenders[0]: expected a string", id="an extender without a name"),
        pytest.param({"extenders": ["a", "a"]}, "Invalid", "spec.extenders[1]", id="an extender that is named twice"),
        pytest.param({"match": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}, "Invalid", "spec.match.podSelector.matchExpressions[0].operator: 'Near' is not one of In", id="a selector operator that does not exist"),
        pytest.param({"match": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}, "Invalid", "spec.match.podSelector.matchExpressions[0].values: values are required for In and NotIn", id="In without values"),
        pytest.param({"match": {"namespaceSelector": {"matchLabels": {"a": 1}}}}, "Invalid", "spec.match.namespaceSelector.matchLabels.a: expected a string, got whole number 1", id="a label value that is a number"),
        pytest.param({"match": {"podSelector": {"matchLabels": {"!!bad": "x"}}}}, "Invalid", "spec.match.podSelector.matchLabels[!!bad]: is not a label key: expected a name of at most 63 letters", id="a malformed label key"),
        pytest.param({"match": {"podSelector": {"matchLabels": {"a": "x y z"}}}}, "Invalid", "spec.match.podSelector.matchLabels.a: 'x y z' does not have the form", id="a malformed label value"),
        pytest.param({"match": {"podSelector": {"matchLabels": {"a": "x" * 64}}}}, "Invalid", "spec.match.podSelector.matchLabels.a: too long: 64 characters, the maximum is 63", id="a label value that is too long"),
        pytest.param({"match": {"podSelector": {"matchLabels": {"x" * 64: "a"}}}}, "Invalid", f"spec.match.podSelector.matchLabels.{'x' * 64}: is not a label key", id="a label key that is too long"),
        pytest.param({"match": {"namespaceSelector": {"matchLabels": {"Example.com/a": "b"}}}}, "Invalid", "spec.match.namespaceSelector.matchLabels[Example.com/a]: is not a label key", id="a label key with a prefix in capitals"),
        pytest.param({"match": {"podSelector": {"matchExpressions": [{"key": "a/" + "x" * 64, "operator": "Exists"}]}}}, "Invalid", "spec.match.podSelector.matchExpressions[0].key: is not a label key", id="a key that is too long in an expression"),
        pytest.param({"match": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["ok", "x y"]}]}}}, "Invalid", "spec.match.podSelector.matchExpressions[0].values[1]: 'x y' does not have the form", id="a malformed value in an expression"),
        pytest.param({"precedence": "high"}, "Invalid", "spec.precedence: expected a whole number, got string 'high'", id="a precedence in words"),
        pytest.param({"precedence": 2_000_000_000}, "Invalid", "spec.precedence: 2000000000 is greater than 1000000000", id="a precedence that is too great"),
        pytest.param({"schedulerName": ""}, "Invalid", "spec.schedulerName: '' does not have the form", id="an empty scheduler name"),
        pytest.param({"schedulerName": "a,b"}, "Invalid", "spec.schedulerName: 'a,b' does not have the form", id="a scheduler name with a comma"),
        pytest.param({"schedulerName": "gr\u00f6sse"}, "Invalid", "spec.schedulerName: 'gr\u00f6sse' does not have the form", id="a scheduler name that is not ASCII"),
        pytest.param({"schedulerName": "a" * 254}, "Invalid", "spec.schedulerName: too long", id="a scheduler name that is too long"),
        pytest.param({"stratgy": {}}, "Invalid", "spec.stratgy: unknown field; there are schedulerName", id="a misspelt field"),
        pytest.param([], "Invalid", "spec: expected an object, got a list", id="a spec that is a list"),
        pytest.param("x", "Invalid", "spec: expected an object, got string 'x'", id="a spec that is a string"),
    ],
)  # fmt: skip
def test_an_invalid_policy_is_rejected_with_its_name_and_field(spec, reason, message):
    error = rejection(spec)
    assert error.message.startswith(message)
    assert error.reason == reason
    assert str(error).startswith("SchedulerPolicy p: ")
    assert len(error.problems) == 1


def test_all_problems_of_a_policy_are_reported_together():
    error = rejection({"precedence": "x", "strategy": {"type": "Best"}})
    assert [where for where, _ in error.problems] == ["spec.precedence", "spec.strategy.type"]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({}, id="no metadata"),
        pytest.param({"metadata": {"name": 3}}, id="a name that is a number"),
        pytest.param({"metadata": {"name": "p"}, "kind": "Pod"}, id="another kind"),
        pytest.param({"metadata": {"name": "p"}, "apiVersion": "podwright.dev/v2"}, id="another version"),
    ],
)
def test_an_object_that_is_not_a_policy_is_rejected(raw):
    with pytest.raises(PolicyError):
        parse_policy(raw)


def test_rules_and_params_are_decoded_with_their_defaults():
    spec = decoded(
        {
            "params": {"tier": "gold"},
            "paramsFrom": {"configMapRef": {"name": "tiers"}},
            "rules": {
                "filters": [{"name": "tier", "expression": "true"}],
                "scores": [{"name": "idle", "expression": "1"}],
            },
        }
    )
    assert (spec.params, spec.params_from.config_map_ref.name) == ({"tier": "gold"}, "tiers")
    assert spec.rules.filters[0].reason == "node(s) didn't satisfy rule tier"
    assert (spec.rules.scores[0].weight, spec.rules.scores[0].normalize) == (1, "None")


def test_a_message_may_have_any_printable_characters():
    spec = decoded({"rules": {"filters": [{"name": "a", "expression": "true", "message": "nœud(s) sans GPU 🙂"}]}})
    assert spec.rules.filters[0].reason == "nœud(s) sans GPU 🙂"


def test_empty_rules_are_no_rules():
    assert not decoded({"rules": {}}).rules
