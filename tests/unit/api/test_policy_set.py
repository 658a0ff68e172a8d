"""The live policies: what is in force, which one a pod gets, and what their status says."""

from __future__ import annotations

import gc
import weakref
from types import MappingProxyType

import pytest

from podwright.api.compile import BUILT_IN
from podwright.api.policy_set import PolicySet
from podwright.api.policy_status import status_of
from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import Features
from podwright.core.objects.pod import parse_pod
from support.engine.stand_ins import STAND_INS

GOOD = {"strategy": {"type": "MostAllocated"}}
BAD = {"strategy": {"type": "Best"}}
NO_LABELS = MappingProxyType({})
NOON, LATER = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"


def policy(name, spec, generation=1, uid="u"):
    return {"metadata": {"name": name, "generation": generation, "uid": f"{uid}-{name}"}, "spec": spec}


def pod(labels=None, scheduler="podwright", namespace="default"):
    return parse_pod(
        {
            "metadata": {"name": "p", "namespace": namespace, "uid": "1", "labels": labels or {}},
            "spec": {"schedulerName": scheduler, "containers": [{"name": "c"}]},
        }
    )


def build(*raws, **options):
    policies = PolicySet(STAND_INS, Features(), **options)
    for raw in raws:
        policies.apply(raw)
    return policies


def chosen(policies, a_pod=None, namespace_labels=NO_LABELS):
    found = policies.select(a_pod or pod(), namespace_labels)
    return None if found is None else found.name


def select_pods(**labels):
    return {"podSelector": {"matchLabels": labels}}


def select_namespaces(**labels):
    return {"namespaceSelector": {"matchLabels": labels}}


# Which policy a pod gets


def test_without_policies_the_built_in_one_serves_podwright_alone():
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
        pytest.param([policy("a", {"match": select_namespaces(t="ml")})], {"t": "ml"}, {}, BUILT_IN, id="the namespace selector does not look at the pod"),
        pytest.param([policy("a", {"match": select_pods(x="1") | select_namespaces(t="ml")})], {"x": "1"}, {"t": "web"}, BUILT_IN, id="both selectors must match"),
        pytest.param([policy("a", {"precedence": 1}), policy("b", {"precedence": 2})], {}, {}, "b", id="the greatest precedence wins"),
        pytest.param([policy("b", {}), policy("a", {})], {}, {}, "a", id="at equal precedence, the first name wins"),
        pytest.param([policy("b", {"precedence": -1}), policy("a", {"precedence": -2})], {}, {}, "b", id="negative precedence still goes before the built-in policy"),
        pytest.param([policy("a", {"precedence": 9, "match": select_pods(x="1")}), policy("b", {})], {}, {}, "b", id="one that does not match lets the next one have the pod"),
        pytest.param([policy("a", {"schedulerName": "other"})], {}, {}, BUILT_IN, id="a policy for another scheduler name has no say"),
    ],
)  # fmt: skip
def test_a_pod_gets_the_best_policy_that_matches(raws, labels, namespace_labels, expected):
    assert chosen(build(*raws), pod(labels), namespace_labels) == expected


def test_a_policy_serves_a_scheduler_name_of_its_own():
    policies = build(policy("a", {"schedulerName": "ml", "match": select_pods(x="1")}))
    assert policies.scheduler_names == {"podwright", "ml"}
    assert chosen(policies, pod({"x": "1"}, "ml")) == "a"
    assert chosen(policies, pod({}, "ml")) == BUILT_IN, "a name that is served has the built-in policy as last resort"


def test_answers_follow_the_labels_of_the_namespace():
    policies = build(policy("a", {"match": select_namespaces(t="ml")}))
    one = pod()
    assert chosen(policies, one, {"t": "web"}) == BUILT_IN
    assert chosen(policies, one, {"t": "ml"}) == "a"
    assert chosen(policies, one, {"t": "web"}) == BUILT_IN


