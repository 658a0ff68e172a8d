"""The operator allocates devices on the real control plane, together with the resourceclaim controller and a driver's
stand-in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from podwright.testing import ControlPlane, node, pod, wait_until
from podwright.testing.objects import object_path
from podwright.testing.versions import Versions
from support.control_plane import device_driver as dra
from support.control_plane import operator_process as kit
from support.control_plane.fixtures import empty
from support.faults.proxy import FaultProxy, Faults, is_binding

OURS = "podwright"
MINOR = Versions.from_environ().kubernetes_minor
DEVICES: Mapping[str, Sequence[str]] = {"n1": ["gpu-0"], "n2": ["gpu-0"]}
CONTROLLERS = [
    f"{name}-controller" for name in ("resourceclaim", "garbage-collector", "deployment", "replicaset", "job")
]
ATTACHED: Mapping[str, Sequence[str]] = {"n3": ["gpu-0"]}


@pytest.fixture(scope="module")
def started(control_plane: ControlPlane):
    """Two nodes with a device each, one with a device that must be made ready, the controllers, and the operator."""
    kit.stay_installed(control_plane)
    empty(control_plane.client)
    for name in (*DEVICES, *ATTACHED):
        control_plane.client.create(node(name))
    conditions = {"bindingConditions": [dra.READY], "bindingFailureConditions": ["example.com/broken"]}
    manager = control_plane.start_controller_manager(CONTROLLERS)
    attaching = dra.Driver(control_plane, ATTACHED, name="attached", **conditions)
    with (
        dra.Driver(control_plane, DEVICES, resource=dra.RESOURCE) as driver,
        attaching,
        FaultProxy(control_plane) as proxy,
        kit.running(control_plane, kubeconfig=proxy.kubeconfig(account(control_plane))) as operator,
    ):
        yield Started(control_plane, operator, proxy, driver, attaching)
    manager.stop()
    empty(control_plane.client)


def account(cluster):
    return cluster.service_account_kubeconfig(*kit.ACCOUNT)


@dataclass
class Started:
    cluster: ControlPlane
    operator: kit.Operator
    proxy: FaultProxy
    driver: dra.Driver
    attaching: dra.Driver


@pytest.fixture
def cluster(started, namespace):
    """Everything runs, and no device is in use. Afterwards, the operator must not have complained about its rights."""
    client = started.cluster.client
    yield started.cluster
    client.request("DELETE", f"/api/v1/namespaces/{namespace}/pods", query={"gracePeriodSeconds": "0"})
    dra.delete_claims(started.cluster, namespace)
    for text in ("Traceback", "orbidden", " is off"):
        assert text not in started.operator.log()


def ours(name, namespace, **spec):
    return pod(name, namespace, scheduler=OURS, **spec)


def with_claim(name, namespace, claim):
    return ours(name, namespace, resourceClaims=[{"name": "mine", "resourceClaimName": claim}])


def only_claim(cluster, namespace):
    (found,) = dra.claims(cluster, namespace)
    return found


def wait_unschedulable(cluster, raw):
    def waits():
        return kit.condition(cluster.client.read(raw)).get("reason") == "Unschedulable"

    wait_until(waits, 30, f"{raw['metadata']['name']} is marked Unschedulable")


def test_pods_get_the_claims_of_a_template_and_their_devices(cluster, namespace):
    cluster.client.create(dra.template("one", namespace))
    for i in range(2):
        cluster.client.create(ours(f"p{i}", namespace, **dra.from_template("one")))
    kit.wait_bound(cluster, namespace, 2, 30)
    waiting = ours("p2", namespace, **dra.from_template("one"))
    cluster.client.create(waiting)
    wait_unschedulable(cluster, waiting)
    claims = {raw["metadata"]["ownerReferences"][0]["name"]: raw for raw in dra.claims(cluster, namespace)}
    for name in ("p0", "p1"):
        placed, claim = cluster.client.read(ours(name, namespace)), claims[name]
        (result,) = dra.results_of(claim)
        assert result["pool"] == placed["spec"]["nodeName"]
        assert dra.consumers(claim) == [placed["metadata"]["uid"]]
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        if MINOR > 34:  # before, the API server drops the field
            assert claim["status"]["allocation"]["allocationTimestamp"]
        device = f"gpu.example.com/{result['pool']}/gpu-0"
        assert kit.decision(placed)["devices"] == [device]
        text = f"Successfully assigned {namespace}/{name} to {result['pool']} with {device}"
        wait_until(lambda text=text: text in notes(cluster, namespace, "Scheduled"), 30, text)
    assert dra.results_of(claims["p2"]) == []
    assert dra.faults(cluster) == []
    message = kit.condition(cluster.client.read(waiting))["message"]
    assert message.startswith("0/3 nodes are available: 3 cannot allocate all claims.")
    cluster.client.delete(ours("p0", namespace))
    wait_until(lambda: "nodeName" in cluster.client.read(waiting)["spec"], 30, "the waiting pod gets the device")
    assert dra.faults(cluster) == []


def test_pods_of_a_deployment_and_of_a_job_use_the_devices_in_turn(cluster, started, namespace):
    """There are two devices. The Deployment keeps one, and the second pod of the Job gets what the first has given
    back.
    """
    client = cluster.client
    client.create(dra.template("one", namespace))
    started.driver.follows = True
    try:
        for workload in (deployment(namespace), job(namespace)):
            client.create(workload)
        wait_until(lambda: len(started.driver.prepared) == 2, 30, "the driver prepares both devices")
        running = {owner_kind(raw): raw for raw in kit.pods(cluster, namespace)}
        assert running.keys() == {"ReplicaSet", "Job"}
        for raw in running.values():
            check_names(cluster, started, raw)
        finished = running["Job"]
        client.patch(ours(finished["metadata"]["name"], namespace), {"status": {"phase": "Succeeded"}}, "status")
        wait_until(lambda: len(job_pods(cluster, namespace)) == 2, 30, "the Job goes on")
        second = next(name for name in job_pods(cluster, namespace) if name != finished["metadata"]["name"])
        wait_until(lambda: second in map(user_of, prepared_claims(cluster, started)), 30, "the second pod has a device")
        placed = client.read(ours(second, namespace))
        check_names(cluster, started, placed)
        assert kit.decision(placed)["devices"] == kit.decision(finished)["devices"]
        assert dra.faults(cluster) == []
    finally:
        started.driver.follows = False
        for workload in (deployment(namespace), job(namespace)):
            client.request("DELETE", object_path(workload), query={"propagationPolicy": "Background"})
        wait_until(lambda: delete_pods(cluster, namespace) == 0, 60, "the pods are gone")
    wait_until(lambda: not dra.claims(cluster, namespace), 60, "their claims are gone, too")


def delete_pods(cluster, namespace):
    """Deletes them as a kubelet does, and returns how many there were."""
    query = {"gracePeriodSeconds": "0"}
    return len(cluster.client.request("DELETE", f"/api/v1/namespaces/{namespace}/pods", query=query)["items"])


def deployment(namespace):
    labels = {"app": "serving"}
    return workload("apps/v1", "Deployment", namespace, labels, replicas=1, selector={"matchLabels": labels})


def job(namespace):
    return workload("batch/v1", "Job", namespace, {}, completions=2, parallelism=1)


def workload(version, kind, namespace, labels, **spec):
    wanted = ours("unnamed", namespace, restartPolicy="Always" if labels else "Never", **dra.from_template("one"))
    pods = {"metadata": {"labels": labels}, "spec": wanted["spec"]}
    metadata = {"name": kind.lower(), "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {**spec, "template": pods}}


def owner_kind(raw):
    return raw["metadata"]["ownerReferences"][0]["kind"]


def job_pods(cluster, namespace):
    return [raw["metadata"]["name"] for raw in kit.pods(cluster, namespace) if owner_kind(raw) == "Job"]


def user_of(claim):
    """The name of the pod that a claim was made for."""
    return claim["metadata"]["ownerReferences"][0]["name"]


def prepared_claims(cluster, started):
    return [raw for raw in dra.claims(cluster) if raw["metadata"]["uid"] in started.driver.prepared]


def check_names(cluster, started, raw):
    """The decision and the event of a pod name the device that the driver has prepared for it."""
    name, node_name = raw["metadata"]["name"], raw["spec"]["nodeName"]
    (claim,) = (each for each in prepared_claims(cluster, started) if user_of(each) == name)
    (device,) = started.driver.prepared[claim["metadata"]["uid"]]
    assert kit.decision(raw)["devices"] == [device]
    text = f"Successfully assigned {raw['metadata']['namespace']}/{name} to {node_name} with {device}"
    wait_until(lambda: text in notes(cluster, raw["metadata"]["namespace"], "Scheduled"), 30, text)


def test_pods_share_a_claim_and_its_device(cluster, namespace):
    cluster.client.create(dra.claim("shared", namespace))
    for name in ("p0", "p1"):
        cluster.client.create(with_claim(name, namespace, "shared"))
    kit.wait_bound(cluster, namespace, 2, 30)
    claim = only_claim(cluster, namespace)
    pods = kit.pods(cluster, namespace)
    assert sorted(dra.consumers(claim)) == sorted(raw["metadata"]["uid"] for raw in pods)
    (result,) = dra.results_of(claim)
    assert {raw["spec"]["nodeName"] for raw in pods} == {result["pool"]}


@pytest.mark.kubernetes(36, "the gate DRAExtendedResource by default")
def test_a_pod_gets_a_device_for_an_extended_resource(cluster, namespace):
    wanted = ours("p", namespace)
    wanted["spec"]["containers"][0]["resources"] = {"limits": {dra.RESOURCE: "1"}}
    cluster.client.create(wanted)
    kit.wait_bound(cluster, namespace, 1, 30)
    placed, claim = cluster.client.read(wanted), only_claim(cluster, namespace)
    metadata = claim["metadata"]
    assert metadata["name"].startswith("p-extended-resources-")
    assert metadata["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    (owner,) = metadata["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (placed["metadata"]["uid"], True)
    status = placed["status"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == metadata["name"]
    ((mapping,), (result,)) = status["requestMappings"], dra.results_of(claim)
    assert (mapping["resourceName"], mapping["requestName"]) == (dra.RESOURCE, result["request"])
    assert dra.consumers(claim) == [placed["metadata"]["uid"]]


@pytest.mark.kubernetes(36, "binding conditions of devices by default")
def test_a_pod_waits_until_its_device_is_ready(cluster, started, namespace):
    started.attaching.sets_conditions = False
    cluster.client.create(dra.claim("mine", namespace, device_class="attached"))
    cluster.client.create(with_claim("p", namespace, "mine"))
    wait_until(lambda: bool(dra.results_of(only_claim(cluster, namespace))), 30, "the claim is allocated")
    assert kit.bound(cluster, namespace) == 0
    started.attaching.sets_conditions = True
    kit.wait_bound(cluster, namespace, 1, 30)


def test_a_claim_that_is_allocated_where_the_pod_cannot_run_gets_another_device(cluster, namespace):
    """PostFilter takes the device from the claim, which nobody uses."""
    wanted = dra.claim("mine", namespace)
    created = cluster.client.create(wanted)
    cluster.client.replace({**created, "status": allocation_of("gpu-0", "n1")}, "status")
    cluster.client.create(with_claim("p", namespace, "mine") | {"spec": on("n2", namespace)})
    kit.wait_bound(cluster, namespace, 1, 30)
    (result,) = dra.results_of(only_claim(cluster, namespace))
    assert result["pool"] == "n2"


def allocation_of(device, name):
    """The status of a claim that has the device of this node."""
    result = {"request": "r", "driver": "gpu.example.com", "pool": name, "device": device}
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}


def on(name, namespace):
    """The spec of a pod with the claim that can run only there."""
    return with_claim("p", namespace, "mine")["spec"] | {"nodeSelector": {"kubernetes.io/hostname": name}}


def test_a_failed_binding_takes_the_pod_out_of_its_claim(cluster, started, namespace):
    cluster.client.create(dra.claim("mine", namespace))
    reserved = lambda: bool(dra.consumers(only_claim(cluster, namespace)))
    started.proxy.faults = [Faults({"403": 1.0}, is_binding)]
    started.proxy.hold(is_binding)
    try:
        cluster.client.create(with_claim("p", namespace, "mine"))
        wait_until(lambda: started.proxy.held() == 1, 30, "the Binding is on its way")
        assert reserved(), "the pod is entered in the claim"
        started.proxy.release()
        wait_until(lambda: not reserved(), 30, "the pod is taken out of the claim")
        assert dra.results_of(only_claim(cluster, namespace)), "the devices stay, as in kube-scheduler"
    finally:
        started.proxy.faults = []
        started.proxy.release()
    kit.wait_bound(cluster, namespace, 1, 30)
    (placed,) = kit.pods(cluster, namespace)
    assert dra.consumers(only_claim(cluster, namespace)) == [placed["metadata"]["uid"]]


@pytest.mark.kubernetes(35, "the gate NominatedNodeNameForExpectation by default")
def test_a_device_that_another_scheduler_allocates_at_the_same_time_is_given_back(cluster, started, namespace):
    """Its allocation is stored while ours is on its way. The API server accepts both."""

    def is_allocation(method, path):
        return method == "PUT" and path.endswith("/resourceclaims/mine/status")

    rivals = cluster.client.create(dra.claim("theirs", namespace))
    cluster.client.create(dra.claim("mine", namespace))
    started.proxy.hold(is_allocation)
    try:
        cluster.client.create(with_claim("p", namespace, "mine"))
        wait_until(lambda: started.proxy.held() == 1, 30, "the allocation is on its way")
        wait_until(lambda: bool(nominated(cluster, namespace)), 30, "the pod shows its node")
        name = nominated(cluster, namespace)
        cluster.client.replace({**rivals, "status": allocation_of("gpu-0", name)}, "status")
    finally:
        started.proxy.release()
    kit.wait_bound(cluster, namespace, 1, 30)
    placed = cluster.client.read(ours("p", namespace))["spec"]["nodeName"]
    assert placed != name
    assert dra.faults(cluster) == []
    device = f"device gpu.example.com/{name}/gpu-0 is also allocated to claim {namespace}/theirs, by another scheduler"
    wait_until(lambda: notes(cluster, namespace, "DeviceAllocatedTwice"), 30, "the case is reported")
    assert notes(cluster, namespace, "DeviceAllocatedTwice") == [device]
    failed = lambda: " ".join(notes(cluster, namespace, "FailedScheduling"))
    wait_until(lambda: f"claim {namespace}/mine: {device} at the same time" in failed(), 30, "the pod has an event")


def nominated(cluster, namespace):
    return cluster.client.read(ours("p", namespace))["status"].get("nominatedNodeName")


def notes(cluster, namespace, reason):
    return [event["note"] for event in kit.events(cluster, namespace, reason)]
