"""The harness's watch goes on where the server broke it off."""

import orjson
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from benchmarks.http import Api


def event(kind, version):
    return orjson.dumps({"type": kind, "object": {"metadata": {"resourceVersion": str(version)}}}) + b"\n"


async def watch(answers, asked):
    """The versions seen by a watch from 1 on, of a server that closes after each of `answers`."""
    answers = iter(answers)

    async def serve(request):
        asked.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in next(answers):
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


async def test_it_resumes_from_the_last_event_or_bookmark():
    asked = []
    seen = await watch([[event("ADDED", 2), event("ADDED", 3)], [event("BOOKMARK", 5)], [event("ADDED", 9)]], asked)
    assert seen == ["2", "3", "9"]
    assert asked == ["1", "3", "5"]


async def test_events_may_arrive_in_pieces():
    whole = event("ADDED", 2) + event("ADDED", 9)
    assert await watch([[whole[:10], whole[10:70], whole[70:]]], []) == ["2", "9"]


async def test_an_error_event_is_no_silence():
    with pytest.raises(RuntimeError, match=r"/things.* failed"):
        await watch([[event("ERROR", 2)]], [])