def test_pods_with_equal_labels_in_other_namespaces_are_told_apart():
    policies = build(policy("a", {"match": select_namespaces(t="ml")}))
    web, ml = {"t": "web"}, {"t": "ml"}
    for _ in range(2):
        assert chosen(policies, pod({"x": "1"}, namespace="web"), web) == BUILT_IN
        assert chosen(policies, pod({"x": "1"}, namespace="ml"), ml) == "a"


def test_answers_follow_the_policies():
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


def test_cached_answers_do_not_keep_labels_alive():
    policies = build(policy("a", {"match": select_pods(x="1")}))
    pods = [pod({"x": str(i)}) for i in range(100)]
    labels = [weakref.ref(each.labels) for each in pods]
    for each in pods:
        chosen(policies, each)
    del pods, each
    gc.collect()
    assert sum(ref() is not None for ref in labels) < 10


# What is in force


def test_a_good_policy_is_accepted_and_in_force():
    policies = build()
    outcome = policies.apply(policy("a", GOOD, generation=3))
    assert (outcome.accepted, outcome.reason, outcome.generation, outcome.active_generation) == (True, "Accepted", 3, 3)
    assert [(p.name, p.generation, p.spec.strategy.type) for p in policies.active] == [("a", 3, "MostAllocated")]


def test_the_last_good_generation_stays_in_force():
    policies = build(policy("a", GOOD, generation=1))
    before = policies.select(pod(), NO_LABELS)
    outcome = policies.apply(policy("a", BAD, generation=2))
    assert (outcome.accepted, outcome.reason, outcome.active_generation) == (False, "Invalid", 1)
    assert outcome.message == (
        "spec.strategy.type: 'Best' is not one of Default, LeastAllocated, MostAllocated, BalancedAllocation, "
        "RequestedToCapacityRatio, Random, NodeName, Custom. Generation 1 stays in force."
    )
    assert policies.select(pod(), NO_LABELS) is before
    outcome = policies.apply(policy("a", {"precedence": "x"}, generation=3))
    assert outcome.active_generation == 1
    assert policies.apply(policy("a", {"strategy": {"type": "Random"}}, generation=4)).active_generation == 4
    assert policies.select(pod(), NO_LABELS).spec.strategy.type == "Random"


def test_a_policy_that_was_never_good_is_not_in_force():
    policies = build()
    outcome = policies.apply(policy("a", {**BAD, "schedulerName": "ml"}))
    assert (outcome.accepted, outcome.active_generation) == (False, None)
    assert outcome.message.endswith("No generation of this policy is in force.")
    assert policies.active == []
    assert policies.scheduler_names == {"podwright"}


def test_the_last_good_generation_of_a_deleted_policy_does_not_pass_to_its_namesake():
    policies = build(policy("a", GOOD, uid="first"))
    assert policies.apply(policy("a", BAD, uid="second")).active_generation is None
    assert chosen(policies) == BUILT_IN


# After a restart


def remembering(name, spec, kept, generation=2):
    return {**policy(name, spec, generation=generation), "status": {"lastAccepted": kept}}


KEPT = {"generation": 1, "spec": {**GOOD, "schedulerName": "ml"}}


def test_what_the_status_remembers_is_in_force_where_the_newest_generation_is_bad():
    policies = build()
    outcome = policies.apply(remembering("a", BAD, KEPT))
    assert (outcome.accepted, outcome.generation, outcome.active_generation) == (False, 2, 1)
    assert outcome.message.endswith("Generation 1 stays in force.")
    assert [(p.name, p.generation, p.source.uid, p.spec.strategy.type) for p in policies.active] == [
        ("a", 1, "u-a", "MostAllocated")
    ]
    assert chosen(policies, pod(scheduler="ml")) == "a"


