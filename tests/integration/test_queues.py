"""SchedulingQueues on the real API server: validation, defaults, and kubectl's output."""

from __future__ import annotations

import re
import uuid

import pytest

from podwright.testing import ControlPlane, KubectlError, wait_until
from support.control_plane import operator_process as kit
from support.objects import queues as files

COLLECTION = "/apis/podwright.dev/v1alpha1/schedulingqueues"


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with the CRD established."""
    control_plane.apply(files.CRD)
    kit.wait_listed(control_plane, "schedulingqueues")
    return control_plane


def test_the_schema_is_structural_and_documented(served):
    crd = served.client.get(
        f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{files.load(files.CRD)['metadata']['name']}"
    )
    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions

    def explained() -> bool:
        try:
            return "FIELDS" in served.kubectl("explain", "squeue.spec")
        except KubectlError:
            return False

    wait_until(explained, 60, "the API server publishes the schema")
    described = " ".join(served.kubectl("explain", "squeue.spec.resources").split())
    assert "What the queue gets before others get more than their guarantees" in described
    assert "no description" not in served.kubectl("explain", "squeue", "--recursive")


def test_defaults_are_filled_in_and_quantities_stay_as_they_were_written(served):
    name = f"q-{uuid.uuid4().hex[:8]}"
    raw = files.queue(name, resources={"cpu": {"guarantee": "1500m", "limit": 2}})
    del raw["metadata"]["uid"], raw["metadata"]["generation"]
    served.apply(raw)
    spec = served.client.get(f"{COLLECTION}/{name}")["spec"]
    assert spec == {
        "parent": "",
        "priority": 100,
        "state": "Open",
        "preemptMinRuntime": "0s",
        "reclaimMinRuntime": "0s",
        "usageHalfLife": "0s",
        "maxRuntime": "0s",
        "resources": {"cpu": {"guarantee": "1500m", "limit": 2, "weight": 1}},
    }
    header, row = served.kubectl("get", "squeue", name).splitlines()
    assert re.split(r"\s{2,}", header.strip()) == [
        *("NAME", "PARENT", "STATE", "ACCEPTED", "ALLOCATED", "PENDING", "AGE")
    ]
    assert row.split()[:2] == [name, "Open"]
    served.kubectl("delete", "squeue", name)


def test_the_example_is_accepted(served):
    for path in files.EXAMPLES:
        assert served.kubectl("apply", "--dry-run=server", "-f", str(path)).count("created") == 3


@pytest.mark.parametrize("path", files.each(files.BAD))
def test_an_invalid_queue_is_rejected_with_the_name_of_the_field(served, path):
    with pytest.raises(KubectlError) as caught:
        served.kubectl("apply", "-f", str(path))
    output = re.sub(r"\[([a-z]+)\]", r".\1", str(caught.value))
    assert re.search(rf"(^|[\s\"]){re.escape(files.wrong_field(path))}(?!\w)", output), output
