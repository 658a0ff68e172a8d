"""The active policies: which generation of a policy is active, and which policy decides about a pod."""

from __future__ import annotations

import gc
import re
import weakref

import pytest

from podwright.api.compile import BUILT_IN
from podwright.api.permissions import PolicySettings
from podwright.api.spec.bounds import MAX_SPEC_BYTES
from podwright.core.framework.errors import PluginError
from support.policies.policy_sets import (
    BAD,
    GOOD,
    NO_LABELS,
    build,
    chosen,
    nested,
    pod,
    policy,
    select_namespaces,
    select_pods,
)

# Which policy a pod gets


def test_without_policies_the_built_in_policy_serves_only_podwright():
    policies = build()
    assert policies.scheduler_names == {"podwright"}
    assert chosen(policies) == BUILT_IN
    assert chosen(policies, pod(scheduler="default-scheduler")) is None


@pytest.mark.parametrize(
    ("raws", "labels", "namespace_labels", "expected"),
    [
        pytest.param([policy("a", {})], {}, {}, "a", id="a policy without match takes every pod"),
        pytest.param([policy("a", {"match": select_pods(x="1")})], {"x": "1"}, {}, "a", id="the pod selector matches"),
        pytest.param([policy("a", {"match": select_pods(x="1")})], {"x": "2"}, {}, BUILT_IN, id="the pod selector does not match"),
        pytest.param([policy("a", {"match": select_namespaces(t="ml")})], {}, {"t": "ml"}, "a", id="the namespace selector matches"),
        pytest.param([policy("a", {"match": select_namespaces(t="ml")})], {"t": "ml"}, {}, BUILT_IN, id="the namespace selector ignores labels of the pod"),
        pytest.param([policy("a", {"match": select_pods(x="1") | select_namespaces(t="ml")})], {"x": "1"}, {"t": "web"}, BUILT_IN, id="both selectors must match"),
        pytest.param([policy("a", {"precedence": 1}), policy("b", {"precedence": 2})], {}, {}, "b", id="the greatest precedence wins"),
        pytest.param([policy("b", {}), policy("a", {})], {}, {}, "a", id="at equal precedence, the first name wins"),
        pytest.param([policy("b", {"precedence": -1}), policy("a", {"precedence": -2})], {}, {}, "b", id="a policy with negative precedence still wins over the built-in policy"),
        pytest.param([policy("a", {"precedence": 9, "match": select_pods(x="1")}), policy("b", {})], {}, {}, "b", id="the greatest precedence among the policies that match wins"),
        pytest.param([policy("a", {}, created="2026-01-02T00:00:00Z"), policy("b", {}, created="2026-01-01T00:00:00Z")], {}, {}, "b", id="at equal precedence, the older policy wins"),
        pytest.param([policy("a", {"precedence": 1}, created="2026-01-02T00:00:00Z"), policy("b", {}, created="2026-01-01T00:00:00Z")], {}, {}, "a", id="precedence counts before age"),
        pytest.param([policy("a", {}, created="yesterday"), policy("b", {}, created="2026-01-01T00:00:00Z")], {}, {}, "a", id="a malformed time counts as none"),
        pytest.param([policy("a", {"match": {"namespaces": ["default", "x"]}})], {}, {}, "a", id="the namespace is named"),
        pytest.param([policy("a", {"match": {"namespaces": ["x"]}})], {}, {}, BUILT_IN, id="another namespace is named"),
        pytest.param([policy("a", {"match": {"priorityClasses": ["high"]}})], {}, {}, BUILT_IN, id="the pod has no priority class"),
        pytest.param([policy("a", {"schedulerName": "other"})], {}, {}, BUILT_IN, id="a policy for another scheduler name does not match"),
    ],
)  # fmt: skip
def test_the_matching_policy_with_the_greatest_precedence_decides(raws, labels, namespace_labels, expected):
    assert chosen(build(*raws), pod(labels), namespace_labels) == expected


