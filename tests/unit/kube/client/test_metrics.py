"""Requests to the API server are counted and timed as by client-go."""

from __future__ import annotations

import time

import pytest
from prometheus_client import generate_latest

from podwright.engine.records.metrics import Metrics
from podwright.kube.client.credentials.credentials import Credentials, CredentialSource, Loaded
from podwright.kube.client.errors import ApiError, UnreachableError
from podwright.kube.client.http import Http
from podwright.kube.client.metrics import HostMetrics
from support.http.kit import api, forever, hangs_up, says, served, streams


@pytest.fixture
def metrics():
    return Metrics(time.monotonic)


def samples(metrics, name):
    """Samples by all labels except the host, which is always the same."""
    found = {}
    for family in metrics.registry.collect():
        for sample in family.samples:
            if sample.name == name:
                assert sample.labels["host"].startswith("127.0.0.1:")
                found[tuple(value for label, value in sample.labels.items() if label != "host")] = sample.value
    return found


async def test_requests_are_counted_by_code_and_method(metrics):
    answers = says(201, {}), says(201, {}), says(409), says(200, {})
    async with api(*answers, metrics=metrics) as (http, _):
        for _ in range(2):
            await http.call("POST", "/one", {})
        with pytest.raises(ApiError):
            await http.call("POST", "/one", {})
        await http.call("GET", "/one")
    assert samples(metrics, "rest_client_requests_total") == {
        ("201", "POST"): 2,
        ("409", "POST"): 1,
        ("200", "GET"): 1,
    }
    assert samples(metrics, "rest_client_request_duration_seconds_count") == {("POST",): 3, ("GET",): 1}


async def test_a_request_without_an_answer_is_counted_as_an_error(metrics, monkeypatch):
    monkeypatch.setattr("podwright.kube.client.http.REQUEST_SECONDS", 0.05)

    async def late(_request):
        await forever()

    async with api(hangs_up(), late, metrics=metrics) as (http, _):
        for _ in range(2):
            with pytest.raises(UnreachableError):
                await http.call("POST", "/one", {})
    assert samples(metrics, "rest_client_requests_total") == {("<error>", "POST"): 2}
    assert samples(metrics, "rest_client_request_duration_seconds_sum")["POST",] >= 0.05


async def test_a_request_that_is_retried_is_counted_twice(metrics):
    async with api(says(401), says(200, {}), metrics=metrics) as (http, _):
        await http.call("GET", "/one")
    assert samples(metrics, "rest_client_requests_total") == {("401", "GET"): 1, ("200", "GET"): 1}


async def test_a_user_in_the_servers_url_is_neither_in_metrics_nor_in_the_host(metrics):
    async with served(default=says(200, {})) as (url, script):
        server = url.replace("//", "//jane:secret@")
        http = Http(CredentialSource(lambda _now: Loaded(Credentials(server, None, ())), lambda: 0.0), metrics)
        await http.call("GET", "/one")
        await http.close()
    assert script.requests[0].headers["Host"] == url.removeprefix("http://")
    assert "secret" not in generate_latest(metrics.registry).decode()


async def test_streams_are_counted_but_not_timed(metrics):
    async with api(streams({"a": 1}), says(410), default=hangs_up(), metrics=metrics) as (http, _):
        async with http.stream("/watch", {}) as response:
            await response.read()
        with pytest.raises(ApiError):
            async with http.stream("/watch", {}):
                pass
        with pytest.raises(UnreachableError):
            async with http.stream("/watch", {}):
                pass
    assert samples(metrics, "rest_client_requests_total") == {
        ("200", "GET"): 1,
        ("410", "GET"): 1,
        ("<error>", "GET"): 1,
    }
    assert samples(metrics, "rest_client_request_duration_seconds_count") == {}


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.004, "0.005"), (0.02, "0.025"), (0.2, "0.25"), (3.0, "4"), (60.0, "60"), (61.0, "+Inf")],
)
def test_buckets_match_client_go(metrics, seconds, bucket):
    HostMetrics(metrics, "kubernetes:443").answered("GET", 200, seconds)
    text = generate_latest(metrics.registry).decode()
    lines = [line for line in text.splitlines() if line.startswith("rest_client_request_duration_seconds_bucket")]
    first = next(line for line in lines if line.endswith(" 1.0"))
    assert first == f'rest_client_request_duration_seconds_bucket{{host="kubernetes:443",le="{bucket}",verb="GET"}} 1.0'
    assert [line.split('le="')[1].split('"')[0] for line in lines] == [
        *("0.005", "0.025", "0.1", "0.25", "0.5", "1", "2", "4", "8", "15", "30", "60", "+Inf")
    ]