def test_a_good_generation_and_one_that_is_known_go_before_what_the_status_remembers():
    policies = build(remembering("a", {}, KEPT))
    assert [p.generation for p in policies.active] == [2]
    assert policies.apply(remembering("a", BAD, KEPT, generation=3)).active_generation == 2
    assert policies.scheduler_names == {"podwright"}


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        pytest.param({"generation": 1, "spec": {"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "Gone"}]}}}}, "spec.plugins.score.enabled[0].name: plugin 'Gone' does not exist", id="a plugin of it is gone"),
        pytest.param({"generation": 1, "spec": {"strategy": {"type": "Worst"}}}, "spec.strategy.type: 'Worst' is not one of", id="a field of it is bad"),
        pytest.param({"generation": 1, "spec": {"strategy": {"type": "Random"}}}, "out of luck", id="it fails the check"),
        pytest.param({"generation": "one", "spec": {}}, "status.lastAccepted.generation: expected a whole number", id="its generation is in words"),
        pytest.param({"generation": 1}, "status.lastAccepted.spec: a value is required", id="it has no spec"),
        pytest.param([1], "status.lastAccepted: expected an object", id="it is a list"),
    ],
)  # fmt: skip
def test_what_the_status_remembers_is_checked_as_any_other_spec(kept, why):
    def check(compiled):
        if compiled.spec.strategy.type == "Random":
            raise PluginError("RandomScore", "constructor", "out of luck")

    policies = build(check=check)
    outcome = policies.apply(remembering("a", BAD, kept))
    assert (outcome.accepted, outcome.reason, outcome.active_generation) == (False, "Invalid", None)
    assert (
        "No generation of this policy is in force; the generation in status.lastAccepted is not acceptable: "
        in outcome.message
    )
    assert why in outcome.message
    assert policies.active == []


def test_what_the_status_remembers_is_not_tried_twice():
    outcome = build().apply(remembering("a", BAD, {"generation": 1, "spec": BAD}))
    assert outcome.message.endswith("No generation of this policy is in force.")


def test_applying_the_same_again_changes_nothing():
    policies = build(policy("a", GOOD))
    version, before = policies.version, policies.select(pod(), NO_LABELS)
    policies.apply(policy("a", GOOD))
    assert policies.version == version
    assert policies.select(pod(), NO_LABELS) is before


def test_a_changed_spec_counts_even_where_objects_have_no_generation():
    policies = build({"metadata": {"name": "a"}, "spec": GOOD})
    policies.apply({"metadata": {"name": "a"}, "spec": {"strategy": {"type": "Random"}}})
    assert policies.select(pod(), NO_LABELS).spec.strategy.type == "Random"


def test_removing_a_policy_that_is_not_known_is_no_error():
    policies = build()
    policies.remove("nope")
    assert policies.version == build().version


def test_one_bad_policy_does_not_harm_the_others():
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
        pytest.param({"metadata": {"name": "x", "generation": "one"}, "spec": {"plugins": [1]}}, id="a generation in words"),
        pytest.param({"metadata": {"name": "x"}, "spec": {"match": {"podSelector": {"matchLabels": {"a": None, 1: 2}}}}}, id="labels that are no strings"),
        pytest.param({"metadata": {"name": "x"}, "spec": {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": [None]}}]}}, id="a null in a list"),
        pytest.param({"metadata": {"name": "x"}, "spec": {"schedulerName": "a" * 1_000_000}}, id="a name of a million letters"),
    ],
)  # fmt: skip
def test_rubbish_is_refused_and_nothing_raised(raw):
    policies = build(policy("a", GOOD))
    outcome = policies.apply(raw)
    assert not outcome.accepted
    assert len(outcome.message) < 1000
    assert chosen(policies) == "a"


def test_a_check_that_fails_refuses_the_policy():
    def check(compiled):
        if compiled.spec.strategy.type == "Random":
            raise PluginError("RandomScore", "constructor", "out of luck")

    policies = build(check=check)
    assert policies.apply(policy("a", GOOD)).accepted
    outcome = policies.apply(policy("a", {"strategy": {"type": "Random"}}, generation=2))
    assert (outcome.reason, outcome.active_generation) == ("Invalid", 1)
    assert "out of luck" in outcome.message


# Status


def conditions(policies, raw, previous=None, now=NOON):
    status = status_of(policies, policies.apply(raw), previous, now)
    return status, {c["type"]: (c["status"], c["reason"], c["lastTransitionTime"]) for c in status["conditions"]}


def test_the_status_of_a_good_policy():
    status, found = conditions(build(), policy("a", GOOD, generation=4))
    assert status["observedGeneration"] == 4
    assert [c["observedGeneration"] for c in status["conditions"]] == [4, 4]
    assert found == {"Accepted": ("True", "Accepted", NOON), "Active": ("True", "InForce", NOON)}


def test_the_status_of_a_policy_that_was_never_good():
    _, found = conditions(build(), policy("a", BAD))
    assert found == {"Accepted": ("False", "Invalid", NOON), "Active": ("False", "NotAccepted", NOON)}


def test_the_status_remembers_the_generation_that_was_accepted_last():
    policies = build()
    first, _ = conditions(policies, policy("a", GOOD))
    assert first["lastAccepted"] == {"generation": 1, "spec": GOOD}
    second, _ = conditions(policies, policy("a", BAD, generation=2), first)
    assert second["lastAccepted"] == {"generation": 1, "spec": GOOD}
    assert "lastAccepted" not in conditions(build(), policy("a", BAD))[0]
    spec = {"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": None}}]}
    assert conditions(policies, policy("a", spec, generation=3), second)[0]["lastAccepted"] == {
        "generation": 3,
        "spec": spec,
    }