def test_a_policy_can_serve_another_scheduler_name():
    policies = build(policy("a", {"schedulerName": "ml", "match": select_pods(x="1")}))
    assert policies.scheduler_names == {"podwright", "ml"}
    assert chosen(policies, pod({"x": "1"}, "ml")) == "a"
    assert chosen(policies, pod({}, "ml")) == BUILT_IN, "every served name falls back to the built-in policy"


def test_a_change_of_namespace_labels_changes_the_selection():
    policies = build(policy("a", {"match": select_namespaces(t="ml")}))
    one = pod()
    assert chosen(policies, one, {"t": "web"}) == BUILT_IN
    assert chosen(policies, one, {"t": "ml"}) == "a"
    assert chosen(policies, one, {"t": "web"}) == BUILT_IN


def test_pods_with_equal_labels_are_distinguished_by_namespace():
    policies = build(policy("a", {"match": select_namespaces(t="ml")}))
    web, ml = {"t": "web"}, {"t": "ml"}
    for _ in range(2):
        assert chosen(policies, pod({"x": "1"}, namespace="web"), web) == BUILT_IN
        assert chosen(policies, pod({"x": "1"}, namespace="ml"), ml) == "a"


def test_pods_with_equal_labels_are_distinguished_by_priority_class():
    policies = build(policy("a", {"match": {"priorityClasses": ["high", "higher"]}}))
    for _ in range(2):
        assert [chosen(policies, pod(priority_class=name)) for name in ("high", "", "higher", "low")] == [
            "a",
            BUILT_IN,
            "a",
            BUILT_IN,
        ]


def test_a_change_of_policies_changes_the_selection():
    policies = build()
    one = pod({"x": "1"})
    assert chosen(policies, one) == BUILT_IN
    policies.apply(policy("a", {"match": select_pods(x="1")}))
    assert chosen(policies, one) == "a"
    policies.apply(policy("a", {"match": select_pods(x="2")}, generation=2))
    assert chosen(policies, one) == BUILT_IN
    policies.apply(policy("b", {"match": select_pods(x="1")}))
    assert chosen(policies, one) == "b"
    policies.remove("b")
    assert chosen(policies, one) == BUILT_IN


def test_cached_selections_do_not_keep_labels_alive():
    policies = build(policy("a", {"match": select_pods(x="1")}))
    pods = [pod({"x": str(i)}) for i in range(100)]
    labels = [weakref.ref(each.labels) for each in pods]
    for each in pods:
        chosen(policies, each)
    del pods, each
    gc.collect()
    assert sum(ref() is not None for ref in labels) < 10


# Which generation is active


def test_a_valid_policy_is_accepted_and_active():
    policies = build()
    result = policies.apply(policy("a", GOOD, generation=3))
    assert (result.accepted, result.reason, result.generation, result.active_generation) == (True, "Accepted", 3, 3)
    assert [(p.name, p.generation, p.spec.strategy.type) for p in policies.active] == [("a", 3, "MostAllocated")]


def test_the_last_accepted_generation_stays_active():
    policies = build(policy("a", GOOD, generation=1))
    before = policies.select(pod(), NO_LABELS)
    result = policies.apply(policy("a", BAD, generation=2))
    assert (result.accepted, result.reason, result.active_generation) == (False, "Invalid", 1)
    assert result.message == (
        "spec.strategy.type: 'Best' is not one of Default, LeastAllocated, MostAllocated, BalancedAllocation, "
        "RequestedToCapacityRatio, Random, NodeName, LoadAware, BestFit, LeastFragmentation, Custom. Generation 1 stays in force."
    )
    assert policies.select(pod(), NO_LABELS) is before
    result = policies.apply(policy("a", {"precedence": "x"}, generation=3))
    assert result.active_generation == 1
    assert policies.apply(policy("a", {"strategy": {"type": "Random"}}, generation=4)).active_generation == 4
    assert policies.select(pod(), NO_LABELS).spec.strategy.type == "Random"


