"""The operator binds volumes on the real control plane, together with the volume controller."""

from __future__ import annotations

import pytest

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit

OURS = "podwright"
HOST = "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{kit.ACCOUNT[0]}/leases/podwright"


def storage_class(name, provisioner):
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name, on, size, storage="local"):
    expression = {"key": HOST, "operator": "In", "values": [on]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }


def claim(name, namespace, size, storage="local"):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage,
        },
    }


def mounting(name, namespace, *claims):
    mounts = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": mount}} for i, mount in enumerate(claims)]
    return pod(name, namespace, scheduler=OURS, volumes=mounts)


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane):
    kit.stay_installed(control_plane)
    manager = control_plane.start_controller_manager(["persistentvolume-binder-controller"])
    yield control_plane
    manager.stop()


@pytest.fixture
def cluster(installed, empty_cluster, namespace):
    """Two nodes, three local volumes and two storage classes, which are deleted after the test.

    The volumes have new names: the volume controller may still work on those of the test before.
    """
    created = [
        storage_class("local", "kubernetes.io/no-provisioner"),
        storage_class("made", "csi.example.com"),
        volume(f"small-1-{namespace}", "n1", "1Gi"),
        volume(f"large-1-{namespace}", "n1", "10Gi"),
        volume(f"large-2-{namespace}", "n2", "10Gi"),
    ]
    for body in (node("n1"), node("n2"), *created):
        empty_cluster.client.create(body)
    volumes = [body for body in created if body["kind"] == "PersistentVolume"]
    ready = [
        lambda body=body: empty_cluster.client.read(body)["status"].get("phase") == "Available" for body in volumes
    ]
    wait_until(lambda: all(check() for check in ready), 30, "the volumes are available")
    yield empty_cluster
    for body in created:
        if body["kind"] == "PersistentVolume":
            empty_cluster.client.patch(body, {"metadata": {"finalizers": None}})
        empty_cluster.client.delete(body)


def test_a_pod_gets_the_smallest_fitting_volumes_and_their_node(cluster, namespace):
    for body in (claim("data", namespace, "500Mi"), claim("big", namespace, "5Gi")):
        cluster.client.create(body)
    with kit.reused(cluster):
        cluster.client.create(mounting("app", namespace, "data", "big"))
        kit.wait_bound(cluster, namespace, 1, 30)
    placed = cluster.client.read(mounting("app", namespace))["spec"]["nodeName"]
    bound = {name: cluster.client.read(claim(name, namespace, ""))["spec"]["volumeName"] for name in ("data", "big")}
    assert placed == "n1"
    assert bound == {"data": f"small-1-{namespace}", "big": f"large-1-{namespace}"}
    small = cluster.client.read(volume(f"small-1-{namespace}", "n1", ""))
    assert small["spec"]["claimRef"]["name"] == "data"
    assert small["status"]["phase"] == "Bound"
    assert small["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"


def test_pods_get_one_volume_each_or_wait(cluster, namespace):
    for i in range(3):
        cluster.client.create(claim(f"data-{i}", namespace, "5Gi"))
        cluster.client.create(mounting(f"app-{i}", namespace, f"data-{i}"))
    with kit.reused(cluster):
        kit.wait_bound(cluster, namespace, 2, 30)
        wait_until(lambda: bool(unschedulable_messages(cluster, namespace)), 30, "one pod is marked Unschedulable")
    places = [raw["spec"]["nodeName"] for raw in kit.pods(cluster, namespace) if raw["spec"].get("nodeName")]
    assert sorted(places) == ["n1", "n2"]
    (message,) = unschedulable_messages(cluster, namespace)
    assert message.startswith(
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. preemption: "
    )


def unschedulable_messages(cluster, namespace):
    conditions = [kit.condition(raw) for raw in kit.pods(cluster, namespace)]
    return [found["message"] for found in conditions if found.get("reason") == "Unschedulable"]


def test_a_claim_gets_the_selected_node_and_the_pod_waits_for_its_volume_also_with_the_next_leader(cluster, namespace):
    wanted = claim("made", namespace, "5Gi", storage="made")
    cluster.client.create(wanted)

    def selected():
        return cluster.client.read(wanted)["metadata"].get("annotations", {}).get(SELECTED, "")

    election = ("--leader-elect", f"--leader-elect-resource-namespace={kit.ACCOUNT[0]}")
    with kit.running(cluster, *election):
        cluster.client.create(mounting("app", namespace, "made"))
        wait_until(lambda: bool(selected()), 30, "a node is selected")
        place = selected()
        assert kit.bound(cluster, namespace) == 0
    assert cluster.client.get(LEASE)["spec"]["holderIdentity"] == "", "the pod that waits does not keep the Lease"
    with kit.running(cluster, *election):
        provisioned = volume(f"made-{namespace}", place, "5Gi", storage="made")
        uid = cluster.client.read(wanted)["metadata"]["uid"]
        provisioned["spec"]["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": "made",
            "uid": uid,
        }
        cluster.client.create(provisioned)
        kit.wait_bound(cluster, namespace, 1, 30)
    assert cluster.client.read(mounting("app", namespace))["spec"]["nodeName"] == place
    assert cluster.client.read(wanted)["spec"]["volumeName"] == f"made-{namespace}"
    cluster.client.patch(provisioned, {"metadata": {"finalizers": None}})
    cluster.client.delete(provisioned)