def test_a_restart_changes_nothing_in_the_status():
    policies = build(policy("a", GOOD))
    bad = policy("a", BAD, generation=2)
    before, _ = conditions(policies, bad)
    again, found = conditions(build(), {**bad, "status": before}, before, LATER)
    assert again == before
    assert found["Active"] == ("True", "LastGoodGeneration", NOON)


def test_the_status_still_remembers_what_is_not_acceptable_now():
    kept = {"generation": 1, "spec": {"pluginConfig": [{"name": "Gone"}]}}
    status, found = conditions(build(), remembering("a", BAD, kept), {"lastAccepted": kept})
    assert status["lastAccepted"] == kept
    assert found["Active"][:2] == ("False", "NotAccepted")


def test_a_condition_keeps_its_time_while_its_status_stays():
    policies = build()
    first, _ = conditions(policies, policy("a", GOOD))
    assert conditions(policies, policy("a", GOOD), first, LATER)[0] == first, "nothing to write"
    second, found = conditions(policies, policy("a", BAD, generation=2), first, LATER)
    assert found == {"Accepted": ("False", "Invalid", LATER), "Active": ("True", "LastGoodGeneration", NOON)}
    assert "Generation 1 is in force" in second["conditions"][1]["message"]


def test_a_policy_that_another_one_covers_is_shadowed():
    policies = build(policy("all", {"precedence": 5}))
    _, found = conditions(policies, policy("some", {"match": select_pods(x="1")}))
    assert found["Active"] == ("False", "Shadowed", NOON)
    assert found["Accepted"][0] == "True"
    policies.remove("all")
    assert conditions(policies, policy("some", {"match": select_pods(x="1")}))[1]["Active"][:2] == ("True", "InForce")


def test_a_policy_for_another_scheduler_name_shadows_nothing():
    policies = build(policy("all", {"precedence": 5, "schedulerName": "other"}))
    assert conditions(policies, policy("some", {}))[1]["Active"][:2] == ("True", "InForce")


@pytest.mark.parametrize(
    "previous",
    [
        pytest.param({"conditions": "x"}, id="conditions that are a string"),
        pytest.param({"conditions": [1, {"type": "Accepted"}]}, id="conditions without times"),
    ],
)
def test_a_status_that_somebody_broke_is_written_anew(previous):
    assert conditions(build(), policy("a", GOOD), previous)[1]["Accepted"] == ("True", "Accepted", NOON)
