"""The answers of a running operator, and the handling of errors."""

import asyncio

import pytest

from podwright.simulator.live import LiveConnection
from podwright.simulator.operator_client import OperatorError, ask
from support.http.kit import says, served


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param(says(200, {"queue": "active"}), {"queue": "active"}, id="an object"),
        pytest.param(says(200, ["active"]), {}, id="something else"),
        pytest.param(says(404, {}), {}, id="nothing known"),
    ],
)
async def test_an_operator_answers(answer, found):
    async with served(answer) as (url, script):
        assert await asyncio.to_thread(ask, url, "/debug/explain", {"pod": "a b"}, LiveConnection()) == found
    (request,) = script.requests
    assert (request.path, dict(request.query)) == ("/debug/explain", {"pod": "a b"})
    assert "Authorization" not in request.headers


async def test_an_operator_that_refuses_is_named():
    async with served(says(403, {"message": "not you"})) as (url, _):
        with pytest.raises(OperatorError, match=f"{url}: not you"):
            await asyncio.to_thread(ask, url, "/debug/explain", {}, LiveConnection())


def test_plain_http_has_no_user_to_act_as():
    with pytest.raises(OperatorError, match="over plain HTTP there are no users: leave out --as"):
        ask("http://127.0.0.1:1", "/debug/explain", {}, LiveConnection(as_user="ann"))
