"""The SchedulerPolicy CRD on the real API server: validation, defaults, and kubectl's output."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from podwright.testing import AnswerError, ControlPlane, KubectlError, wait_until
from support.control_plane import operator_process as kit
from support.objects import policies as files

GROUP = "/apis/podwright.dev/v1alpha1/schedulerpolicies"


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with the CRD established. The CRD stays, since other tests need it."""
    control_plane.apply(files.CRD)
    kit.wait_listed(control_plane, "schedulerpolicies")
    return control_plane


@pytest.fixture
def name(served: ControlPlane) -> Iterator[str]:
    """A policy name. A policy of that name is deleted after the test."""
    name = f"p-{uuid.uuid4().hex[:8]}"
    yield name
    served.client.delete(policy(name, {}))


def policy(name, spec):
    return {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": {"name": name}, "spec": spec}


def test_the_api_server_establishes_the_crd(served):
    crd = served.client.get(
        f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{files.load(files.CRD)['metadata']['name']}"
    )
    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions


def explained(served: ControlPlane) -> bool:
    """True if kubectl finds the schema, which the API server publishes some time after it serves the kind."""
    try:
        return "FIELDS" in served.kubectl("explain", "schedulerpolicy.spec")
    except KubectlError:
        return False


def test_kubectl_explain_describes_every_field(served):
    wait_until(lambda: explained(served), 60, "the API server publishes the schema")
    spec = served.kubectl("explain", "schedulerpolicy.spec")
    for field in (
        "schedulerName\t<string>",
        "match\t<Object>",
        "precedence\t<integer>",
        "strategy\t<Object>",
        "pluginConfig\t<[]Object>",
    ):
        assert field in spec
    assert "the greatest precedence wins" in " ".join(spec.split())
    strategy = " ".join(served.kubectl("explain", "spol.spec.strategy").split())
    assert "changes scoring only" in strategy
    assert "enum: Default, LeastAllocated" in strategy
    assert "no description" not in served.kubectl("explain", "spol", "--recursive")


def test_defaults_are_filled_in(served, name):
    served.apply(policy(name, {"strategy": {"resources": []}}))
    spec = served.client.get(f"{GROUP}/{name}")["spec"]
    assert spec == {
        "schedulerName": "podwright",
        "precedence": 0,
        "byName": "Never",
        "mode": "Enforce",
        "onPluginFailure": "Reject",
        "packing": "None",
        "packingMayPreempt": False,
        "strategy": {"type": "Default", "resources": []},
    }
    served.apply(policy(name, {"strategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}}))
    assert served.client.get(f"{GROUP}/{name}")["spec"]["strategy"]["resources"] == [{"name": "cpu", "weight": 1}]


def test_columns_show_strategy_scheduler_name_acceptance_and_reason(served, name):
    served.apply(policy(name, {"schedulerName": "ml", "strategy": {"type": "Random"}}))
    condition = {
        "type": "Accepted",
        "status": "False",
        "reason": "Invalid",
        "message": "spec.precedence: no",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    live = served.client.get(f"{GROUP}/{name}")
    live |= {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy"}
    active = {**condition, "type": "Active", "reason": "Shadowed", "message": "Policy all goes first."}
    live["status"] = {"observedGeneration": 1, "conditions": [condition, active]}
    served.client.replace(live, subresource="status")
    header, row = served.kubectl("get", "spol", name).splitlines()
    assert re.split(r"\s{2,}", header.strip()) == [
        *("NAME", "STRATEGY", "SCHEDULER NAME", "ACCEPTED", "ACTIVE", "REASON", "PRECEDENCE", "AGE")
    ]
    assert row.split()[:7] == [name, "Random", "ml", "False", "False", "Shadowed", "0"]
    assert "spec.precedence: no" in served.kubectl("get", "spol", name, "-o", "wide")
    assert name in served.kubectl("get", "podwright")


def test_writing_the_spec_does_not_change_the_status(served, name):
    served.apply(policy(name, {}) | {"status": {"observedGeneration": 7}})
    assert "status" not in served.client.get(f"{GROUP}/{name}")


def test_plugin_args_are_stored_unchanged(served, name):
    args = {
        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]},
        "other": [1, {"x": None}],
    }
    served.apply(policy(name, {"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}))
    kept = served.client.get(f"{GROUP}/{name}")["spec"]["pluginConfig"][0]["args"]
    assert kept["scoringStrategy"] == args["scoringStrategy"]
    assert kept["other"][0] == 1


@pytest.mark.parametrize("path", files.each(files.EXAMPLES))
def test_examples_are_accepted(served, path):
    output = served.kubectl("apply", "--dry-run=server", "-f", str(path))
    assert f"{path.stem} created" in output or f"{path.stem} configured" in output


@pytest.mark.parametrize("path", files.each(files.BAD))
def test_invalid_policies_are_rejected_with_the_name_of_the_field(served, path):
    """The request is that of `kubectl create`."""
    with pytest.raises(AnswerError) as caught:
        served.client.request("POST", GROUP, files.load(path), {"fieldValidation": "Strict"})
    output = re.sub(r"Invalid value: \"\{.*?\}\":", "", str(caught.value))
    field = files.wrong_field(path)
    assert re.search(rf"(^|[\s\"\[]){re.escape(field)}(?!\w)", output), output