def test_a_policy_that_is_too_large_is_rejected():
    def sized(length):
        args = {"addedAffinity": {"x": "ö" * (length // 2)}}
        return policy("a", {"pluginConfig": [{"name": "NodeAffinity", "args": args}]})

    policies = build()
    assert policies.apply(policy("a", GOOD)).accepted
    result = policies.apply(sized(MAX_SPEC_BYTES) | {"metadata": {"name": "a", "uid": "u-a", "generation": 2}})
    assert (result.accepted, result.reason, result.active_generation) == (False, "Invalid", 1)
    assert re.fullmatch(
        r"spec: too large: 131\d\d\d bytes of JSON, the maximum is 131072\. Generation 1 stays in force\.",
        result.message,
    )
    assert "too large" not in policies.apply(sized(MAX_SPEC_BYTES - 200)).message


def test_a_policy_that_was_never_accepted_is_not_active():
    policies = build()
    result = policies.apply(policy("a", {**BAD, "schedulerName": "ml"}))
    assert (result.accepted, result.active_generation) == (False, None)
    assert result.message.endswith("No generation of this policy is in force.")
    assert policies.active == []
    assert policies.last_accepted("a") is None


def test_a_new_policy_does_not_inherit_the_active_generation_of_a_deleted_one_with_its_name():
    policies = build(policy("a", GOOD, uid="first"))
    assert policies.apply(policy("a", BAD, uid="second")).active_generation is None
    assert refusal(policies) == "a"


# Policies of which no generation was accepted

FOR_X = {**BAD, "match": select_pods(x="1")}
X = pod({"x": "1"})
FALLS_BACK = PolicySettings(waits_for_bad_policies=False)


def refusal(policies, a_pod=None):
    """The refused policy for which the pod waits; None if it does not wait for one."""
    found = policies.select(a_pod or pod(), NO_LABELS)
    return found.name if found is not None and found.refusal else None


def test_the_pods_of_a_refused_policy_wait_for_it_and_other_pods_do_not():
    policies = build(policy("a", FOR_X))
    assert refusal(policies, X) == "a"
    assert "strategy.type" in policies.select(X, NO_LABELS).refusal
    assert chosen(policies) == BUILT_IN
    assert policies.active == []


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param([policy("b", {})], "a", id="the name of the refused one comes first"),
        pytest.param([policy("b", {"precedence": 1})], None, id="the accepted one has a greater precedence"),
        pytest.param([policy("b", {**BAD, "precedence": 1})], "b", id="another refused one has a greater precedence"),
        pytest.param(
            [policy("b", {"precedence": 1, "match": select_pods(y="1")})], "a", id="the accepted one is for other pods"
        ),
    ],
)
def test_precedence_decides_between_accepted_and_refused_policies(others, expected):
    for raws in ([policy("a", FOR_X), *others], [*others, policy("a", FOR_X)]):
        assert refusal(build(*raws), X) == expected


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"match": {"podSelector": {"matchLabels": {"-": "1"}}}}, id="its match is invalid"),
        pytest.param({"match": [], **BAD}, id="its match has another type"),
        pytest.param({"precedence": "high"}, id="its precedence is invalid"),
        pytest.param({"schedulerName": "a,b"}, id="its scheduler name is malformed"),
        pytest.param({"schedulerName": "default-scheduler"}, id="its scheduler name is not allowed"),
        pytest.param({"match": select_pods(**{f"k{i}": "v" * 60 for i in range(3000)})}, id="its match is too large"),
        pytest.param(None, id="it has no spec"),
        pytest.param("text", id="its spec is text"),
        pytest.param({**GOOD, "match": nested(100_000)}, id="its match is nested too deeply"),
    ],
)
def test_a_refused_policy_takes_no_pods_if_its_own_claim_on_pods_cannot_be_used(spec):
    policies = build(policy("a", spec))
    assert policies.select(X, NO_LABELS) is policies.default
    assert policies.scheduler_names == {"podwright"}


