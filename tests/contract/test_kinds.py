"""Kinds with special behaviour (Events, Leases, Nodes, access reviews), and discovery."""

import pytest

from .conftest import MERGE


async def test_an_event_is_served_in_both_api_groups(api):
    about = {"kind": "Pod", "namespace": api.namespace, "name": "p", "uid": "u-1"}
    event = {
        "metadata": {"name": "p.1"},
        "eventTime": "2026-01-02T03:04:05.678901Z",
        "regarding": about,
        "reason": "Scheduled",
        "action": "Binding",
        "note": "assigned",
        "type": "Normal",
        "reportingController": "podwright",
        "reportingInstance": "podwright-1",
    }
    created = await api.ok("POST", "~events.k8s.io/v1:events", event)
    assert (created["apiVersion"], created["note"]) == ("events.k8s.io/v1", "assigned")
    core = await api.ok("GET", "~events/p.1")
    assert core["apiVersion"] == "v1"
    assert (core["involvedObject"], core["message"], core["reportingComponent"]) == (about, "assigned", "podwright")
    assert "regarding" not in core
    listed = await api.ok("GET", "~events.k8s.io/v1:events")
    assert listed["items"][0]["regarding"] == about


async def test_a_core_event_keeps_its_count_in_the_other_group(api):
    event = {
        "metadata": {"name": "p.1"},
        "involvedObject": {"kind": "Pod", "namespace": api.namespace, "name": "p"},
        "reason": "FailedScheduling",
        "message": "0/1 nodes are available",
        "type": "Warning",
        "source": {"component": "podwright"},
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:05:05Z",
        "count": 2,
    }
    await api.ok("POST", "~events", event)
    other = await api.ok("GET", "~events.k8s.io/v1:events/p.1")
    assert (other["note"], other["deprecatedCount"]) == ("0/1 nodes are available", 2)
    assert other["deprecatedSource"]["component"] == "podwright"
    patched = await api.ok("PATCH", "~events/p.1", {"count": 3}, MERGE)
    assert patched["count"] == 3


@pytest.mark.parametrize(
    "selector, found",
    [
        pytest.param("involvedObject.name=p,involvedObject.kind=Pod", 1, id="the pod it is about"),
        pytest.param("involvedObject.name=q", 0, id="another object"),
        pytest.param("reason=Scheduled,type=Normal", 1, id="its reason and type"),
        pytest.param("type!=Normal", 0, id="not its type"),
    ],
)
async def test_field_selectors_of_events(api, selector, found):
    about = {"kind": "Pod", "namespace": api.namespace, "name": "p"}
    event = {"metadata": {"name": "p.1"}, "involvedObject": about, "reason": "Scheduled", "type": "Normal"}
    await api.ok("POST", "~events", event)
    assert len((await api.ok("GET", "~events", fieldSelector=selector))["items"]) == found


async def test_only_one_of_two_holders_acquires_a_lease(api):
    path = "~coordination.k8s.io/v1:leases"
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.000000Z"}
    lease = await api.ok("POST", path, {"metadata": {"name": "l"}, "spec": spec})
    assert lease["spec"] == spec
    assert (await api("POST", path, {"metadata": {"name": "l"}, "spec": spec})).status == 409
    first = await api("PUT", f"{path}/l", lease | {"spec": spec | {"holderIdentity": "two"}})
    second = await api("PUT", f"{path}/l", lease | {"spec": spec | {"holderIdentity": "three"}})
    assert (first.status, second.status) == (200, 409)
    assert (await api.ok("GET", f"{path}/l"))["spec"]["holderIdentity"] == "two"


async def test_replacing_a_missing_lease_creates_it(api):
    path = "~coordination.k8s.io/v1:leases/l"
    answer = await api("PUT", path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "one"}})
    assert answer.status == 201
    assert (await api.ok("GET", path))["spec"]["holderIdentity"] == "one"


