"""RetryingPodReader: reads a pod until there is an answer, whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod import parse_pod
from podwright.kube.api_cluster import READ_RETRY, RetryingPodReader
from podwright.kube.client.errors import ApiError
from podwright.kube.client.retry import RetryPolicy
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
    assert [record.message for record in caplog.records] == [f"pod default/web: cannot read it back yet: {error}"]


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