def test_a_scheduler_name_that_only_refused_policies_serve_is_served_for_all_its_pods():
    policies = build(policy("a", {**FOR_X, "schedulerName": "ml"}))
    assert policies.scheduler_names == {"podwright", "ml"}
    assert refusal(policies, pod({"x": "1"}, scheduler="ml")) == "a"
    assert refusal(policies, pod(scheduler="ml")) == "a"
    policies.apply(policy("b", {"schedulerName": "ml", "match": select_pods(y="1")}))
    assert chosen(policies, pod(scheduler="ml")) == BUILT_IN
    policies.remove("a")
    policies.remove("b")
    assert policies.scheduler_names == {"podwright"}


def test_an_accepted_generation_ends_the_refusal_and_a_later_invalid_one_does_not_renew_it():
    policies = build(policy("a", FOR_X))
    policies.apply(policy("a", {**FOR_X, **GOOD}, generation=2))
    assert (refusal(policies, X), chosen(policies, X)) == (None, "a")
    policies.apply(policy("a", FOR_X, generation=3))
    assert (refusal(policies, X), policies.select(X, NO_LABELS).generation) == (None, 2)


def test_a_refused_policy_that_takes_every_pod_shadows_those_after_it():
    policies = build(policy("a", BAD), policy("b", {}))
    assert policies.shadowed_by("b") == "a"
    assert build(policy("a", BAD), policy("b", {}), settings=FALLS_BACK).shadowed_by("b") is None


def test_without_waiting_the_next_policy_decides_and_the_refused_one_is_known():
    raws = [
        policy("a", {**FOR_X, "precedence": 2}),
        policy("b", {"precedence": 1}),
        policy("c", {**FOR_X, "schedulerName": "ml"}),
    ]
    policies = build(*raws, settings=FALLS_BACK)
    ml = pod(scheduler="ml")
    assert (chosen(policies, X), policies.passed_over(X, NO_LABELS).name) == ("b", "a")
    assert (chosen(policies), policies.passed_over(pod(), NO_LABELS)) == ("b", None)
    assert (chosen(policies, ml), policies.passed_over(ml, NO_LABELS).name) == (BUILT_IN, "c")
    assert build(*raws).passed_over(X, NO_LABELS) is None


def test_only_a_policy_that_changes_what_decides_raises_the_version():
    policies = build(policy("a", GOOD))
    version = policies.version
    policies.apply(policy("a", BAD, generation=2))
    policies.apply(policy("nameless match", {"match": []}))
    policies.remove("nameless match")
    assert policies.version == version
    policies.apply(policy("a", {}, generation=3))
    assert policies.version == version + 1


def test_neither_the_spec_nor_the_object_of_a_refused_policy_stays_in_memory():
    class Kept(dict):
        pass

    spec = Kept(BAD, match=select_pods(x="1"))
    policies, kept = build(policy("a", spec)), weakref.ref(spec)
    del spec
    gc.collect()
    assert kept() is None
    assert refusal(policies, X) == "a"


# After a restart


def with_last_accepted(name, spec, last, generation=2):
    return {**policy(name, spec, generation=generation), "status": {"lastAccepted": last}}


LAST = {"generation": 1, "spec": {**GOOD, "schedulerName": "ml"}}


def test_after_a_restart_the_last_accepted_generation_replaces_an_invalid_one():
    policies = build()
    result = policies.apply(with_last_accepted("a", BAD, LAST))
    assert (result.accepted, result.generation, result.active_generation) == (False, 2, 1)
    assert result.message.endswith("Generation 1 stays in force.")
    assert [(p.name, p.generation, p.spec.strategy.type) for p in policies.active] == [("a", 1, "MostAllocated")]
    assert chosen(policies, pod(scheduler="ml")) == "a"


