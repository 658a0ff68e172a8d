"""The API client: errors as exceptions, retried reads, and credentials that are loaded again when they are refused."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from podwright.kube.client import http as module
from podwright.kube.client import streams
from podwright.kube.client.credentials.credentials import TRIAL_SECONDS, Credentials, CredentialSource, Loaded
from podwright.kube.client.errors import ApiError, ConfigError, UnreachableError
from podwright.kube.client.http import Http
from support.http.kit import api, forever, hangs_up, says, served, without_pauses
from support.waiting import patience


async def test_call_sends_an_object_and_returns_the_parsed_response():
    async with api(says(201, {"kind": "Pod"})) as (http, script):
        assert await http.call("POST", "/api/v1/pods", {"a": 1}, params={"x": "a,b=c"}) == {"kind": "Pod"}
        (request,) = script.requests
        assert (request.method, request.path, request.query) == ("POST", "/api/v1/pods", {"x": "a,b=c"})
        assert request.body == {"a": 1}
        assert request.headers["Authorization"] == "Bearer t"
        assert request.headers["Content-Type"] == "application/json"


async def test_an_api_error_has_the_servers_status_reason_and_retry_after():
    async with api(says(429, **{"Retry-After": "7"})) as (http, _):
        with pytest.raises(ApiError, match="says 429") as refused:
            await http.call("GET", "/api/v1/pods")
        assert (refused.value.status, refused.value.reason, refused.value.retry_after) == (429, "R429", 7.0)


@pytest.mark.parametrize(
    ("method", "status", "refused"), [("POST", 403, True), ("GET", 403, False), ("POST", 409, False)]
)
async def test_a_refused_write_is_noted(method, status, refused):
    async with api(says(status)) as (http, _):
        await http.send(method, "/api/v1/pods")
        assert http.refused_write.is_set() is refused


async def test_an_error_response_that_is_not_json_keeps_its_text():
    async def proxy(_request):
        return aiohttp.web.Response(status=502, text="<html>bad gateway")

    async with api(proxy) as (http, _):
        with pytest.raises(ApiError, match="HTTP 502 <html>bad gateway"):
            await http.call("GET", "/api/v1/pods")


async def test_a_broken_connection_is_an_unreachable_error():
    async with api(hangs_up()) as (http, _):
        with pytest.raises(UnreachableError):
            await http.call("POST", "/api/v1/pods", {})


async def test_a_timeout_is_an_unreachable_error(monkeypatch):
    monkeypatch.setattr("podwright.kube.client.http.REQUEST_SECONDS", 0.05)

    async def late(_request):
        await forever()

    async with api(late) as (http, _):
        with pytest.raises(UnreachableError):
            await http.call("GET", "/api/v1/pods")


async def test_a_refused_connection_is_an_unreachable_error():
    source = CredentialSource(lambda _now: Loaded(Credentials("http://127.0.0.1:1", None, ())), lambda: 0.0)
    http = Http(source)
    with pytest.raises(UnreachableError):
        await http.call("GET", "/api/v1/pods")
    await http.close()


class Tokens:
    """A loader that returns a new token each time."""

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


async def test_refused_credentials_are_loaded_again_and_the_request_is_sent_again():
    async with served(says(200, {}), says(401), says(200, {"ok": True})) as (url, script):
        http = Http(CredentialSource(Tokens(url), lambda: 0.0))
        await http.call("GET", "/one")
        assert await http.call("GET", "/two") == {"ok": True}
        assert tokens_sent(script) == ["Bearer 1", "Bearer 1", "Bearer 2"]
        await http.close()


class FailingTokens(Tokens):
    """A loader that raises `failure` while it is set; `tries` counts its calls."""

    def __init__(self, url: str) -> None:
        super().__init__(url, lasts=60)
        self.failure: Exception | None = None
        self.tries = 0

    def __call__(self, now: float) -> Loaded:
        self.tries += 1
        if self.failure is not None:
            raise self.failure
        return super().__call__(now)


FAILURES = [ConfigError("plugin aws ended with 255"), OSError("too many open files")]


@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_credentials_that_cannot_be_renewed_are_used_until_they_are_refused(failure):
    async with served(default=says(200, {})) as (url, script):
        tokens, times = FailingTokens(url), [0.0]
        http = Http(CredentialSource(tokens, lambda: times[-1]))
        await http.call("GET", "/one")
        times.append(60.0)
        tokens.failure = failure
        for _ in range(5):
            await http.call("GET", "/two")
        assert (tokens_sent(script), tokens.tries) == (["Bearer 1"] * 6, 2)
        tokens.failure = None
        times.append(63.0)
        await http.call("GET", "/three")
        assert tokens_sent(script)[-1] == "Bearer 2"
        await http.close()


@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_while_refused_credentials_cannot_be_renewed_the_server_counts_as_unreachable(failure):
    """A credential plugin may fail for a while, like the server. Callers retry both."""
    async with served(says(200, {}), says(401), default=says(200, {})) as (url, script):
        tokens, times = FailingTokens(url), [0.0]
        http = Http(CredentialSource(tokens, lambda: times[-1]))
        await http.call("GET", "/one")
        tokens.failure = failure
        for _ in range(5):
            with pytest.raises(UnreachableError, match=str(failure)):
                await http.call("GET", "/two")
        with pytest.raises(UnreachableError):
            async with http.stream("/watch", {}):
                pass
        assert (len(script.requests), tokens.tries) == (2, 2)
        tokens.failure = None
        times.append(3.0)
        await http.call("GET", "/three")
        assert tokens_sent(script)[-1] == "Bearer 2"
        await http.close()


async def test_connections_of_old_credentials_are_closed():
    """A plugin that issues certificates returns a new TLS context each time."""
    transports = []

    async def note_transport(request):
        transports.append(request.transport)
        return await says(200, {})(request)

    async with served(default=note_transport) as (url, _):
        hosts = iter([url, url.replace("127.0.0.1", "localhost")] * 3)
        http = Http(CredentialSource(lambda now: Loaded(Credentials(next(hosts), None, ()), now), time := Ticks()))
        for _ in range(4):
            await http.call("GET", "/one")
            time.now += 60.0
        async with patience():
            while not all(transport.is_closing() for transport in transports[:2]):
                await asyncio.sleep(0.005)
        assert not any(transport.is_closing() for transport in transports[2:])
        await http.close()


class Ticks:
    """A clock that stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_invalid_credentials_at_the_start_are_a_config_error():
    def loader(_now):
        raise ConfigError("no current context")

    http = Http(CredentialSource(loader, lambda: 0.0))
    with pytest.raises(ConfigError):
        await http.call("GET", "/one")
    await http.close()


