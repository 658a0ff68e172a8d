"""The pods of a Workload: what Kueue and the API server make of its templates."""

from __future__ import annotations

import pytest

from podwright.core.objects.closeness import Closeness
from podwright.core.objects.errors import InvalidObjectError
from podwright.kueue.pod_sets import PLACE_LABEL, counts_of, flavors_of, pod_sets_of
from support.kueue.stand_in import pod_set, template
from support.kueue.workloads import workload

FLAVORS = {
    "spot": {"spec": {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}},
    "plain": {},
}


def only(found):
    (one,) = found
    return one


def test_a_pod_has_what_kueue_adds_to_its_template():
    update = {
        "name": "main",
        "labels": {"zone-of": "check"},
        "annotations": {"podwright.dev/policy": "packed"},
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "new", "operator": "Exists"}],
    }
    checks = [{"name": "other", "state": "Ready", "podSetUpdates": [update]}]
    it = workload(pod_set(), assignments={"main": {"flavors": {"cpu": "spot", "memory": "spot"}}}, checks=checks)
    assert flavors_of(it) == {"spot"}
    made = only(only(pod_sets_of(it, FLAVORS)).pods)
    assert (made.key, made.uid, made.namespace, made.scheduler_name) == (
        *("team/train-main-0", "u/main/0", "team", "podwright"),
    )
    assert dict(made.labels) == {
        "zone-of": "check",
        "kueue.x-k8s.io/podset": "main",
        "kueue.x-k8s.io/local-queue-name": "local",
        "kueue.x-k8s.io/cluster-queue-name": "queue",
        PLACE_LABEL: "u-0",
    }
    assert made.policy == "packed"
    assert made.raw["spec"]["nodeSelector"] == {"pool": "spot", "zone": "a"}
    assert [each["key"] for each in made.raw["spec"]["tolerations"]] == ["spot", "new"]


def test_each_pod_has_a_name_and_uid_of_its_own_and_the_assigned_count_counts():
    it = workload(pod_set("a", 5), pod_set("b", 0), pod_set("c", 1), assignments={"a": {"count": 2}})
    assert counts_of(it) == {"a": 2, "b": 0, "c": 1}
    found = pod_sets_of(it, {})
    assert [[pod.name for pod in each.pods] for each in found] == [["train-a-0", "train-a-1"], [], ["train-c-0"]]
    assert len({pod.uid for each in found for pod in each.pods}) == 3
    assert [each.place for each in found] == ["u-0", "u-1", "u-2"]


def test_pods_of_an_assigned_topology_have_the_labels_of_their_domains():
    assignment = {
        "levels": ["block", "rack"],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [
                    {"universal": "b1"},
                    {"individual": {"prefix": "r", "roots": ["1", "2"], "suffix": "x"}},
                ],
                "podCounts": {"individual": [2, 1]},
            },
            {
                "domainCount": 1,
                "valuesPerLevel": [{"universal": "b2"}, {"individual": {"roots": ["r9"]}}],
                "podCounts": {"universal": 1},
            },
        ],
    }
    assigned = {"main": {"topologyAssignment": assignment, "count": 5}}
    it = workload(pod_set(count=5, request={"required": "block"}), assignments=assigned)
    found = only(pod_sets_of(it, {}))
    selectors = [pod.raw["spec"]["nodeSelector"] for pod in found.pods]
    first, second, third = ({"block": b, "rack": r} for b, r in (("b1", "r1x"), ("b1", "r2x"), ("b2", "r9")))
    assert selectors == [first, first, second, third, {}]
    assert not found.near


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param({"required": "rack"}, (("rack",), ""), id="required"),
        pytest.param({"preferred": "rack"}, ((), "rack"), id="preferred"),
        pytest.param({"unconstrained": True}, ((), ""), id="unconstrained"),
    ],
)
def test_a_topology_request_without_an_assignment_is_for_the_planner(request_, expected):
    found = only(pod_sets_of(workload(pod_set(request=request_)), {}))
    assert (found.near.required, found.near.preferred) == expected


def test_slices_of_a_topology_request_are_for_the_planner():
    request = {
        "required": "zone",
        "podSetSliceRequiredTopology": "rack",
        "podSetSliceSize": 4,
        "podIndexLabel": "number",
    }
    found = only(pod_sets_of(workload(pod_set(request=request)), {}))
    assert found.near == Closeness(("zone",), "", "", "rack", 4, "number")
    with pytest.raises(InvalidObjectError, match="podSetSliceSize"):
        pod_sets_of(workload(pod_set(request={**request, "podSetSliceSize": 0})), {})


def test_limits_are_requests_where_there_are_none():
    made = pod_set()
    made["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "1"},
    }
    amounts = only(only(pod_sets_of(workload(made), {})).pods).requests.amounts
    assert (amounts["cpu"], amounts["memory"]) == (1000, 1 << 30)


def test_a_priority_class_of_pods_gives_the_pods_their_priority():
    of_pods = {"priority": 7, "priorityClassRef": {"kind": "PriorityClass", "group": "scheduling.k8s.io", "name": "p"}}
    of_kueue = {**of_pods, "priorityClassRef": {"kind": "WorkloadPriorityClass"}}
    assert [only(only(pod_sets_of(workload(pod_set(), **s), {})).pods).priority for s in (of_pods, of_kueue)] == [7, 0]


def test_what_is_made_with_the_pods_is_left_out_and_said():
    claims = {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "s", "resourceClaimName": "c"}]
    }
    found = only(pod_sets_of(workload(pod_set(**claims)), {}))
    assert found.partly
    assert [each.claim for each in found.pods[0].resource_claims] == ["c"]
    assert not only(pod_sets_of(workload(pod_set()), {})).partly


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param({"containers": []}, "at least one container", id="no containers"),
        pytest.param({"containers": "no"}, "containers", id="containers that are no list"),
        pytest.param({"nodeSelector": {"a": 1}}, "nodeSelector", id="a label that is a number"),
        pytest.param({"tolerations": {}}, "tolerations", id="tolerations that are no list"),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]}, "cpu", id="no quantity"
        ),
    ],
)
def test_a_template_that_cannot_be_read_is_named_with_the_field(spec, text):
    with pytest.raises(InvalidObjectError, match=f'pod set "main".*{text}'):
        pod_sets_of(workload({"name": "main", "count": 1, "template": {"spec": {**template()["spec"], **spec}}}), {})
