"""The null scheduler writes to claims what a scheduler writes."""

from __future__ import annotations

import pytest
from benchmarks.null_claims import NullClaims

CLAIM = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
CONSUMER = {"resource": "pods", "name": "p", "uid": "u"}


class Recorder:
    """Answers with what is sent, and gives claims a name."""

    def __init__(self):
        self.sent = []

    async def send(self, method, path, body):
        self.sent.append((method, path, body))
        return {**body, "metadata": {"name": "made", **body.get("metadata", {})}}


@pytest.fixture
def api():
    return Recorder()


def pod(**status):
    limits = status.pop("limits", {})
    containers = [{"name": "pause", "resources": {"limits": limits}}]
    metadata = {"name": "p", "namespace": "team", "uid": "u"}
    return {"metadata": metadata, "spec": {"containers": containers}, "status": status}


def claim(request):
    return {"metadata": {"name": "c", "namespace": "team"}, "spec": {"devices": {"requests": [request]}}}


async def allocated(api, request):
    claims = NullClaims(api, {("team", "c"): claim(request)})
    await claims.write(pod(resourceClaimStatuses=[{"name": "mine", "resourceClaimName": "c"}]), "n1")
    (first, second) = api.sent
    assert first[:2] == ("PUT", f"{CLAIM}/c")
    assert first[2]["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert second[:2] == ("PUT", f"{CLAIM}/c/status")
    assert second[2]["status"]["reservedFor"] == [CONSUMER]
    return [(r["pool"], r["request"], r["device"]) for r in second[2]["status"]["allocation"]["devices"]["results"]]


async def test_a_request_gets_its_number_of_devices(api):
    asked = {"name": "gpu", "exactly": {"count": 2}}
    assert await allocated(api, asked) == [("n1", "gpu", "gpu-0"), ("n1", "gpu", "gpu-1")]


async def test_a_list_gets_its_last_alternative(api):
    asked = {"name": "gpu", "firstAvailable": [{"name": "better"}, {"name": "good"}]}
    assert await allocated(api, asked) == [("n1", "gpu/good", "gpu-0")]


async def test_shares_have_ids_and_capacities(api):
    asked = {"name": "gpu", "exactly": {"count": 2, "capacity": {"requests": {"bandwidth": "1M"}}}}
    await allocated(api, asked)
    one, two = api.sent[1][2]["status"]["allocation"]["devices"]["results"]
    assert one["shareID"] != two["shareID"]
    assert one["consumedCapacity"] == {"bandwidth": "1M"}


async def test_extended_resources_get_a_claim_that_the_pod_names(api):
    await NullClaims(api, {}).write(pod(limits={"example.com/gpu-3": "1", "cpu": "1"}), "n1")
    steps = [(method, path) for method, path, _body in api.sent]
    assert steps == [
        ("POST", CLAIM),
        ("PUT", f"{CLAIM}/made"),
        ("PUT", f"{CLAIM}/made/status"),
        ("PATCH", "/api/v1/namespaces/team/pods/p/status"),
    ]
    created, patched = api.sent[0][2], api.sent[3][2]["status"]["extendedResourceClaimStatus"]
    assert [each["exactly"]["deviceClassName"] for each in created["spec"]["devices"]["requests"]] == ["gpu-3"]
    assert patched["resourceClaimName"] == "made"
    assert [entry["resourceName"] for entry in patched["requestMappings"]] == ["example.com/gpu-3"]


async def test_a_pod_without_claims_costs_nothing(api):
    await NullClaims(api, {}).write(pod(limits={"cpu": "1"}), "n1")
    assert api.sent == []
