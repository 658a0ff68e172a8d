"""Pod groups of Volcano: who belongs to them, how many members they need, and which queue they name."""

from __future__ import annotations

import pytest

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import (
    GROUP_ANNOTATIONS,
    GROUP_LABEL,
    KAI_API,
    KAI_KIND,
    PLUGINS_API,
    VOLCANO_API,
    VOLCANO_KIND,
    group_key,
    parse_pod_group,
)
from podwright.core.queues.queues import QUEUE_LABEL
from support.objects.builders import in_group, make_pod
from support.queues.reclaims import QueuedCluster, queue

KEY = group_key(VOLCANO_API, "default", "job")
ANNOTATIONS = [key for key, api in GROUP_ANNOTATIONS.items() if api == VOLCANO_API]


def group(**spec):
    return {"metadata": {"name": "job", "namespace": "default", "uid": "job"}, "spec": spec}


def member(name="p", annotation=ANNOTATIONS[0], value="job", **options):
    raw = make_pod(name, **options)
    raw["metadata"]["annotations"] = {annotation: value}
    return parse_pod(raw, keep_raw=True)


@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_a_pod_names_its_group_in_an_annotation(annotation):
    assert member(annotation=annotation).group == KEY


def test_the_spec_and_the_label_go_first():
    assert member(labels={GROUP_LABEL: "other"}).group == group_key(PLUGINS_API, "default", "other")
    assert member(spec=in_group("other")).group.startswith("scheduling.k8s.io:")


@pytest.mark.parametrize("value", [7, "", ["job"], "x" * 254])
def test_an_annotation_that_is_no_name_names_no_group(value):
    assert member(value=value).group == ""


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, 1, id="nothing"),
        pytest.param({"minMember": 0}, 1, id="zero"),
        pytest.param({"minMember": 3}, 3, id="members"),
        pytest.param({"minTaskMember": {"head": 1, "worker": 4}}, 5, id="tasks alone"),
        pytest.param(
            {"minMember": 3, "minTaskMember": {"head": 1, "worker": 4}}, 3, id="tasks need more: they do not count"
        ),
        pytest.param({"minMember": 8, "minTaskMember": {"head": 1, "none": 0}}, 8, id="members need more"),
    ],
)
def test_the_minimum(spec, expected):
    found = parse_pod_group(VOLCANO_KIND, group(**spec))
    assert (found.min_count, found.gang, found.queue) == (expected, True, "default")


def test_minimal_resources_are_read_for_policies_that_require_them():
    assert parse_pod_group(VOLCANO_KIND, group(minResources={"cpu": "64"})).min_resources == {"cpu": 64_000}


def test_of_the_names_of_a_quota_only_those_of_resources_count():
    counted = {"cpu": "2", "memory": "1Ki", "ephemeral-storage": "1", "pods": "2", "nvidia.com/gpu": "8"}
    of_quotas = ("count/pods", "requests.cpu", "requests.nvidia.com/gpu", "limits.cpu", "requests.storage")
    found = parse_pod_group(VOLCANO_KIND, group(minResources={**counted, **dict.fromkeys(of_quotas, "x")}))
    expected = {"cpu": 2000, "memory": 1024, "ephemeral-storage": 1, "pods": 2, "nvidia.com/gpu": 8}
    assert (found.min_resources, found.resources_problem) == (expected, "")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"cpu": "x"}, "spec.minResources[cpu]: "),
        ({"cpu": "1", "memory": "-1"}, "spec.minResources[memory]: '-1' is negative"),
        ([], "spec.minResources: expected an object"),
    ],
)
def test_minimal_resources_that_cannot_be_read_leave_the_group_valid(given, problem):
    found = parse_pod_group(VOLCANO_KIND, group(minMember=3, minResources=given))
    assert (found.min_count, found.min_resources) == (3, {})
    assert found.resources_problem.startswith(problem)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": -1}, "spec.minMember"),
        ({"minTaskMember": []}, "spec.minTaskMember"),
        ({"minTaskMember": {"a": -2}}, "spec.minTaskMember.a"),
        ({"queue": 7}, "spec.queue"),
    ],
)
def test_what_is_wrong_is_named(spec, field):
    with pytest.raises(InvalidObjectError) as caught:
        parse_pod_group(VOLCANO_KIND, group(**spec))
    assert field in str(caught.value)


def test_a_pod_names_its_group_of_kai_in_an_annotation():
    assert member(annotation="pod-group-name").group == group_key(KAI_API, "default", "job")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, (True, 1, ""), id="nothing"),
        pytest.param({"minMember": None, "queue": "team"}, (True, 1, "team"), id="null"),
        pytest.param({"minMember": 0}, (False, 1, ""), id="zero asks for no gang"),
        pytest.param({"minMember": 5}, (True, 5, ""), id="members"),
    ],
)
def test_a_group_of_kai(spec, expected):
    found = parse_pod_group(KAI_KIND, group(**spec))
    assert (found.gang, found.min_count, found.queue) == expected


class TestQueues:
    def cluster(self, *queues):
        cluster = QueuedCluster([4], [queue(name) for name in queues])
        self.pods = []
        cluster.queues.pending = lambda: self.pods
        return cluster

    def put(self, cluster, **spec):
        cluster.cache.set_object(VOLCANO_KIND, group(**spec))

    def waits(self, cluster, **options):
        pod = member(**options)
        self.pods.append(pod)
        cluster.cache.groups.add_waiting(pod)
        return pod

    def test_the_group_names_the_queue_of_its_members(self):
        cluster = self.cluster("red")
        self.put(cluster, queue="red")
        pod = self.waits(cluster)
        assert (cluster.queues.queue_of(pod), cluster.queues.source_of(pod)) == ("red", "group")
        labelled = self.waits(cluster, name="q", labels={QUEUE_LABEL: "blue"})
        assert cluster.queues.queue_of(labelled) == "blue", "the pod's own label goes first"
        assert cluster.queues.contradiction(labelled) == (
            f"spec.queue of pod group default/job names queue red, but metadata.labels[{QUEUE_LABEL}] names queue blue, which counts"
        )
        assert cluster.queues.contradiction(pod) == ""

    def test_members_move_when_the_group_comes_later_or_names_another_queue(self):
        cluster = self.cluster("red", "blue")
        pod = self.waits(cluster)
        assert cluster.queues.queue_of(pod) == ""
        self.put(cluster, queue="red")
        assert [each.name for each in cluster.queues.waiting_pods("red")] == ["p"]
        self.put(cluster, queue="blue")
        assert cluster.queues.queue_of(pod) == "blue"
        cluster.cache.remove_object(VOLCANO_KIND, "job", "default")
        assert cluster.queues.queue_of(pod) == ""

    def test_the_default_queue_counts_only_if_it_exists(self):
        cluster = self.cluster("red")
        self.put(cluster)
        pod = self.waits(cluster)
        assert cluster.queues.queue_of(pod) == ""
        cluster.queues.set(queue("default"))
        assert cluster.queues.queue_of(pod) == "default"
        cluster.queues.remove("default")
        assert cluster.queues.queue_of(pod) == ""

    def test_a_queue_that_does_not_exist_keeps_its_pods_waiting(self):
        cluster = self.cluster("red")
        self.put(cluster, queue="missing")
        bound = cluster.queues.bounds.of(self.waits(cluster))
        assert bound.message == "queue missing does not exist (named by spec.queue of pod group default/job)"
