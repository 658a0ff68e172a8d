"""The ApiClient of the kubernetes package with our credentials."""

import asyncio
from dataclasses import replace

import pytest
from kubernetes.client import ApiClient, Configuration

from podwright.kube.client import api_client
from podwright.kube.client.api_client import ApiReader, connected
from podwright.kube.client.credentials.credentials import Credentials
from podwright.kube.client.errors import ApiError, TooLongError, UnreachableError
from support.http.kit import hangs_up, page, says, served, streams

NOWHERE = Credentials("http://127.0.0.1:1", None, ())


async def read(url, what, headers=()):
    def run():
        with connected(replace(NOWHERE, server=url, headers=headers)) as client:
            return what(ApiReader(client))

    return await asyncio.to_thread(run)


def names(reader):
    return [raw["name"] for raw in reader.objects_at("/api/v1/pods")]


async def test_a_list_is_read_in_pages():
    async with served(page({"name": "a"}, following="more"), page({"name": "b"})) as (url, script):
        assert await read(url, names) == ["a", "b"]
    assert [request.query for request in script.requests] == [{"limit": "500"}, {"limit": "500", "continue": "more"}]


async def test_a_page_that_is_too_long_is_read_in_smaller_ones(monkeypatch):
    monkeypatch.setattr(api_client, "BODY_LIMIT", 100)
    long = page({"name": "a" * 100})
    async with served(long, page({"name": "a"}), *[long] * 5) as (url, script):
        assert await read(url, names) == ["a"]
        assert [request.query["limit"] for request in script.requests] == ["500", "125"]
        with pytest.raises(TooLongError):
            await read(url, names)
        assert [request.query["limit"] for request in script.requests[2:]] == ["500", "125", "31", "7", "1"]


async def test_headers_may_have_several_values_in_unicode():
    seen = []

    async def serve(request):
        seen.append(request.headers)
        return await says(200, {})(request)

    headers = (("Authorization", "Bearer tökén"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    async with served(serve) as (url, _):
        await read(url, lambda reader: reader.get("/api"), headers)
    assert seen[0].getall("Impersonate-Group") == ["a", "b"]
    assert seen[0].getall("Authorization") == ["Bearer tökén"]
    assert seen[0]["User-Agent"].startswith("podwright/")


async def test_a_client_of_somebody_else_sends_its_own_token():
    configuration = Configuration()
    configuration.api_key["BearerToken"] = "Bearer mine"
    async with served(says(200, {})) as (url, script):
        configuration.host = url
        with ApiClient(configuration) as client:
            await asyncio.to_thread(ApiReader(client).get, "/api")
    assert script.requests[0].headers["Authorization"] == "Bearer mine"


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        pytest.param([says(403, {"reason": "Forbidden", "message": "not you"})], ApiError, "not you", id="a refusal"),
        pytest.param([says(302, "elsewhere", Location="/other")], ApiError, "HTTP 302", id="a redirect"),
        pytest.param([streams(b"<html>")], UnreachableError, "not JSON", id="another program"),
        pytest.param([hangs_up()] * 2, UnreachableError, "without response", id="no answer"),
    ],
)
async def test_errors_are_those_of_our_client(answers, error, message):
    async with served(*answers) as (url, script):
        with pytest.raises(error, match=message):
            await read(url, lambda reader: reader.get("/api"))
    assert len(script.requests) == len(answers)


def test_no_server_is_an_error_at_once(caplog):
    with connected(NOWHERE) as client, pytest.raises(UnreachableError, match="Connection refused"):
        ApiReader(client).get("/api")
    assert caplog.messages == []


async def test_a_busy_server_is_asked_again():
    async with served(says(429, **{"Retry-After": "0"}), says(200, {"a": 1})) as (url, _):
        assert await read(url, lambda reader: reader.get("/api")) == {"a": 1}