async def test_a_node_is_created_with_its_status_and_then_has_a_status_subresource(api):
    name = f"node-{api.namespace}"
    path = f"/api/v1/nodes/{name}"
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}
    node = await api.ok("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status})
    try:
        assert node["status"]["allocatable"] == {"cpu": "4"}
        patched = await api.ok("PATCH", path, {"spec": {"unschedulable": True}, "status": {"capacity": None}}, MERGE)
        assert patched["spec"]["unschedulable"] is True
        assert patched["status"]["capacity"] == {"cpu": "4"}
        patched = await api.ok("PATCH", f"{path}/status", {"status": {"allocatable": {"cpu": "2"}}}, MERGE)
        assert (patched["status"]["allocatable"], patched["spec"]["unschedulable"]) == ({"cpu": "2"}, True)
        chosen = await api("GET", "/api/v1/nodes", fieldSelector=f"spec.unschedulable=true,metadata.name={name}")
        assert chosen.names == [name]
        chosen = await api("GET", "/api/v1/nodes", fieldSelector=f"spec.unschedulable=false,metadata.name={name}")
        assert chosen.names == []
    finally:
        await api.ok("DELETE", path)


async def test_a_namespace_is_active_and_has_its_name_as_a_label(api):
    namespace = await api.ok("GET", f"/api/v1/namespaces/{api.namespace}")
    assert namespace["status"]["phase"] == "Active"
    assert namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] == api.namespace


async def test_an_access_review_is_answered(api):
    attributes = {"verb": "list", "resource": "pods"}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await api("POST", path, review | {"metadata": {}, "spec": {"resourceAttributes": attributes}})
    assert answer.status == 201
    assert answer.body["status"]["allowed"] is True
    assert answer.body["spec"]["resourceAttributes"]["verb"] == "list"


async def test_a_deployment_has_a_scale_subresource_and_a_generation(api):
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
    }
    created = await api.ok("POST", "~apps/v1:deployments", {"metadata": {"name": "d"}, "spec": spec})
    assert (created["spec"]["replicas"], created["metadata"]["generation"]) == (1, 1)
    scale = await api.ok("GET", "~apps/v1:deployments/d/scale")
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 1)
    scaled = await api.ok("PATCH", "~apps/v1:deployments/d/scale", {"spec": {"replicas": 3}}, MERGE)
    assert scaled["spec"]["replicas"] == 3
    created = await api.ok("GET", "~apps/v1:deployments/d")
    assert (created["spec"]["replicas"], created["metadata"]["generation"]) == (3, 2)


SCHEDULER_KINDS = [
    ("/api/v1", {"pods", "nodes", "namespaces", "events", "services", "configmaps", "secrets", "serviceaccounts"}),
    ("/api/v1", {"pods/binding", "pods/eviction", "pods/status", "nodes/status", "bindings"}),
    ("/api/v1", {"persistentvolumes", "persistentvolumeclaims", "replicationcontrollers"}),
    ("/apis/apps/v1", {"deployments", "replicasets", "statefulsets", "daemonsets"}),
    ("/apis/batch/v1", {"jobs"}),
    ("/apis/policy/v1", {"poddisruptionbudgets"}),
    ("/apis/storage.k8s.io/v1", {"storageclasses", "csinodes", "csidrivers", "csistoragecapacities"}),
    ("/apis/storage.k8s.io/v1", {"volumeattachments"}),
    ("/apis/coordination.k8s.io/v1", {"leases"}),
    ("/apis/scheduling.k8s.io/v1", {"priorityclasses"}),
    ("/apis/events.k8s.io/v1", {"events"}),
    ("/apis/apiextensions.k8s.io/v1", {"customresourcedefinitions"}),
    ("/apis/authorization.k8s.io/v1", {"selfsubjectaccessreviews"}),
    ("/apis/rbac.authorization.k8s.io/v1", {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}),
    ("/apis/resource.k8s.io/v1", {"deviceclasses"}),
]


@pytest.mark.parametrize("path, names", SCHEDULER_KINDS)
async def test_discovery_lists_the_kinds_that_a_scheduler_needs(api, path, names):
    body = await api.ok("GET", path)
    found = {item["name"]: item for item in body["resources"]}
    assert body["groupVersion"] == path.split("/", 2)[2]
    assert names <= found.keys()
    assert all("watch" in found[name]["verbs"] for name in names if "list" in found[name]["verbs"])


async def test_discovery_of_pods_and_their_subresources(api):
    body = await api.ok("GET", "/api/v1")
    pods = next(item for item in body["resources"] if item["name"] == "pods")
    assert (pods["kind"], pods["namespaced"], pods["shortNames"], pods["singularName"]) == ("Pod", True, ["po"], "pod")
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(pods["verbs"])
    binding = next(item for item in body["resources"] if item["name"] == "pods/binding")
    assert (binding["kind"], binding["verbs"]) == ("Binding", ["create"])


async def test_the_version_is_a_kubernetes_version(api):
    version = await api.ok("GET", "/version")
    assert version["gitVersion"].startswith("v1.")
    assert version["major"] == "1"
