"""The client's watch resumes after the server closes it."""

import orjson
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from benchmarks.http_client import Api


def event(kind, version):
    return orjson.dumps({"type": kind, "object": {"metadata": {"resourceVersion": str(version)}}}) + b"\n"


async def watch(responses, requested):
    """The versions that a watch from version 1 sees, from a server that closes the connection after each of
    `responses`.
    """
    responses = iter(responses)

    async def serve(request):
        requested.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in next(responses):
            await response.write(piece)
        return response

    app = web.Application()
    app.router.add_get("/things", serve)
    seen = []
    async with TestServer(app) as server, ClientSession(server.make_url("/")) as session:
        async for item in Api(session).watch("/things?fieldSelector=a", "1"):
            seen.append(item["object"]["metadata"]["resourceVersion"])
            if seen[-1] == "9":
                break
    return seen


async def test_a_watch_resumes_from_the_last_event_or_bookmark():
    requested = []
    seen = await watch([[event("ADDED", 2), event("ADDED", 3)], [event("BOOKMARK", 5)], [event("ADDED", 9)]], requested)
    assert seen == ["2", "3", "9"]
    assert requested == ["1", "3", "5"]


async def test_an_event_may_arrive_in_several_chunks():
    whole = event("ADDED", 2) + event("ADDED", 9)
    assert await watch([[whole[:10], whole[10:70], whole[70:]]], []) == ["2", "9"]


async def test_an_error_event_raises():
    with pytest.raises(RuntimeError, match=r"/things.* failed"):
        await watch([[event("ERROR", 2)]], [])
