"""Deployments and ReplicaSets create and delete pods."""

import pytest

from .conftest import PODS

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SETS = "/apis/apps/v1/namespaces/default/replicasets"


def deployment(replicas=3, image="one"):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


@pytest.fixture
async def web(cluster):
    assert (await cluster("POST", DEPLOYMENTS, deployment()))[0] == 201
    await cluster.until(PODS, having(3))
    return cluster


def having(count, image="one"):
    def holds(pods):
        return [pod["spec"]["containers"][0]["image"] for pod in pods["items"]] == [image] * count

    return holds


async def patch(cluster, body):
    how = "application/merge-patch+json"
    assert (await cluster("PATCH", f"{DEPLOYMENTS}/web", body, Content_Type=how))[0] == 200


async def test_a_deployment_creates_pods_through_a_replica_set(web):
    (found,) = (await web.get(SETS))["items"]
    pods = (await web.get(PODS))["items"]
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods}
    assert owners == {found["metadata"]["uid"]}
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
    hashes = {pod["metadata"]["labels"]["pod-template-hash"] for pod in pods}
    assert hashes == {found["spec"]["selector"]["matchLabels"]["pod-template-hash"]}
    assert all(pod["metadata"]["labels"]["app"] == "web" for pod in pods)


async def test_the_status_counts_running_pods(web):
    for pod in (await web.get(PODS))["items"]:
        await web.bind(pod["metadata"]["name"], "node-0001")
    found = await web.until(f"{DEPLOYMENTS}/web", lambda found: found["status"].get("readyReplicas") == 3)
    assert (found["status"]["updatedReplicas"], found["status"]["availableReplicas"]) == (3, 3)
    assert found["status"]["observedGeneration"] == 1


async def test_a_deleted_pod_is_replaced(web):
    gone = (await web.get(PODS))["items"][0]["metadata"]["name"]
    await web("DELETE", f"{PODS}/{gone}")
    await web.until(PODS, having(3))
    assert gone not in [pod["metadata"]["name"] for pod in (await web.get(PODS))["items"]]


async def test_scaling_down_deletes_unbound_pods_first(web):
    bound = (await web.get(PODS))["items"][1]["metadata"]["name"]
    await web.bind(bound, "node-0001")
    await patch(web, {"spec": {"replicas": 1}})
    pods = await web.until(PODS, having(1))
    assert pods["items"][0]["metadata"]["name"] == bound


async def test_a_changed_template_replaces_all_pods(web):
    await patch(web, {"spec": deployment(image="two")["spec"]})
    await web.until(PODS, having(3, "two"))


async def test_deleting_a_deployment_deletes_its_pods(web):
    await web("DELETE", f"{DEPLOYMENTS}/web")
    await web.until(PODS, having(0))
    assert (await web.get(SETS))["items"] == []


async def test_an_invalid_template_does_not_affect_other_deployments(cluster):
    bad = deployment()
    bad["spec"]["template"]["spec"]["priorityClassName"] = "no-such-class"
    await cluster("POST", DEPLOYMENTS, bad | {"metadata": {"name": "bad"}})
    await cluster("POST", DEPLOYMENTS, deployment(2))
    await cluster.until(PODS, having(2))
