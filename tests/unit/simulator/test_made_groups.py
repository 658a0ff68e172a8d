"""Groups by rule offline: a snapshot has what groupings read, and simulations form the gangs of the operator."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podwright.cli.reports.pod import report
from podwright.core.framework.features import Features
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.evaluations.dump import evaluate_pod
from podwright.simulator.explain.targets import TargetError, explain_target, parse_target
from podwright.simulator.hypotheses.hypothesis import AddedNodes, Hypothesis, Scale
from podwright.simulator.loaded import LoadedCluster, LoadOptions, load
from podwright.simulator.redaction import Named, redacted
from podwright.simulator.replay.run import BUILT_IN, ReplayCandidate, replay
from podwright.simulator.replay.stream import Arrival, ReplayStream
from podwright.simulator.simulation import simulate
from podwright.simulator.snapshot import Snapshot
from support.groupings.workloads import grouping, owner, reference
from support.objects.builders import make_pod
from support.simulator.kit import copy_of, item, loaded, node

RAY = {"api_version": "ray.io/v1", "kind": "RayCluster"}
CLUSTERS = grouping("clusters", **RAY, minCount="1 + owner.spec.workerGroupSpecs.map(each, int(each.replicas)).sum()")
LLM = owner("llm", **RAY, spec={"workerGroupSpecs": [{"groupName": "gpu", "replicas": 2}]})
CLUSTER_OF_JOBS = grouping("jobs", minCount="owner.spec.parallelism")


def member(name: str, controller: Any = LLM, on: str = "", cpu: str = "2", **more: Any) -> dict[str, Any]:
    metadata = {"ownerReferences": [reference(controller)], "uid": name, **more.pop("metadata", {})}
    spec = {"schedulerName": "podwright", **more.pop("spec", {})}
    return item("Pod", make_pod(name, node=on, requests={"cpu": cpu}, metadata=metadata, spec=spec, **more))


PODS = [member("head"), member("w-0"), member("w-1")]


def explained(cluster: LoadedCluster, snapshot: list[Any], text: str):
    return explain_target(cluster, Snapshot(objects=snapshot), parse_target(text, "default"))


def landed(result) -> list[str]:
    return sorted(each.pod.partition("/")[2] for each in result.landed)


@pytest.mark.parametrize(("nodes", "starts"), [(1, []), (2, ["head", "w-0", "w-1"])], ids=["too little room", "room"])
def test_a_simulation_starts_all_pods_of_a_workload_or_none(nodes, starts):
    cluster = loaded(*(node(f"n{index}") for index in range(nodes)), CLUSTERS, LLM, *PODS)
    before = copy_of(cluster)
    assert landed(simulate(cluster, Hypothesis())) == starts
    assert copy_of(cluster) == before


def test_of_each_part_of_a_workload_a_simulation_starts_its_minimum_or_nothing():
    """One part misses a pod."""
    parts = {"key": "pod.labels['part']", "minCount": "int(pod.labels['size'])"}
    sliced = grouping("clusters", **RAY, minCount="2", subGroup=parts)
    sizes = {"a0": 2, "b0": 2, "b1": 2, "c0": 1}
    pods = [member(name, metadata={"labels": {"part": name[0], "size": str(size)}}) for name, size in sizes.items()]
    assert landed(simulate(loaded(node("n0"), sliced, LLM, *pods[:3]), Hypothesis())) == ["b0", "b1"]
    cluster = loaded(node("n0", cpu="8"), sliced, LLM, *pods)
    assert landed(simulate(cluster, Hypothesis())) == ["b0", "b1", "c0"]


def test_a_simulation_of_a_gang_in_a_cluster_without_nodes_ends():
    result = simulate(loaded(CLUSTERS, LLM, *PODS), Hypothesis())
    assert len(result.pending) == 3
    assert "no nodes available to schedule pods" in {each.message for each in result.pending}
    assert result.gangs == ["RayCluster default/llm: 0 of 3 pods that start together have a node, 3 exist"]


def test_pods_that_have_succeeded_and_that_run_count_as_in_the_operator():
    done = member("head", status={"phase": "Succeeded"}, on="n0")
    cluster = loaded(node("n0"), CLUSTERS, LLM, done, member("w-0", on="n0"), member("w-1"))
    (group,) = cluster.cache.groups.all()
    assert (group.label, group.min_count) == ("RayCluster default/llm", 2)
    assert landed(simulate(cluster, Hypothesis())) == ["w-1"]


def test_pods_of_volcano_that_have_succeeded_count_as_in_the_operator():
    api = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    group = {**api, "metadata": {"name": "gang", "namespace": "default"}, "spec": {"minMember": 3}}
    named = {"annotations": {"scheduling.k8s.io/group-name": "gang"}}
    pods = [
        {"kind": "Pod", **make_pod(name, requests={"cpu": "1"}, metadata=named, node=at, status={"phase": phase})}
        for name, at, phase in (("done", "n0", "Succeeded"), ("runs", "n0", "Running"), ("again", "", "Pending"))
    ]
    assert landed(simulate(loaded(node("n0"), group, *pods), Hypothesis())) == ["again"]
    assert landed(simulate(loaded(node("n0"), group, *pods[1:]), Hypothesis())) == []


def test_a_pod_whose_owner_is_not_in_the_snapshot_waits_and_says_why():
    objects = [node("n0"), CLUSTERS, member("head")]
    cluster = load(Snapshot(objects=objects, missing={"RayCluster": "RBAC does not let you list it"}))
    found = explained(cluster, objects, "pod/head")
    assert found.cause.reason == "OwnerUnknown"
    assert "RayCluster default/llm cannot be read: RBAC does not let you list it" in found.cause.text
    assert not simulate(cluster, Hypothesis()).landed


def test_a_pod_that_owns_others_may_come_after_them():
    driver = item("Pod", make_pod("driver", labels={"role": "driver"}, node="n0"))
    spark = grouping(
        "spark", api_version="v1", kind="Pod", minCount="2", owner={"selector": {"matchLabels": {"role": "driver"}}}
    )
    executors = [member(f"e-{index}", {**driver, "apiVersion": "v1"}) for index in range(2)]
    cluster = loaded(node("n0", cpu="4"), spark, *executors, driver)
    assert [(group.label, group.min_count) for group in cluster.cache.groups.all()] == [("Pod default/driver", 2)]


def test_an_invalid_grouping_is_a_problem_and_its_last_valid_generation_counts():
    bad = {**CLUSTERS, "spec": {**CLUSTERS["spec"], "minCount": "1 +"}}
    bad["status"] = {"lastAccepted": {"generation": 1, "spec": CLUSTERS["spec"]}}
    cluster = loaded(bad, LLM, *PODS)
    assert any("WorkloadGrouping clusters" in problem for problem in cluster.problems)
    assert [group.min_count for group in cluster.cache.groups.all()] == [3]


def test_an_explanation_names_the_workload_and_what_its_gang_lacks():
    objects = [node("n0"), CLUSTERS, LLM, *PODS]
    cluster = loaded(*objects)
    found = explained(cluster, objects, "raycluster/llm")
    assert (found.kind, found.pods, found.waiting) == ("RayCluster", 3, 3)
    assert "its group RayCluster default/llm needs room for 3 members at once, and only 2 fit" in found.causes[0].text
    few = loaded(*objects[:-1])
    text = explained(few, objects[:-1], "pod/head").cause.text
    assert "its group RayCluster default/llm has 2 of 3 members" in text
    with pytest.raises(TargetError, match=r"'service' cannot be explained.*RayCluster"):
        explained(cluster, objects, "service/llm")


def test_a_pod_group_is_named_with_the_workload_whose_operator_wrote_it():
    written = item(
        "PodGroup",
        {
            "metadata": {"name": "ray-llm-pg", "namespace": "default", "ownerReferences": [reference(LLM)]},
            "spec": {"minMember": 3},
        },
        "scheduling.volcano.sh/v1beta1",
    )
    named = {"annotations": {"scheduling.k8s.io/group-name": "ray-llm-pg"}}
    objects = [node("n0"), written, *(member(name, metadata=named) for name in ("head", "w-0", "w-1"))]
    text = explained(loaded(*objects), objects, "pod/head").cause.text
    assert "its group default/ray-llm-pg of RayCluster default/llm needs room for 3 members" in text


def test_pods_that_a_hypothesis_adds_are_gangs_by_their_owners_as_they_are_added():
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "fit"},
        "spec": {"parallelism": 3, "template": {"spec": PODS[0]["spec"]}},
    }
    cluster = loaded(node("n0"), CLUSTER_OF_JOBS)
    before = copy_of(cluster)
    result = simulate(cluster, Hypothesis(pods=[job]))
    assert (result.landed, len(result.pending)) == ([], 3)
    assert len(simulate(cluster, Hypothesis(pods=[job], add_nodes=[AddedNodes(1, "n0")])).landed) == 3
    assert copy_of(cluster) == before


@pytest.mark.parametrize(
    ("mode", "replicas", "nodes", "starts", "gangs"),
    [
        ("NonIndexed", 4, 2, [], ["Job default/fit: 2 of 4 pods that start together have a node, 4 exist"]),
        ("NonIndexed", 4, 3, ["fit-added-1", "fit-added-2"], []),
        ("NonIndexed", 1, 1, [], []),
        ("Indexed", 4, 2, [], ["Job default/fit: 2 of 4 pods that start together have a node, 4 exist"]),
    ],
    ids=["too little room for the new minimum", "room", "fewer", "an indexed Job"],
)
def test_a_workload_that_is_scaled_is_a_gang_of_its_new_size(mode, replicas, nodes, starts, gangs):
    spec = {"parallelism": 2, "completions": 2, "completionMode": mode, "template": {"spec": PODS[0]["spec"]}}
    job = owner("fit", spec=spec)
    least = "owner.spec.completionMode != 'Indexed' || owner.spec.completions == owner.spec.parallelism"
    cluster = loaded(
        *(node(f"n{index}", cpu="3") for index in range(nodes)),
        grouping("jobs", minCount=f"{least} ? owner.spec.parallelism : 1"),
        job,
        *(member(f"fit-{index}", job, on="n0", cpu="1") for index in range(2)),
    )
    before = copy_of(cluster)
    result = simulate(cluster, Hypothesis(scale=[Scale("job", "fit", replicas)]))
    assert (landed(result), result.gangs) == (starts, gangs)
    assert copy_of(cluster) == before


def test_a_replay_forms_the_same_gangs():
    events = [Arrival(10.0 * number, parse_pod(raw, keep_raw=True), 100) for number, raw in enumerate(PODS)]
    stream = ReplayStream(initial=[node("n0"), node("n1"), CLUSTERS, LLM], events=events, start=0.0, end=200.0)
    (card,) = replay(stream, [ReplayCandidate(BUILT_IN)])
    assert (card.placed, card.waiting.longest) == (3, 20), "the first one waits for the last one"
    assert "gangs" not in card.as_dict()


def test_a_replay_names_the_workloads_that_wait_at_its_end():
    events = [Arrival(10.0 * number, parse_pod(raw, keep_raw=True), 100) for number, raw in enumerate(PODS)]
    stream = ReplayStream(initial=[node("n0"), CLUSTERS, LLM], events=events, start=0.0, end=50.0)
    (card,) = replay(stream, [ReplayCandidate(BUILT_IN)])
    assert card.gangs == ["RayCluster default/llm: 0 of 3 pods that start together have a node, 3 exist"]


def test_an_evaluation_says_to_which_workload_the_pod_belongs_and_what_it_waits_for():
    options = LoadOptions(Features(), PLUGINS)
    dump = Snapshot(objects=[node("n0"), CLUSTERS, LLM, *PODS[1:]])
    answer = evaluate_pod(dump, PODS[0], options)
    assert answer["podGroup"] == "RayCluster default/llm"
    assert "gated" not in answer
    fewer = evaluate_pod(Snapshot(objects=dump.objects[:-1]), PODS[0], options)
    assert fewer["gated"]["plugin"] == "GangScheduling"


def test_an_evaluation_names_the_workload_of_a_group_that_its_operator_wrote():
    api = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    metadata = {"name": "gang", "namespace": "default", "ownerReferences": [reference(LLM)]}
    group = {**api, "metadata": metadata, "spec": {"minMember": 1}}
    pod = item("Pod", make_pod("w-0", metadata={"annotations": {"scheduling.k8s.io/group-name": "gang"}}))
    answer = evaluate_pod(Snapshot(objects=[node("n0"), group]), pod, LoadOptions(Features(), PLUGINS))
    assert (answer["podGroup"], answer["workload"]) == ("default/gang", "RayCluster default/llm")
    (text,) = (line for line in report(answer, None, None) if "PodGroup" in line)
    assert "belongs to the PodGroup default/gang of RayCluster default/llm, whose pods" in text
    unknown = evaluate_pod(Snapshot(objects=[node("n0")]), pod, LoadOptions(Features(), PLUGINS))
    assert (unknown["podGroup"], "workload" in unknown) == ("default/gang", False)


# Snapshots

SECRET = "hunter2"


def test_of_an_owner_a_snapshot_keeps_what_expressions_name_and_no_secret():
    named = Named.by(
        [
            "owner.spec.startupPolicy == 'InOrder' ? int(owner.spec.workers[0].env.filter(e, e.name == 'COUNT')[0].value) : 1"
        ]
    )
    container = {
        "name": "c",
        "command": [SECRET],
        "env": [{"name": "COUNT", "value": "3"}, {"name": "TOKEN", "value": SECRET}],
        "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": SECRET}]}},
    }
    spec = {
        "startupPolicy": "InOrder",
        "entrypoint": SECRET,
        "arguments": [SECRET],
        "sparkConf": {"fs.s3a.access.key": SECRET},
        "secretRef": {"value": SECRET},
        "workers": [{"replicas": 2, "template": {"spec": {"containers": [container]}}}],
    }
    raw = {**owner("x", **RAY, spec=spec), "status": {"message": SECRET}}
    kept = redacted("RayCluster", raw, named=named)
    assert SECRET not in json.dumps(kept)
    assert kept["spec"]["startupPolicy"] == "InOrder"
    (worker,) = kept["spec"]["workers"]
    assert worker["replicas"] == 2
    assert worker["template"]["spec"]["containers"][0]["env"] == [{"name": "COUNT", "value": "3"}]


def test_an_owner_that_is_kept_for_its_template_too_has_both():
    raw = owner(
        spec={"parallelism": 3, "completionMode": "Indexed", "template": {"spec": {"containers": [{"name": "c"}]}}}
    )
    kept = redacted("Job", raw, named=Named.by(["owner.spec.completionMode == 'Indexed' ? owner.spec.parallelism : 1"]))
    assert kept["spec"]["completionMode"] == "Indexed"
    assert kept["spec"]["template"]["spec"] == {"containers": [{"name": "c"}]}


def test_a_grouping_is_kept_whole():
    assert redacted("WorkloadGrouping", CLUSTERS)["spec"] == CLUSTERS["spec"]
