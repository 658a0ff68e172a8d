"""The pager: all pages of a list in order, with the next request on its way before the caller handles a page."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from podwright.kube.client import http as http_module
from podwright.kube.client import pages as pages_module
from podwright.kube.client import response as response_module
from podwright.kube.client.errors import ApiError, TooLongError
from podwright.kube.client.media_types import METADATA_LIST
from podwright.kube.client.pages import list_objects, list_pages, objects_of
from support.http.kit import api, forever, page, says, without_pauses

PODS = "/api/v1/pods"


async def collect(objects):
    return [raw async for raw in objects]


async def test_objects_of_all_pages_come_in_order():
    async with api(page("a", "b", following="more"), page("c")) as (http, script):
        params = {"fieldSelector": "spec.nodeName="}
        assert await collect(list_objects(http, PODS, params, METADATA_LIST)) == ["a", "b", "c"]
        first, second = script.requests
        assert first.query == {"fieldSelector": "spec.nodeName=", "limit": "500"}
        assert second.query == {**first.query, "continue": "more"}
        assert {request.headers["Accept"] for request in script.requests} == {METADATA_LIST}


async def test_a_list_without_items_is_empty():
    async with api(says(200, {"metadata": {}, "items": None})) as (http, _):
        assert await collect(list_objects(http, PODS)) == []


async def test_the_next_page_is_requested_before_the_caller_handles_the_one_before():
    journal = []

    class Pages:
        async def call_with_retries(self, _method, _path, params, accept):
            token = params.get("continue", "first")
            journal.append(f"request {token}")
            following = {"first": "second", "second": None}[token]
            return {"metadata": {"continue": following}, "items": [token]}

    async for raw in list_objects(Pages(), PODS):
        journal.append(f"handle {raw}")  # noqa: PERF401 -- the order of the journal is what is tested
    assert journal == ["request first", "request second", "handle first", "handle second"]


async def test_a_page_that_fails_for_a_moment_is_requested_again(monkeypatch):
    monkeypatch.setattr(http_module, "READ_RETRY", without_pauses(http_module.READ_RETRY))
    async with api(page("a", following="more"), says(500), page("b")) as (http, script):
        assert await collect(list_objects(http, PODS)) == ["a", "b"]
        assert [request.query.get("continue") for request in script.requests] == [None, "more", "more"]


async def test_an_expired_token_is_the_callers_error():
    async with api(page("a", following="more"), says(410)) as (http, _):
        with pytest.raises(ApiError) as expired:
            await collect(list_objects(http, PODS))
        assert expired.value.status == 410


async def test_a_caller_that_stops_early_leaves_no_request_behind():
    async def never(_request):
        await forever()

    async with api(page("a", following="more"), never) as (http, _):
        async with aclosing(list_pages(http, PODS)) as pages:
            async for _page in pages:
                break
        await asyncio.sleep(0)
        assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "podwright list"] == []


@pytest.mark.parametrize(
    "slice_seconds, turns",
    [
        pytest.param(0.0, 100, id="objects that take long"),
        pytest.param(1_000.0, 0, id="objects that take no time"),
    ],
)
async def test_other_tasks_run_while_a_page_is_handled(slice_seconds, turns, monkeypatch):
    monkeypatch.setattr(pages_module, "SLICE_SECONDS", slice_seconds)
    ticks = 0

    async def answer_health_checks():
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    other = asyncio.create_task(answer_health_checks())
    await asyncio.sleep(0)
    assert await collect(objects_of({"items": list(range(100))})) == list(range(100))
    other.cancel()
    assert ticks == turns


async def test_a_page_that_is_too_long_is_read_in_smaller_pages(monkeypatch):
    monkeypatch.setattr(response_module, "BODY_LIMIT", 2_500)
    large = ["x" * 1_500]
    async with api(
        page("a", following="1"), page(*large * 2, following="2"), page(*large, following="2"), page("b")
    ) as (
        http,
        script,
    ):
        assert await collect(list_objects(http, PODS)) == ["a", *large, "b"]
        asked = [(request.query["limit"], request.query.get("continue")) for request in script.requests]
    assert asked == [("500", None), ("500", "1"), ("125", "1"), ("125", "2")]


async def test_one_object_that_is_too_long_is_an_error(monkeypatch):
    monkeypatch.setattr(response_module, "BODY_LIMIT", 1_000)
    async with api(*(page("x" * 2_000) for _ in range(8))) as (http, script):
        with pytest.raises(TooLongError, match="too long"):
            await collect(list_objects(http, PODS))
        assert [request.query["limit"] for request in script.requests] == ["500", "125", "31", "7", "1"]
