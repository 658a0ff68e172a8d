"""ResourceClaims of PodGroups on the real API server, with the resourceclaim controller: the members share the devices
of one claim, which is reserved for their group. The real kube-scheduler does the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podwright.testing import ControlPlane, wait_until
from support.control_plane import device_driver as dra
from support.control_plane import operator_process as kit
from support.gangs.pod_groups import OURS, WORKLOAD, Case

pytestmark = pytest.mark.kubernetes(37, "ResourceClaims of PodGroups")
CONTROLLERS = ["resourceclaim-controller", "podgroup-protection-controller", "garbage-collector-controller"]
KUBE_SCHEDULER = "default-scheduler"
ENTRIES = [{"name": "mine", "resourceClaimTemplateName": "one"}]


@pytest.fixture(scope="module")
def control_plane(serving_groups: ControlPlane) -> Iterator[ControlPlane]:
    controllers = serving_groups.start_controller_manager(CONTROLLERS)
    yield serving_groups
    controllers.kill()


@pytest.fixture(scope="module", params=[OURS, KUBE_SCHEDULER])
def scheduler(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[str]:
    """The name of a scheduler that runs."""
    if request.param == OURS:
        with kit.running(control_plane) as operator:
            yield OURS
        for text in ("Traceback", "orbidden"):
            assert text not in operator.log()
        return
    server = control_plane.start_scheduler()
    yield KUBE_SCHEDULER
    server.stop()


@pytest.fixture
def case(empty_cluster: ControlPlane, namespace: str) -> Iterator[Case]:
    """Three nodes, of which two have a device each."""
    case = Case(empty_cluster, namespace)
    case.nodes(3, cpu="4")
    with dra.Driver(empty_cluster, {"n1": ["gpu-0"], "n2": ["gpu-0"]}):
        yield case
        dra.delete_claims(empty_cluster, namespace)


def the_claim(case: Case) -> dict[str, Any]:
    (claim,) = dra.claims(case.cluster, case.namespace)
    return claim


def reference(group: dict[str, Any]) -> dict[str, str]:
    metadata = group["metadata"]
    named = {"name": metadata["name"], "uid": metadata["uid"]}
    return {"apiGroup": WORKLOAD.partition("/")[0], "resource": "podgroups", **named}


def delete_pods(case: Case) -> None:
    path = f"/api/v1/namespaces/{case.namespace}/pods"
    case.cluster.client.request("DELETE", path, query={"gracePeriodSeconds": "0"})
    wait_until(lambda: not kit.pods(case.cluster, case.namespace), 30, "the pods are gone")


def test_the_members_share_a_claim_that_is_made_and_reserved_for_their_group(case, scheduler):
    case.cluster.client.create(dra.template("one", case.namespace))
    group = case.group("gang", 3, resourceClaims=ENTRIES)
    case.members("gang", range(3), scheduler=scheduler, resourceClaims=ENTRIES)
    case.wait_placed("gang", 3)
    claim = the_claim(case)
    assert claim["metadata"]["ownerReferences"][0]["uid"] == group["metadata"]["uid"]
    assert claim["status"]["reservedFor"] == [reference(group)]
    (device,) = dra.results_of(claim)
    assert set(case.places("gang")) == {device["pool"]}
    case.wait_condition(group, "True", "Scheduled")

    delete_pods(case)
    assert the_claim(case)["status"]["reservedFor"] == [reference(group)], "the group keeps it for other members"
    case.members("gang", range(3, 6), scheduler=scheduler, resourceClaims=ENTRIES)
    case.wait_placed("gang", 3)
    assert set(case.places("gang")) == {device["pool"]}, "where its devices are"

    delete_pods(case)
    case.cluster.client.delete(group)
    wait_until(lambda: not dra.claims(case.cluster, case.namespace), 60, "the claim has gone with the group")


def test_a_claim_of_a_group_and_those_of_its_pods(case, scheduler):
    client = case.cluster.client
    for name in ("shared", "own"):
        client.create(dra.claim(name, case.namespace))
    entries = [{"name": name, "resourceClaimName": name} for name in ("shared", "own")]
    group = case.group("gang", 1, resourceClaims=entries[:1])
    case.members("gang", [0], scheduler=scheduler, resourceClaims=entries[:1])
    case.wait_placed("gang", 1)
    case.group("other", 1)
    case.members("other", [0], scheduler=scheduler, resourceClaims=entries[1:])
    case.wait_placed("other", 1)
    claims = {claim["metadata"]["name"]: claim for claim in dra.claims(case.cluster, case.namespace)}
    assert claims["shared"]["status"]["reservedFor"] == [reference(group)]
    (own,) = claims["own"]["status"]["reservedFor"]
    assert own["resource"] == "pods"


def test_a_gang_waits_as_a_whole_while_the_devices_of_its_claim_are_elsewhere(case, scheduler):
    """The node with the device has room for two of three."""
    client = case.cluster.client
    client.create(dra.claim("shared", case.namespace))
    entries = [{"name": "shared", "resourceClaimName": "shared"}]
    group = case.group("gang", 3, resourceClaims=entries)
    case.members("gang", range(3), scheduler=scheduler, cpu="1500m", resourceClaims=entries)
    case.wait_condition(group, "False", "Unschedulable")
    assert case.places("gang") == []
    client.request("DELETE", f"/api/v1/namespaces/{case.namespace}/pods/gang-2", query={"gracePeriodSeconds": "0"})
    case.members("gang", [3], scheduler=scheduler, cpu="10m", resourceClaims=entries)
    case.wait_placed("gang", 3)
    (device,) = dra.results_of(the_claim(case))
    assert set(case.places("gang")) == {device["pool"]}
    assert the_claim(case)["status"]["reservedFor"] == [reference(group)]
