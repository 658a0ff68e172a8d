"""The CRD of custom pod groups on the real API server: validation and kubectl's output."""

from __future__ import annotations

from typing import Any

import pytest

from podwright.testing import ControlPlane, KubectlError, wait_until
from support.control_plane import operator_process as kit

NAME = "podgroups.scheduling.x-k8s.io"
SERVED = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with manifests/gangs, which stays installed."""
    control_plane.apply(kit.CHECKOUT / "manifests" / "gangs")
    wait_until(lambda: control_plane.client.raw("GET", SERVED)[0] == 200, 30, "the API server serves pod groups")
    return control_plane


def group(namespace: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "training", "namespace": namespace}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def test_the_api_server_establishes_the_crd(served):
    crd = served.client.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}")
    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions


def test_kubectl_shows_the_progress_of_a_group(served, namespace):
    body = group(namespace, minMember=3, minResources={"cpu": 4, "memory": "8Gi"}, scheduleTimeoutSeconds=60)
    served.client.create(body)
    assert served.client.read(body)["spec"] == body["spec"]
    served.client.patch(body, {"status": {"phase": "Running", "scheduled": 3, "running": 2}}, "status")
    header, line = served.kubectl("get", "pg", "-n", namespace).splitlines()
    assert header.split() == ["NAME", "PHASE", "MINMEMBER", "SCHEDULED", "RUNNING", "SUCCEEDED", "FAILED", "AGE"]
    assert line.split()[:5] == ["training", "Running", "3", "3", "2"]
    served.client.delete(body)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"minMember": 0}, "spec.minMember", id="minMember is zero"),
        pytest.param({"minMember": "three"}, "spec.minMember", id="minMember is a string"),
        pytest.param({"minMember": 1, "scheduleTimeoutSeconds": 0}, "spec.scheduleTimeoutSeconds", id="the timeout is zero"),
        pytest.param({"minMember": 1, "minResources": {"cpu": [1]}}, "spec.minResources.cpu", id="a quantity is a list"),
    ],
)  # fmt: skip
def test_invalid_groups_are_rejected(served, namespace, spec, field):
    with pytest.raises(KubectlError, match=field):
        served.apply(group(namespace, **spec))
