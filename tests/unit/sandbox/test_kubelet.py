"""The simulated kubelet."""

from .conftest import PODS, running


def ready(obj):
    conditions = {item["type"]: item["status"] for item in obj["status"].get("conditions", ())}
    return conditions.get("Ready") == "True"


async def test_a_new_node_becomes_ready_and_keeps_its_capacity(cluster):
    node = await cluster.until("/api/v1/nodes/node-0002", ready)
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-b"
    assert node["status"]["allocatable"]["pods"] == "110"
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")


async def test_a_node_without_capacity_gets_a_default(cluster):
    await cluster("POST", "/api/v1/nodes", {"metadata": {"name": "bare"}})
    node = await cluster.until("/api/v1/nodes/bare", lambda node: ready(node) if "status" in node else False)
    assert node["status"]["allocatable"] == {"cpu": "8", "memory": "32Gi", "pods": "110"}


async def test_a_bound_pod_becomes_running(cluster):
    await cluster.pod("a")
    await cluster.bind("a", "node-0001")
    pod = await cluster.until(f"{PODS}/a", lambda pod: pod["status"]["phase"] == "Running")
    assert ready(pod)
    assert pod["status"]["containerStatuses"][0]["ready"] is True
    assert pod["status"]["podIP"] == "10.0.0.1"


async def test_a_pod_bound_to_a_missing_node_stays_pending(cluster):
    for name, node in (("lost", "no-such-node"), ("found", "node-0001")):
        await cluster.pod(name)
        await cluster.bind(name, node)
    await cluster.until(f"{PODS}/found", lambda pod: pod["status"]["phase"] == "Running")
    assert (await cluster.get(f"{PODS}/lost"))["status"]["phase"] == "Pending"


async def test_the_kubelet_removes_a_deleted_pod(cluster):
    await cluster.pod("a")
    await cluster.bind("a", "node-0001")
    status, pod = await cluster("DELETE", f"{PODS}/a")
    assert (status, pod["metadata"]["deletionGracePeriodSeconds"]) == (200, 30)
    await cluster.until(f"{PODS}/a", lambda answer: answer.get("code") == 404)


async def test_a_pod_without_containers_becomes_running():
    async with running() as (sandbox, cluster):
        sandbox.add_nodes(1)
        for name, spec in (("null", {"containers": None}), ("absent", {})):
            metadata = {"name": name, "namespace": "default", "uid": name}
            raw = {"metadata": metadata, "spec": {**spec, "nodeName": "node-0001"}, "status": {"phase": "Pending"}}
            sandbox.cluster.store.write("pods", raw)
            pod = await cluster.until(f"{PODS}/{name}", lambda pod: pod["status"]["phase"] == "Running")
            assert pod["status"]["containerStatuses"] == []
