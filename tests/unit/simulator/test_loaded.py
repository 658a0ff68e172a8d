"""A snapshot is read as the operator reads a cluster."""

import pytest

from podwright.api.permissions import PolicySettings
from podwright.core.framework.features import Features
from podwright.core.objects.pod import parse_pod
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.explain.results import PodState
from podwright.simulator.loaded import LoadOptions, load
from podwright.simulator.simulation import notes
from podwright.simulator.snapshot import Snapshot
from support.objects.builders import make_hyper_node, make_node, make_pod, make_pod_group, make_policy


def item(kind, raw, version="v1"):
    return {"apiVersion": version, "kind": kind, **raw}


def loaded(*objects, **options):
    return load(Snapshot(objects=objects, taken_at=1_700_000_000.0), LoadOptions(**options))


def test_nodes_assigned_and_pending_pods_are_known():
    cluster = loaded(
        item("Pod", make_pod("young", metadata={"creationTimestamp": "2026-01-02T00:00:00Z"})),
        item("Pod", make_pod("old", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})),
        item("Pod", make_pod("on", node="a", requests={"cpu": "1"})),
        item("Pod", make_pod("over", node="a", status={"phase": "Succeeded"})),
        item("Pod", make_pod("failed", status={"phase": "Failed"})),
        item("Node", make_node("a")),
    )
    assert [pod.name for pod in cluster.pending.values()] == ["old", "young"]
    assert [pod.name for pod in cluster.cache.nodes["a"].pods.values()] == ["on"]
    assert cluster.cache.table.requested("cpu")[cluster.cache.nodes["a"].slot] == 1000
    assert cluster.problems == []
    assert cluster.world.now() == 1_700_000_000.0


def test_a_bad_object_harms_no_other_and_is_named_with_its_field():
    cluster = loaded(
        item("Node", make_node("a", allocatable={"example.com/gpu": "many"})),
        item("Node", {"metadata": {}}),
        item("Pod", make_pod("waits", requests={"cpu": "1x"})),
        item("Pod", make_pod("runs", node="a", requests={"cpu": "1", "memory": "lots"})),
        item("Pod", make_pod("fine")),
        item("Service", {"metadata": {"namespace": "default"}}),
        item("Namespace", {"metadata": 3}),
    )
    problems = "\n".join(cluster.problems)
    assert "Node a: status.allocatable" in problems
    assert "Pod default/waits: spec.containers[0].resources.requests" in problems
    assert "Pod default/runs: spec.containers[0].resources.requests" in problems
    assert "Service default/?: metadata.name: a name is required" in problems
    assert "Namespace ?: metadata.name: a name is required" in problems
    assert [pod.name for pod in cluster.pending.values()] == ["fine"]
    assert cluster.cache.table.requested("cpu")[cluster.cache.nodes["a"].slot] == 1000


def test_kinds_that_do_not_matter_are_counted():
    cluster = loaded(item("ConfigMap", {"metadata": {"name": "c"}}), item("Widget", {}), item("Widget", {}))
    assert cluster.ignored == {"ConfigMap": 1, "Widget": 2}


def test_policies_decide_as_in_the_operator():
    cluster = loaded(
        make_policy("good", precedence=5, strategy={"type": "MostAllocated"}),
        make_policy("bad", precedence=9, strategy={"type": "Unheard"}),
        item("Pod", make_pod("ours", spec={"schedulerName": "podwright"})),
        item("Pod", make_pod("foreign", spec={"schedulerName": "another"})),
    )
    ours, foreign = sorted(cluster.pending.values(), key=lambda pod: pod.name, reverse=True)
    assert cluster.policy_for(ours).compiled.name == "bad"
    assert "bad" in cluster.policy_for(ours).refusal
    assert cluster.policy_for(foreign) is cluster.policies.default
    (refused,) = cluster.refused
    assert "spec.strategy.type" in refused.message
    assert set(cluster.policy_objects) == {"good", "bad"}


def test_settings_are_those_of_the_operator():
    cluster = loaded(
        item("Pod", make_pod("p", spec={"schedulerName": "mine"})), settings=PolicySettings(scheduler_name="mine")
    )
    (pod,) = cluster.pending.values()
    assert cluster.policies.of(pod) is cluster.policies.default


@pytest.mark.parametrize("on", [True, False], ids=["with the feature gate", "without it"])
def test_groups_of_the_workload_api_count_with_the_feature_gate(on):
    group = item("PodGroup", make_pod_group("gang", 2), "scheduling.k8s.io/v1beta1")
    member = item("Pod", make_pod("m", spec={"schedulingGroup": {"podGroupName": "gang"}}))
    cluster = loaded(group, member, features=Features({"GenericWorkload": on}))
    (pod,) = cluster.pending.values()
    assert cluster.cache.groups.is_member(pod) is on
    assert len(cluster.cache.groups.members(pod.group).waiting) == 1


def test_an_invalid_group_is_a_problem():
    group = item("PodGroup", {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": "two"}}, "scheduling.x-k8s.io/v1alpha1")  # fmt: skip
    assert loaded(group).problems[0].startswith("PodGroup default/g: spec.minMember")


ACCEPTED = {"type": "Accepted", "status": "True", "observedGeneration": 3}


@pytest.mark.parametrize(
    ("conditions", "accepted"),
    [
        pytest.param([ACCEPTED], True, id="this generation is accepted"),
        pytest.param([{**ACCEPTED, "observedGeneration": 2}], False, id="an older one is"),
        pytest.param([{**ACCEPTED, "status": "False"}], False, id="it is not"),
        pytest.param([None, 1, {}], False, id="no conditions"),
        pytest.param(None, False, id="no list"),
    ],
)
def test_a_policy_that_only_the_operator_can_use_is_not_called_invalid(conditions, accepted):
    """As without --plugin-dir. The pod waits for something else, which is not known here."""
    raw = make_policy("ours", strategy={"type": "Custom"}, plugins={"filter": {"enabled": [{"name": "Ours"}]}})
    raw = {**raw, "metadata": {**raw["metadata"], "generation": 3}, "status": {"conditions": conditions}}
    waiting = make_pod("web", spec={"schedulerName": "podwright"})
    cluster = loaded(item("Node", make_node("a")), raw, item("Pod", waiting))
    (note,) = cluster.refused
    assert (
        note.message.startswith("the operator has accepted it, so options of the operator are missing here") == accepted
    )
    found = explain_pod(cluster, parse_pod(waiting, keep_raw=True), raw=waiting)
    assert (found.state, found.cause.reason) == (
        (PodState.PENDING, "PolicyUnusable") if accepted else (PodState.WAITS_FOR_POLICY, "PolicyNotAccepted")
    )
    assert "plugin 'Ours' does not exist" in found.cause.text
    assert ("No generation of this policy is in force" in found.cause.text) != accepted
    (note,) = notes(cluster)
    assert note.startswith(
        "policy ours, generation 3, cannot be used: " if accepted else "policy ours, generation 3, is not accepted: "
    )
    assert found.changes == ()


def test_hyper_nodes_are_read():
    cluster = loaded(
        item("Node", make_node("a")),
        make_hyper_node("s0", 1, {"exactMatch": {"name": "a"}}),
        make_hyper_node("s1", 1, {"regexMatch": {"pattern": "(a"}}),
    )
    assert [level.tolist() for level in cluster.cache.topologies.hyper_nodes.levels()] == [[0]]
    (problem,) = cluster.problems
    assert problem.startswith("HyperNode s1: spec.members[0].selector.regexMatch.pattern: ")
