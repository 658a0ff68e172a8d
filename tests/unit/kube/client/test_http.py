"""One way to the API server: errors as exceptions, and credentials that are loaded anew when they are refused."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from podwright.kube.client import http as module
from podwright.kube.client.credentials import Credentials, Loaded, Source
from podwright.kube.client.errors import ApiError, ConfigError, UnreachableError
from podwright.kube.client.http import Http
from support.http.kit import api, forever, hangs_up, says, served, without_pauses


async def test_an_object_goes_out_and_comes_back():
    async with api(says(201, {"kind": "Pod"})) as (http, script):
        assert await http.call("POST", "/api/v1/pods", {"a": 1}, params={"x": "a,b=c"}) == {"kind": "Pod"}
        (request,) = script.requests
        assert (request.method, request.path, request.query) == ("POST", "/api/v1/pods", {"x": "a,b=c"})
        assert request.body == {"a": 1}
        assert request.headers["Authorization"] == "Bearer t"
        assert request.headers["Content-Type"] == "application/json"


async def test_a_refusal_carries_what_the_server_said():
    async with api(says(429, **{"Retry-After": "7"})) as (http, _):
        with pytest.raises(ApiError, match="says 429") as refused:
            await http.call("GET", "/api/v1/pods")
        assert (refused.value.status, refused.value.reason, refused.value.retry_after) == (429, "R429", 7.0)


async def test_an_answer_that_is_no_json_is_an_error_with_its_text():
    async def proxy(_request):
        return aiohttp.web.Response(status=502, text="<html>bad gateway")

    async with api(proxy) as (http, _):
        with pytest.raises(ApiError, match="HTTP 502 <html>bad gateway"):
            await http.call("GET", "/api/v1/pods")


async def test_no_answer_is_an_error_of_its_own():
    async with api(hangs_up()) as (http, _):
        with pytest.raises(UnreachableError):
            await http.call("POST", "/api/v1/pods", {})


async def test_an_answer_that_takes_too_long_is_no_answer():
    async def late(_request):
        await forever()

    async with api(late) as (http, _):
        with pytest.raises(UnreachableError):
            await http.call("GET", "/api/v1/pods", timeout=0.05)


async def test_nobody_listening_is_no_answer():
    source = Source(lambda _now: Loaded(Credentials("http://127.0.0.1:1", None, ())), lambda: 0.0)
    http = Http(source)
    with pytest.raises(UnreachableError):
        await http.call("GET", "/api/v1/pods")
    await http.close()


class Tokens:
    """A loader that gives another token each time."""

    def __init__(self, url: str, lasts: float = float("inf")) -> None:
        self.url = url
        self.lasts = lasts
        self.count = 0

    def __call__(self, now: float) -> Loaded:
        self.count += 1
        headers = (("Authorization", f"Bearer {self.count}"),)
        return Loaded(Credentials(self.url, None, headers), now + self.lasts)


def tokens_sent(script):
    return [request.headers["Authorization"] for request in script.requests]


async def test_refused_credentials_are_loaded_anew_and_the_request_is_sent_again():
    async with served(says(200, {}), says(401), says(200, {"ok": True})) as (url, script):
        http = Http(Source(Tokens(url), lambda: 0.0))
        await http.call("GET", "/one")
        assert await http.call("GET", "/two") == {"ok": True}
        assert tokens_sent(script) == ["Bearer 1", "Bearer 1", "Bearer 2"]
        await http.close()


class Troubled(Tokens):
    """A loader that fails while there is `trouble`; `tries` counts how often it was asked."""

    def __init__(self, url: str) -> None:
        super().__init__(url, lasts=60)
        self.trouble: Exception | None = None
        self.tries = 0

    def __call__(self, now: float) -> Loaded:
        self.tries += 1
        if self.trouble is not None:
            raise self.trouble
        return super().__call__(now)


TROUBLES = [ConfigError("plugin aws ended with 255"), OSError("too many open files")]


@pytest.mark.parametrize("trouble", TROUBLES, ids=str)
async def test_credentials_that_cannot_be_renewed_for_now_are_used_until_they_are_refused(trouble):
    async with served(default=says(200, {})) as (url, script):
        tokens, times = Troubled(url), [0.0]
        http = Http(Source(tokens, lambda: times[-1]))
        await http.call("GET", "/one")
        times.append(60.0)
        tokens.trouble = trouble
        for _ in range(5):
            await http.call("GET", "/two")
        assert (tokens_sent(script), tokens.tries) == (["Bearer 1"] * 6, 2)
        tokens.trouble = None
        times.append(63.0)
        await http.call("GET", "/three")
        assert tokens_sent(script)[-1] == "Bearer 2"
        await http.close()


@pytest.mark.parametrize("trouble", TROUBLES, ids=str)
async def test_without_credentials_for_now_it_is_as_if_the_server_were_away(trouble):
    """A credential plugin may fail for a while: who can wait for the server can wait for it."""
    async with served(says(200, {}), says(401), default=says(200, {})) as (url, script):
        tokens, times = Troubled(url), [0.0]
        http = Http(Source(tokens, lambda: times[-1]))
        await http.call("GET", "/one")
        tokens.trouble = trouble
        for _ in range(5):
            with pytest.raises(UnreachableError, match=str(trouble)):
                await http.call("GET", "/two")
        with pytest.raises(UnreachableError):
            async with http.stream("/watch", {}):
                pass
        assert (len(script.requests), tokens.tries) == (2, 2)
        tokens.trouble = None
        times.append(3.0)
        await http.call("GET", "/three")
        assert tokens_sent(script)[-1] == "Bearer 2"
        await http.close()


async def test_connections_of_credentials_that_were_renewed_are_closed_in_time():
    """A plugin that issues certificates brings a new TLS context each time."""
    transports = []

    async def note_transport(request):
        transports.append(request.transport)
        return await says(200, {})(request)

    async with served(default=note_transport) as (url, _):
        hosts = iter([url, url.replace("127.0.0.1", "localhost")] * 3)
        http = Http(Source(lambda now: Loaded(Credentials(next(hosts), None, ()), now), time := Ticks()))
        for _ in range(4):
            await http.call("GET", "/one")
            time.now += 60.0
        async with asyncio.timeout(5):
            while not all(transport.is_closing() for transport in transports[:2]):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert not any(transport.is_closing() for transport in transports[2:])
        await http.close()


class Ticks:
    """A clock that stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_credentials_that_make_no_sense_at_the_start_are_said_to():
    def loader(_now):
        raise ConfigError("no current context")

    http = Http(Source(loader, lambda: 0.0))
    with pytest.raises(ConfigError):
        await http.call("GET", "/one")
    await http.close()


