"""The pager: all pages of a list in order, with the next request on its way before the caller handles a page."""

from __future__ import annotations

import asyncio
import tracemalloc
import weakref
from contextlib import aclosing

import orjson
import pytest
from aiohttp import web

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
        async def page(self, _path, params, _accept, _loads):
            token = params.get("continue", "first")
            journal.append(f"request {token}")
            following = {"first": "second", "second": None}[token]
            return {"metadata": {"continue": following}, "items": [token]}, 100

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
    assert asked == [("500", None), ("500", "1"), ("125", "1"), ("250", "2")]


async def test_one_object_that_is_too_long_is_an_error(monkeypatch):
    monkeypatch.setattr(response_module, "BODY_LIMIT", 1_000)
    async with api(*(page("x" * 2_000) for _ in range(8))) as (http, script):
        with pytest.raises(TooLongError, match="too long"):
            await collect(list_objects(http, PODS))
        assert [request.query["limit"] for request in script.requests] == ["500", "125", "31", "7", "1"]


async def test_the_page_after_a_large_one_is_requested_once_that_is_handled_and_gone():
    journal, alive = [], weakref.WeakSet()

    class Page(dict):
        __hash__ = object.__hash__

    class Pages:
        async def page(self, _path, params, _accept, _loads):
            token = params.get("continue", "first")
            journal.append(f"request {token}, {len(alive)} in memory")
            page = Page(metadata={"continue": {"first": "second", "second": ""}[token]}, items=[token])
            alive.add(page)
            return page, pages_module.PAGE_BYTES + 1

    async for raw in list_objects(Pages(), PODS):
        journal.append(f"handle {raw}")  # noqa: PERF401 -- the order of the journal is what is tested
    assert journal == ["request first, 0 in memory", "handle first", "request second, 0 in memory", "handle second"]


@pytest.mark.parametrize(
    ("pages", "limits"),
    [
        pytest.param([(500, 100)] * 4, ["500"] * 4, id="small objects"),
        pytest.param([(500, 10_000), (250, 10_000), (250, 10_000)], ["500", "400", "400"], id="larger ones"),
        pytest.param([(1, 9_000_000), (1, 3_000_000), (1, 100)], ["500", "1", "1"], id="one to a page"),
        pytest.param(
            [(4, 2_000_000), *[(1, 10)] * 9],
            ["500", "2", *["4", "8", "16", "32", "64", "128", "256", "500"]],
            id="one wave",
        ),
        pytest.param([(4, 2_000_000), (0, 10), (1, 10)], ["500", "2", "4"], id="an empty page"),
    ],
)
async def test_pages_become_smaller_with_the_size_of_their_objects_and_slowly_larger_again(pages, limits, monkeypatch):
    monkeypatch.setattr(pages_module, "PAGE_BYTES", 4_000_000)
    asked = []

    class Pages:
        async def page(self, _path, params, _accept, _loads):
            number = len(asked)
            count, size = pages[number]
            asked.append(params["limit"])
            more = {"continue": "more"} if number + 1 < len(pages) else {}
            return {"metadata": more, "items": [0] * count}, max(1, count) * size

    await collect(list_objects(Pages(), PODS))
    assert asked == limits


LARGEST = orjson.dumps({"args": ["x" * (1 << 20)] * 9})
"""9 MB. A pod of 1.5 MB in etcd has as much JSON if each character is written with six bytes."""


def serving_the_largest(count):
    """Answers requests for pages of a list of the largest objects, without ever holding a whole page."""

    async def serve(request):
        start = int(request.query.get("continue", "0"))
        end = min(count, start + int(request.query["limit"]))
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"metadata":{"continue":"%b"},"items":[' % (b"%d" % end if end < count else b""))
        for number in range(start, end):
            for at in range(0, len(LARGEST), 1 << 18):
                await response.write(LARGEST[at : at + (1 << 18)])
            await response.write(b"," if number + 1 < end else b"]}")
        return response

    return serve


async def peak_of_a_list(count):
    """Bytes that Python needs at most for a list of the largest objects."""
    async with api(default=serving_the_largest(count)) as (http, _):
        tracemalloc.start()
        try:
            assert [len(raw["args"]) async for raw in list_objects(http, PODS)] == [9] * count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


async def test_a_list_of_the_largest_objects_needs_little_more_memory_than_one_of_them():
    one, many = await peak_of_a_list(1), await peak_of_a_list(40)
    assert many < 1.2 * one
    assert many < 160 << 20, "the parser reserves twelve bytes for each byte of JSON, and does not use most of them"