async def test_credentials_that_are_refused_twice_are_an_api_error():
    async with served(default=says(401)) as (url, script):
        http = Http(CredentialSource(Tokens(url), lambda: 0.0))
        with pytest.raises(ApiError, match="says 401"):
            await http.call("GET", "/one")
        assert len(script.requests) == 2
        await http.close()


class Gate:
    """A server that accepts a token only, or no token while `accepted` is None."""

    def __init__(self, accepted=None):
        self.accepted = accepted

    async def __call__(self, request):
        right = self.accepted is not None and request.headers["Authorization"] == f"Bearer {self.accepted}"
        return await says(200 if right else 401, {})(request)


async def opened(http):
    async with http.stream("/watch", {}):
        pass


async def requests_while_refused(http, script, seconds, time):
    """How many requests reach the server if one is made each 100 ms, alternating between `call` and `stream`."""
    before = len(script.requests)
    for number in range(seconds * 10):
        with pytest.raises(ApiError) as refused:
            await (http.call("POST", "/one", {}) if number % 2 else opened(http))
        assert refused.value.status == 401
        time.now += 0.1
    return len(script.requests) - before


async def test_while_all_credentials_are_refused_requests_are_paced_and_the_log_says_so_once(caplog):
    caplog.set_level("INFO")
    gate, time = Gate(1), Ticks()
    async with served(default=gate) as (url, script):
        tokens = Tokens(url)
        source = CredentialSource(tokens, time)
        http = Http(source)
        await http.call("GET", "/one")
        assert source.refused_since is None
        gate.accepted, time.now = None, 5.0
        assert await requests_while_refused(http, script, 60, time) <= 12
        assert source.refused_since == 5.0
        assert tokens.count <= 12, "each load may start a program"
        gate.accepted = tokens.count + 1
        time.now += 10.0
        assert await http.call("GET", "/one") == {}
        assert source.refused_since is None
        await http.close()
    assert [record.getMessage() for record in caplog.records if "credentials" in record.name] == [
        "the API server no longer accepts our credentials; loading them again",
        "the API server refuses our credentials; loading and trying them again with growing pauses",
        "the API server accepts our credentials again",
    ]


async def test_after_a_pause_one_request_tries_the_credentials_and_the_others_wait_for_its_outcome():
    gate, time = Gate(), Ticks()
    async with served(default=gate) as (url, script):
        tokens = Tokens(url)
        http = Http(CredentialSource(tokens, time))
        await requests_while_refused(http, script, 1, time)
        before = len(script.requests)
        time.now += 10.0
        results = await asyncio.gather(*(http.call("GET", "/one") for _ in range(20)), return_exceptions=True)
        assert len(script.requests) - before <= 2
        assert {(one.status, one.retry_after >= 1.0) for one in results} >= {(401, True)}
        gate.accepted = tokens.count + 1
        time.now += 10.0
        await http.call("GET", "/one")
        assert await asyncio.gather(*(http.call("GET", "/one") for _ in range(20))) == [{}] * 20
        await http.close()


