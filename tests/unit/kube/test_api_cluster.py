"""RetryingPodReader reads a pod until there is an answer, whatever goes wrong. ApiCluster's updates and waits survive
transient errors.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from podwright.core.framework.interface import ClusterError, ClusterTimeoutError
from podwright.core.objects.pod import parse_pod
from podwright.kube import api_cluster
from podwright.kube.api_cluster import READ_RETRY, ApiCluster, RetryingPodReader
from podwright.kube.client.errors import ApiError
from podwright.kube.client.retry import RetryPolicy
from support.http.kit import api, hangs_up, says
from support.logs.lines import lines_of
from support.objects.builders import make_pod

RAW = make_pod("web")
POD = parse_pod(RAW)


class ScriptedCluster:
    """Answers reads with `answers`, one after the other."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def get(self, kind, name, namespace=""):
        self.asked.append((kind, name, namespace))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def pauses(monkeypatch):
    """Retries without waiting; the pauses of the policy."""
    pauses, real = [], RetryPolicy.pause
    monkeypatch.setattr(RetryPolicy, "pause", lambda *arguments: (pauses.append(real(*arguments)), 0.0)[1])
    return pauses


@pytest.mark.parametrize("answer", [pytest.param(RAW, id="a pod"), pytest.param(None, id="no pod")])
async def test_the_answer_is_parsed(answer):
    cluster = ScriptedCluster(answer)
    assert await RetryingPodReader(cluster).read(POD, lambda raw: ("parsed", raw)) == ("parsed", answer)
    assert cluster.asked == [("Pod", "web", "default")]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ClusterError("no answer"), id="no answer"),
        pytest.param(ClusterError("forbidden", 403), id="a refusal"),
        pytest.param(ApiError(429, "TooManyRequests", "slow down", retry_after=60.0), id="throttling"),
        pytest.param(ZeroDivisionError("unexpected"), id="an unexpected exception"),
    ],
)
async def test_every_error_is_retried_after_a_pause_that_doubles(error, pauses, caplog):
    caplog.set_level(logging.WARNING)
    cluster = ScriptedCluster(*[error] * 7, RAW)
    assert await RetryingPodReader(cluster).read(POD, lambda raw: raw) == RAW
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert lines_of(caplog.records) == [f'cannot read a pod back yet pod="default/web" err="{error}"']


async def test_an_error_of_the_parser_is_retried(pauses):
    cluster = ScriptedCluster({"kind": "Status"}, RAW)
    assert await RetryingPodReader(cluster).read(POD, lambda raw: raw["metadata"]["name"]) == "web"
    assert pauses == [0.2]


@pytest.mark.parametrize("first", [True, False], ids=["in the first attempt", "in a retry"])
async def test_cancellation_ends_the_reading(first, pauses):
    cluster = ScriptedCluster(*([] if first else [ClusterError("no answer")]), asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await RetryingPodReader(cluster).read(POD, lambda raw: raw)
    assert not cluster.answers


def test_only_cancellation_is_not_retried():
    assert READ_RETRY.retries(Exception())
    assert not READ_RETRY.retries(asyncio.CancelledError())


CLAIM = {
    "metadata": {
        "name": "data",
        "namespace": "team",
        "uid": "u1",
        "resourceVersion": "7",
        "annotations": {"volume.kubernetes.io/selected-node": "n1"},
    },
    "spec": {"storageClassName": "local"},
}
PATH = "/api/v1/namespaces/team/persistentvolumeclaims/data"


def stored(version="8", **changes):
    """The claim as the API server has it after the update."""
    metadata = {**CLAIM["metadata"], "resourceVersion": version, "managedFields": [], **changes}
    return {"metadata": metadata, "spec": CLAIM["spec"], "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(says(503), id="the server fails"),
        pytest.param(says(429), id="the server throttles"),
        pytest.param(hangs_up(), id="the connection breaks"),
    ],
)
async def test_an_update_survives_a_transient_error(failure, pauses):
    async with api(failure, says(200, stored())) as (http, script):
        assert await ApiCluster(http).update("PersistentVolumeClaim", CLAIM) == stored()
    assert script.asked == [f"PUT {PATH}"] * 2
    assert script.requests[-1].body == {**CLAIM, "apiVersion": "v1", "kind": "PersistentVolumeClaim"}


async def test_each_refusal_for_too_many_requests_is_reported(pauses):
    told = []
    async with api(says(429), says(429), says(200, stored())) as (http, _script):
        await ApiCluster(http, throttled=lambda: told.append(1)).update("PersistentVolumeClaim", CLAIM)
    assert told == [1, 1]


async def test_a_conflict_with_our_own_first_attempt_is_a_success(pauses):
    async with api(hangs_up(), says(409), says(200, stored())) as (http, script):
        assert await ApiCluster(http).update("PersistentVolumeClaim", CLAIM) == stored()
    assert script.asked == [f"PUT {PATH}", f"PUT {PATH}", f"GET {PATH}"]


@pytest.mark.parametrize(
    ("answers", "requests"),
    [
        pytest.param([says(409)], 1, id="another has changed the object before our first attempt"),
        pytest.param([says(429), says(409)], 2, id="the first attempt was refused before anything was done"),
        pytest.param(
            [hangs_up(), says(409), says(200, stored(annotations={}))], 3, id="the object is another's version"
        ),
        pytest.param([hangs_up(), says(409), says(200, stored(uid="u2"))], 3, id="it is another object of that name"),
        pytest.param([hangs_up(), says(409), says(404)], 3, id="the object is gone"),
    ],
)
async def test_a_conflict_with_others_is_an_error(answers, requests, pauses):
    async with api(*answers) as (http, script):
        with pytest.raises(ApiError, match="says 409"):
            await ApiCluster(http).update("PersistentVolumeClaim", CLAIM)
    assert len(script.requests) == requests


@pytest.mark.parametrize(("status", "requests"), [(403, 1), (404, 1), (422, 1), (500, 4)])
async def test_an_update_gives_up_at_once_or_after_some_attempts(status, requests, pauses):
    async with api(default=says(status)) as (http, script):
        with pytest.raises(ApiError, match=f"says {status}"):
            await ApiCluster(http).update("PersistentVolumeClaim", CLAIM)
    assert len(script.requests) == requests


async def test_a_wait_survives_a_transient_error_and_ends_with_another(monkeypatch):
    monkeypatch.setattr(api_cluster, "POLL_SECONDS", 0.0)
    async with api(says(503), hangs_up(), says(200, RAW)) as (http, script):
        await ApiCluster(http).wait_for("Pod", "web", "default", lambda raw: raw == RAW, 60)
        assert len(script.requests) == 3
        script.answers = [says(403)]
        with pytest.raises(ApiError):
            await ApiCluster(http).wait_for("Pod", "web", "default", lambda raw: raw == RAW, 60)


async def test_a_wait_that_only_sees_errors_ends_at_its_timeout(monkeypatch):
    monkeypatch.setattr(api_cluster, "POLL_SECONDS", 0.0)
    async with api(default=says(503)) as (http, _):
        with pytest.raises(ClusterTimeoutError):
            await ApiCluster(http).wait_for("Pod", "web", "default", lambda _raw: True, 0.05)
