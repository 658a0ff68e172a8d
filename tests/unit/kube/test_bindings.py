"""Bindings: which errors are retried, which end the binding, and when the pod is read back."""

from __future__ import annotations

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod import parse_pod
from podwright.kube.api_cluster import BINDING_RETRY, ApiCluster
from podwright.kube.client.retry import RetryPolicy
from support.http.kit import api, hangs_up, says
from support.objects.builders import make_pod

POD = parse_pod(make_pod("web", uid="u1"))
BINDING = "POST /api/v1/namespaces/default/pods/web/binding"
READ = "GET /api/v1/namespaces/default/pods/web"


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """Retries without waiting; the pauses of the policy."""
    pauses = []
    real = RetryPolicy.pause
    monkeypatch.setattr(RetryPolicy, "pause", lambda *arguments: (pauses.append(real(*arguments)), 0.0)[1])
    return pauses


def placed(uid="u1", node="a"):
    return {"metadata": {"uid": uid}, "spec": {"nodeName": node}}


async def test_a_binding_has_the_pods_uid_the_node_and_the_annotations():
    async with api(says(201, {})) as (http, script):
        await ApiCluster(http).bind(POD, "a", {"podwright.dev/decision": "{}"})
        (request,) = script.requests
        assert script.asked == [BINDING]
        assert request.body == {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": "web",
                "namespace": "default",
                "uid": "u1",
                "annotations": {"podwright.dev/decision": "{}"},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": "a"},
        }


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(says(429), id="too many requests"),
        pytest.param(says(500), id="an internal error"),
        pytest.param(says(503), id="unavailable"),
        pytest.param(says(504), id="a timeout of the server"),
        pytest.param(hangs_up(), id="a lost connection"),
    ],
)
async def test_errors_that_may_pass_are_retried(failure):
    async with api(failure, failure, says(201, {})) as (http, script):
        await ApiCluster(http).bind(POD, "a", {})
        assert script.asked == [BINDING] * 3


async def test_retry_after_is_honoured_and_other_pauses_are_short(pauses):
    async with api(says(429, **{"Retry-After": "3"}), says(500), says(201, {})) as (http, _):
        await ApiCluster(http).bind(POD, "a", {})
    assert 3.0 <= pauses[0] <= 5.0
    assert 0.0 <= pauses[1] <= 2.0


async def test_each_429_is_reported():
    throttled = []
    async with api(says(429), says(500), says(429), hangs_up(), says(201, {})) as (http, _):
        await ApiCluster(http, throttled=lambda: throttled.append(1)).bind(POD, "a", {})
    assert len(throttled) == 2


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
async def test_a_refusal_is_not_retried(status):
    async with api(says(status)) as (http, script):
        with pytest.raises(ClusterError) as refused:
            await ApiCluster(http).bind(POD, "a", {})
        assert refused.value.status == status
        assert script.asked == [BINDING]


async def test_it_gives_up_after_the_last_attempt():
    async with api(default=says(500)) as (http, script):
        with pytest.raises(ClusterError, match="says 500"):
            await ApiCluster(http).bind(POD, "a", {})
        assert script.asked == [BINDING] * BINDING_RETRY.attempts


@pytest.mark.parametrize(
    "failure", [pytest.param(says(500), id="500"), pytest.param(hangs_up(), id="a lost connection")]
)
async def test_a_conflict_after_an_unknown_outcome_is_checked(failure):
    async with api(failure, says(409), says(200, placed())) as (http, script):
        await ApiCluster(http).bind(POD, "a", {})
        assert script.asked == [BINDING, BINDING, READ]


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(placed(node="b"), id="it is on another node"),
        pytest.param(placed(uid="u2"), id="it is another pod"),
    ],
)
async def test_a_conflict_with_another_binding_is_an_error(there):
    async with api(says(500), says(409), says(200, there)) as (http, _):
        with pytest.raises(ClusterError) as refused:
            await ApiCluster(http).bind(POD, "a", {})
        assert refused.value.status == 409


async def test_a_conflict_after_429_is_an_error():
    async with api(says(429), says(409)) as (http, script):
        with pytest.raises(ClusterError):
            await ApiCluster(http).bind(POD, "a", {})
        assert script.asked == [BINDING] * 2


async def test_an_unknown_outcome_after_429_is_remembered():
    async with api(says(429), hangs_up(), says(409), says(200, placed())) as (http, script):
        await ApiCluster(http).bind(POD, "a", {})
        assert script.asked == [BINDING, BINDING, BINDING, READ]


async def test_a_binding_is_not_retried_once_its_node_is_gone():
    asked = []
    async with api(says(429), says(500)) as (http, script):
        cluster = ApiCluster(
            http, lambda pod, node: asked.append((pod.name, node)) or ("" if len(asked) == 1 else "it is gone")
        )
        with pytest.raises(ClusterError, match="it is gone"):
            await cluster.bind(POD, "a", {})
        assert script.asked == [BINDING] * 2
        assert asked == [("web", "a")] * 2