async def test_a_trial_without_an_answer_is_followed_by_another():
    gate, time = Gate(), Ticks()
    async with served(default=gate) as (url, script):
        tokens = Tokens(url)
        source = CredentialSource(tokens, time)
        http = Http(source)
        await requests_while_refused(http, script, 1, time)
        time.now += 10.0
        await source.current()
        with pytest.raises(ApiError):
            await http.call("GET", "/one")
        gate.accepted = tokens.count
        time.now += TRIAL_SECONDS
        assert await http.call("GET", "/one") == {}
        await http.close()


async def test_credentials_that_are_replaced_in_time_are_noticed_by_no_request():
    """Many requests are refused together when a token is revoked. The first one loads the next token for all."""
    gate = Gate(1)
    async with served(default=gate) as (url, _):
        tokens = Tokens(url)
        http = Http(CredentialSource(tokens, lambda: 0.0))
        await http.call("GET", "/one")
        gate.accepted = 2
        assert await asyncio.gather(*(http.call("GET", "/one") for _ in range(20))) == [{}] * 20
        assert tokens.count == 2
        await http.close()


async def test_a_token_that_is_due_is_read_again_before_the_server_refuses_it():
    times = [0.0]
    async with served(default=says(200, {})) as (url, script):
        http = Http(CredentialSource(Tokens(url, lasts=60), lambda: times[-1]))
        for now in (0.0, 59.0, 60.0):
            times.append(now)
            await http.call("GET", "/one")
        assert tokens_sent(script) == ["Bearer 1", "Bearer 1", "Bearer 2"]
        await http.close()


async def test_a_stream_without_a_response_is_given_up(monkeypatch):
    monkeypatch.setattr(streams, "REQUEST_SECONDS", 0.1)

    async def never(_request):
        await forever()

    async with api(never) as (http, _):
        with pytest.raises(UnreachableError):
            async with http.stream("/watch", {"watch": "1"}):
                pass


async def test_a_refused_stream_is_an_api_error():
    async with api(says(410)) as (http, _):
        with pytest.raises(ApiError) as refused:
            async with http.stream("/watch", {}):
                pass
        assert refused.value.status == 410


async def test_redirects_are_not_followed():
    """Not even a token that is removed on the way helps: impersonation and client certificates would go along."""
    async with served(default=says(200, {})) as (other, elsewhere):
        async with api(default=says(307, Location=f"{other}/watch")) as (http, _):
            with pytest.raises(ApiError) as refused:
                await http.call("GET", "/one")
            assert refused.value.status == 307
            with pytest.raises(UnreachableError, match="redirects"):
                await opened(http)
        assert elsewhere.requests == []


async def test_the_body_of_a_refused_stream_is_bounded():
    async def endless(request):
        response = aiohttp.web.StreamResponse(status=500)
        await response.prepare(request)
        await response.write(b"x" * (streams.ERROR_BYTES * 2))
        await forever()

    async with api(endless) as (http, _):
        with pytest.raises(ApiError, match="HTTP 500 x"):
            await opened(http)


async def test_a_closed_client_sends_nothing():
    async with api(default=says(200, {})) as (http, _):
        await http.call("GET", "/one")
        await http.close()
        with pytest.raises(UnreachableError):
            await http.call("GET", "/one")


async def test_reads_are_retried_after_errors_that_may_pass(monkeypatch):
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
        pytest.param([says(403)], 403, 1, id="a refusal is not retried"),
        pytest.param([says(500)] * 5, 500, 5, id="an error that stays ends the retries"),
    ],
)
async def test_a_read_is_not_retried_for_ever(monkeypatch, answers, status, tries):
    monkeypatch.setattr(module, "READ_RETRY", without_pauses(module.READ_RETRY))
    async with api(*answers) as (http, script):
        with pytest.raises(ApiError) as refused:
            await http.call_with_retries("GET", "/api/v1/pods")
        assert refused.value.status == status
        assert len(script.requests) == tries


async def test_a_response_with_a_truncated_body_is_an_unreachable_error():
    async def garbled(_request):
        return aiohttp.web.Response(body=b'{"items": [{"met')

    async with api(garbled) as (http, _):
        with pytest.raises(UnreachableError, match="not JSON"):
            await http.call("GET", "/api/v1/pods")


async def test_a_watch_cache_that_is_initializing_is_asked_again_at_once(monkeypatch):
    pauses, answers = [], ["storage is (re)initializing", "too many requests"]

    async def call(*_args, **_options):
        if answers:
            raise ApiError(429, "TooManyRequests", answers.pop(0), retry_after=1.0)
        return {"items": []}

    async def sleep(seconds):
        pauses.append(seconds)

    http = Http(CredentialSource(lambda _now: None, lambda: 0.0))
    monkeypatch.setattr(http, "call", call)
    monkeypatch.setattr("asyncio.sleep", sleep)
    assert await http.call_with_retries("GET", "/apis/podwright.dev/v1alpha1/schedulerpolicies") == {"items": []}
    assert pauses == [0.05, 1.0]
