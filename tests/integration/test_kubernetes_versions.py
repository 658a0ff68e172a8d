"""Dependencies on the version of Kubernetes: feature gates, the API, and decisions that follow from them.

The tests compare with the API server and the kube-scheduler of the version that the tests run on (`make test
KUBERNETES=1.35.4`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from podwright.core.framework.features import API_SINCE, GATES, NEWEST_MINOR, OLDEST_MINOR, Features
from podwright.testing import AnswerError, ControlPlane, Versions, node, pod, wait_until
from podwright.testing.versions import RELEASES
from support.control_plane import operator_process as kit

MINOR = Versions.from_environ().kubernetes_minor
_FEATURE = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)",stage="\w*"\} ([01])$', re.MULTILINE)
OURS, THEIRS = "podwright", "default-scheduler"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


def test_each_supported_minor_version_has_a_release_to_test_with():
    minors = [int(release.split(".")[1]) for release in RELEASES]
    assert minors == list(range(OLDEST_MINOR, NEWEST_MINOR + 1))


def test_feature_gates_have_the_defaults_of_this_version(control_plane: ControlPlane):
    """All programs of a release have the same gates, and the API server shows them in a metric."""
    _, metrics = control_plane.client.raw("GET", "/metrics")
    defaults = {name: value == "1" for name, value in _FEATURE.findall(metrics.decode())}
    assert len(defaults) > 50
    features = Features(server_minor=MINOR)
    assert {name: features.enabled(name) for name in GATES} == {name: defaults.get(name, False) for name in GATES}


def _kept(cluster: ControlPlane, body: dict[str, Any], path: str) -> bool:
    """True if the API server keeps a field of an object. An object that it rejects without the field counts as not
    kept.
    """
    try:
        value: Any = cluster.client.create(body)
    except AnswerError as error:
        if error.status != 422:
            raise
        return False
    cluster.client.delete(body)
    return _has(value, path)


def _has(value: Any, path: str) -> bool:
    for part in path.split("."):
        value = (value or {}).get(part) if not isinstance(value, list) else value[0].get(part)
    return value is not None


def _kept_in_status(cluster: ControlPlane, body: dict[str, Any], status: dict[str, Any], path: str) -> bool:
    cluster.client.create(body)
    updated = cluster.client.patch(body, {"status": status}, "status")
    cluster.client.delete(body)
    return _has(updated, path)


def _csi_driver(cluster: ControlPlane) -> bool:
    spec = {"attachRequired": True, "preventPodSchedulingIfMissing": True}
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "prevents"}, "spec": spec}
    return _kept(cluster, body, "spec.preventPodSchedulingIfMissing")


def _device_class(cluster: ControlPlane) -> bool:
    spec = {"extendedResourceName": "example.com/gpu"}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}
    return _kept(cluster, body, "spec.extendedResourceName")


def _device_taint_rules(cluster: ControlPlane) -> bool:
    served = cluster.client.get("/apis/resource.k8s.io/v1")["resources"]
    return "devicetaintrules" in {resource["name"] for resource in served}


def _image_volume(cluster: ControlPlane) -> bool:
    body = pod("with-image")
    body["spec"]["volumes"] = [{"name": "data", "image": {"reference": "example.com/data:1"}}]
    return _kept(cluster, body, "spec.volumes.image")


def _declared_features(cluster: ControlPlane) -> bool:
    body = node("declares")
    return _kept_in_status(cluster, body, {"declaredFeatures": ["A"]}, "status.declaredFeatures")


def _pod_status(field: str, value: Any) -> Callable[[ControlPlane], bool]:
    return lambda cluster: _kept_in_status(cluster, pod("resized"), {field: value}, f"status.{field}")


PROBES: Mapping[str, Callable[[ControlPlane], bool]] = {
    "CSIDriver.spec.preventPodSchedulingIfMissing": _csi_driver,
    "DeviceClass.spec.extendedResourceName": _device_class,
    "DeviceTaintRule": _device_taint_rules,
    "Node.status.declaredFeatures": _declared_features,
    "Pod.spec.volumes.image": _image_volume,
    "Pod.status.allocatedResources": _pod_status("allocatedResources", {"cpu": "1"}),
    "Pod.status.resources": _pod_status("resources", {"requests": {"cpu": "1"}}),
}


@pytest.mark.parametrize("item", PROBES)
def test_the_api_server_has_the_fields_that_its_version_is_known_to_have(control_plane, item):
    assert PROBES[item](control_plane) == (item not in Features(server_minor=MINOR).missing_api)


def test_every_field_is_probed():
    """Pod groups are off by default in all versions, and have tests of their own."""
    assert set(API_SINCE) == {*PROBES, "PodGroup", "Pod.spec.schedulingGroup"}


def test_the_operator_names_what_the_version_lacks_in_one_line(empty_cluster):
    kit.stay_installed(empty_cluster)
    with kit.running(empty_cluster, "--pod-intake=watch") as operator:
        lines = [line for line in operator.log().splitlines() if f"Kubernetes 1.{MINOR}: " in line]
    features = Features(server_minor=MINOR)
    assert len(lines) == (MINOR < NEWEST_MINOR)
    for name in (*features.off_by_version, *features.missing_api):
        assert name in lines[0]


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane) -> Iterator[kit.Operator]:
    """Podwright, beside the kube-scheduler of this version."""
    kit.stay_installed(control_plane)
    scheduler = control_plane.start_scheduler(name="kube-scheduler-of-this-version")
    # Nobody provides the volumes that its Bindings wait for.
    with kit.running(control_plane, "--pod-intake=watch", "--grace=1") as running:
        yield running
    scheduler.stop()


@pytest.fixture
def both(operator: kit.Operator, empty_cluster: ControlPlane) -> ControlPlane:
    """The cluster with both, without nodes and pods."""
    return empty_cluster


def test_storage_capacity_counts_as_in_the_kube_scheduler_of_this_version(both, operator, namespace):
    """Both nodes have room: `storage` has far more than the claim needs, `cpu` just enough, but more CPU."""
    both.bulk.create([node("storage", cpu="4"), node("cpu", cpu="16")])
    driver, storage_class = "capacity.example.com", f"capacity-{namespace}"
    shared = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": driver},
            "spec": {"attachRequired": False, "storageCapacity": True},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": storage_class},
            "provisioner": driver,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ]
    for body in (*shared, *(_capacity(namespace, storage_class, *of) for of in (("storage", "1Ti"), ("cpu", "10Gi")))):
        both.client.create(body)
    kit.wait_known(operator, 2, 0)
    try:
        chosen = {name: _node_for_claim(both, namespace, name, storage_class) for name in (OURS, THEIRS)}
    finally:
        for body in shared:
            both.client.delete(body)
    assert set(chosen.values()) == {"storage" if MINOR >= 37 else "cpu"}


def _chosen(cluster: ControlPlane, namespace: str, **spec: Any) -> dict[str, str]:
    """The node that each scheduler binds such a pod to, one pod after the other."""
    chosen = {}
    for scheduler in (OURS, THEIRS):
        body = pod(f"of-{scheduler}", namespace, scheduler=scheduler, **spec)
        cluster.client.create(body)
        wait_until(lambda body=body: "nodeName" in cluster.client.read(body)["spec"], 60, f"{scheduler} binds its pod")
        chosen[scheduler] = cluster.client.read(body)["spec"]["nodeName"]
        cluster.client.request(
            "DELETE", f"/api/v1/namespaces/{namespace}/pods/of-{scheduler}", query={"gracePeriodSeconds": "0"}
        )
    return chosen


def test_balance_counts_as_a_change_since_1_36(both, operator, namespace):
    """On `lopsided` the pod makes the use of CPU and memory more equal, on `even` less; on `even` it is more equal
    afterwards.
    """
    both.bulk.create([node(name, cpu="10", memory="10Gi") for name in ("lopsided", "even")])
    for name, cpu, memory in (("lopsided", "6", "1Mi"), ("even", "3500m", "2560Mi")):
        both.client.create(pod(f"on-{name}", namespace, scheduler="none", cpu=cpu, memory=memory, nodeName=name))
    kit.wait_known(operator, 2, 2)
    theirs = "lopsided" if MINOR >= 36 else "even"
    assert _chosen(both, namespace, cpu="1m", memory="3Gi") == {OURS: "lopsided", THEIRS: theirs}


@pytest.mark.kubernetes(35, "image volumes")
def test_the_images_of_volumes_count_since_1_36(both, operator, namespace):
    """`image` has the image of the volume, `cpu` has a little more CPU."""
    with_image = node("image", cpu="8")
    with_image["status"]["images"] = [{"names": ["example.com/data:1"], "sizeBytes": 900 * 1024 * 1024}]
    both.bulk.create([with_image, node("cpu", cpu="10")])
    kit.wait_known(operator, 2, 0)
    volumes = [{"name": "data", "image": {"reference": "example.com/data:1"}}]
    theirs = "image" if MINOR >= 36 else "cpu"
    assert _chosen(both, namespace, cpu="1", memory=None, volumes=volumes) == {OURS: "image", THEIRS: theirs}


def _capacity(namespace: str, storage_class: str, node_name: str, capacity: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": node_name, "namespace": namespace},
        "storageClassName": storage_class,
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": node_name}},
        "capacity": capacity,
    }


def _node_for_claim(cluster: ControlPlane, namespace: str, scheduler: str, storage_class: str) -> str:
    """The node that the scheduler selects for a pod with a claim of 10 GiB."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": scheduler, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }
    cluster.client.create(claim)
    body = pod(f"of-{scheduler}", namespace, scheduler=scheduler, cpu="100m", memory=None)
    body["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": scheduler}}]
    cluster.client.create(body)
    annotations: dict[str, str] = {}

    def selected() -> bool:
        annotations.update(cluster.client.read(claim)["metadata"].get("annotations", {}))
        return SELECTED_NODE in annotations

    wait_until(selected, 60, f"{scheduler} selects a node for the claim")
    return annotations[SELECTED_NODE]