async def test_credentials_that_stay_refused_are_an_error():
    async with served(default=says(401)) as (url, script):
        http = Http(Source(Tokens(url), lambda: 0.0))
        with pytest.raises(ApiError, match="says 401"):
            await http.call("GET", "/one")
        assert len(script.requests) == 2
        await http.close()


async def test_a_token_that_is_due_is_read_again_before_it_is_refused():
    times = [0.0]
    async with served(default=says(200, {})) as (url, script):
        http = Http(Source(Tokens(url, lasts=60), lambda: times[-1]))
        for now in (0.0, 59.0, 60.0):
            times.append(now)
            await http.call("GET", "/one")
        assert tokens_sent(script) == ["Bearer 1", "Bearer 1", "Bearer 2"]
        await http.close()


async def test_a_stream_whose_answer_does_not_begin_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.1)

    async def never(_request):
        await forever()

    async with api(never) as (http, _):
        with pytest.raises(UnreachableError):
            async with http.stream("/watch", {"watch": "1"}):
                pass


async def test_a_stream_that_is_refused_says_why():
    async with api(says(410)) as (http, _):
        with pytest.raises(ApiError) as refused:
            async with http.stream("/watch", {}):
                pass
        assert refused.value.status == 410


async def test_after_closing_nothing_is_sent():
    async with api(default=says(200, {})) as (http, _):
        await http.call("GET", "/one")
        await http.close()
        with pytest.raises(UnreachableError):
            await http.call("GET", "/one")


async def test_reads_are_tried_again_while_that_may_help(monkeypatch):
    monkeypatch.setattr(module, "READ_RETRY", without_pauses(module.READ_RETRY))
    async with api(says(500), hangs_up(), says(429, **{"Retry-After": "1"}), says(504), says(200, {"a": 1})) as (
        http,
        script,
    ):
        assert await http.call_with_retries("GET", "/api/v1/pods", params={"limit": "5"}) == {"a": 1}
        assert [request.query for request in script.requests] == [{"limit": "5"}] * 5


@pytest.mark.parametrize(
    ("answers", "status", "tries"),
    [
        pytest.param([says(403)], 403, 1, id="a refusal is final"),
        pytest.param([says(500)] * 5, 500, 5, id="a server that fails again and again is left alone for now"),
    ],
)
async def test_retries_of_a_read_end(monkeypatch, answers, status, tries):
    monkeypatch.setattr(module, "READ_RETRY", without_pauses(module.READ_RETRY))
    async with api(*answers) as (http, script):
        with pytest.raises(ApiError) as refused:
            await http.call_with_retries("GET", "/api/v1/pods")
        assert refused.value.status == status
        assert len(script.requests) == tries


async def test_a_good_answer_with_a_garbled_body_is_no_answer():
    async def garbled(_request):
        return aiohttp.web.Response(body=b'{"items": [{"met')

    async with api(garbled) as (http, _):
        with pytest.raises(UnreachableError, match="not JSON"):
            await http.call("GET", "/api/v1/pods")


async def test_a_kind_that_nobody_asked_for_before_is_asked_for_again_at_once(monkeypatch):
    pauses, answers = [], ["storage is (re)initializing", "too many requests"]

    async def call(*_args, **_options):
        if answers:
            raise ApiError(429, "TooManyRequests", answers.pop(0), retry_after=1.0)
        return {"items": []}

    async def sleep(seconds):
        pauses.append(seconds)

    http = Http(Source(lambda _now: None, lambda: 0.0))
    monkeypatch.setattr(http, "call", call)
    monkeypatch.setattr("asyncio.sleep", sleep)
    assert await http.call_with_retries("GET", "/apis/podwright.dev/v1alpha1/schedulerpolicies") == {"items": []}
    assert pauses == [0.05, 1.0]