def test_a_valid_generation_and_the_active_one_take_precedence_over_last_accepted():
    policies = build(with_last_accepted("a", {}, LAST))
    assert [p.generation for p in policies.active] == [2]
    assert policies.apply(with_last_accepted("a", BAD, LAST, generation=3)).active_generation == 2
    assert policies.scheduler_names == {"podwright"}


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        pytest.param({"generation": 1, "spec": {"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "Gone"}]}}}}, "spec.plugins.score.enabled[0].name: plugin 'Gone' does not exist", id="its plugin no longer exists"),
        pytest.param({"generation": 1, "spec": {"strategy": {"type": "Worst"}}}, "spec.strategy.type: 'Worst' is not one of", id="a field is invalid"),
        pytest.param({"generation": 1, "spec": {"strategy": {"type": "Random"}}}, "out of luck", id="the check rejects it"),
        pytest.param({"generation": "one", "spec": {}}, "status.lastAccepted.generation: expected a whole number", id="its generation is text"),
        pytest.param({"generation": 1}, "status.lastAccepted.spec: a value is required", id="it has no spec"),
        pytest.param([1], "status.lastAccepted: expected an object", id="it is a list"),
    ],
)  # fmt: skip
def test_last_accepted_is_validated_like_any_other_spec(last, problem):
    def check(compiled):
        if compiled.spec.strategy.type == "Random":
            raise PluginError("RandomScore", "constructor", "out of luck")

    policies = build(check=check)
    result = policies.apply(with_last_accepted("a", BAD, last))
    assert (result.accepted, result.reason, result.active_generation) == (False, "Invalid", None)
    assert (
        "No generation of this policy is in force; the generation in status.lastAccepted is not acceptable: "
        in result.message
    )
    assert problem in result.message
    assert policies.active == []


def test_last_accepted_is_not_tried_if_it_is_the_newest_spec():
    result = build().apply(with_last_accepted("a", BAD, {"generation": 1, "spec": BAD}))
    assert result.message.endswith("No generation of this policy is in force.")


def test_applying_an_unchanged_policy_changes_nothing():
    policies = build(policy("a", GOOD))
    version, before = policies.version, policies.select(pod(), NO_LABELS)
    policies.apply(policy("a", GOOD))
    assert policies.version == version
    assert policies.select(pod(), NO_LABELS) is before


def test_a_changed_spec_is_applied_even_if_the_object_has_no_generation():
    policies = build({"metadata": {"name": "a"}, "spec": GOOD})
    policies.apply({"metadata": {"name": "a"}, "spec": {"strategy": {"type": "Random"}}})
    assert policies.select(pod(), NO_LABELS).spec.strategy.type == "Random"


def test_removing_a_policy_that_is_not_known_is_no_error():
    policies = build()
    policies.remove("nope")
    assert policies.version == build().version


def test_an_invalid_policy_does_not_affect_the_others():
    policies = build()
    raws = policy("a", GOOD), policy("bad", BAD), policy("c", {"schedulerName": "ml"})
    assert [policies.apply(raw).accepted for raw in raws] == [True, False, True]
    assert [active.name for active in policies.active] == ["a", "c"]
    assert chosen(policies) == "a"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": None, "spec": None}, id="nulls"),
        pytest.param({"metadata": [], "spec": 3}, id="wrong types"),
        pytest.param({"metadata": {"name": "x", "generation": "one"}, "spec": {"plugins": [1]}}, id="a generation that is text"),
        pytest.param({"metadata": {"name": "x"}, "spec": {"match": {"podSelector": {"matchLabels": {"a": None, 1: 2}}}}}, id="labels that are not strings"),
        pytest.param({"metadata": {"name": "x"}, "spec": {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": [None]}}]}}, id="a null in a list"),
        pytest.param({"metadata": {"name": "x"}, "spec": {"schedulerName": "a" * 1_000_000}}, id="a name of a million letters"),
    ],
)  # fmt: skip
def test_a_malformed_policy_is_rejected_without_an_exception(raw):
    policies = build(policy("a", GOOD))
    result = policies.apply(raw)
    assert not result.accepted
    assert len(result.message) < 1000
    assert chosen(policies) == "a"


def test_a_policy_that_fails_the_check_is_rejected():
    def check(compiled):
        if compiled.spec.strategy.type == "Random":
            raise PluginError("RandomScore", "constructor", "out of luck")

    policies = build(check=check)
    assert policies.apply(policy("a", GOOD)).accepted
    result = policies.apply(policy("a", {"strategy": {"type": "Random"}}, generation=2))
    assert (result.reason, result.active_generation) == ("Invalid", 1)
    assert "out of luck" in result.message
