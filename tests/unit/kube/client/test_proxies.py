"""Requests and watches through HTTP proxies: tunnels to servers with TLS, and plain requests to those without."""

from __future__ import annotations

import asyncio
import base64
import traceback

import aiohttp
import pytest

from podwright.kube.client import streams as module
from podwright.kube.client.credentials.credentials import Credentials, CredentialSource, Loaded
from podwright.kube.client.credentials.tls import tls_context
from podwright.kube.client.errors import TooLongError, UnreachableError
from podwright.kube.client.http import Http
from podwright.kube.client.streams import new_session
from support.http.recording import Recorded, RecordingServers, create_certificates

TOKEN = (("Authorization", "Bearer t"),)
PROXY_USER = "Basic " + base64.b64encode(b"jane:s@crt").decode()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    create_certificates(folder)
    return folder


def http_through(proxy, server, certificates=None):
    context = None
    if certificates is not None:
        context = tls_context((certificates / "ca.crt").read_text(), None, None, where=("c", "u"))
    return Http(CredentialSource(lambda _now: Loaded(Credentials(server, context, TOKEN, proxy=proxy)), lambda: 0.0))


async def requests_of(http, servers):
    """Returns the servers' records of two short requests and a watch."""
    for _ in range(2):
        assert await http.call("GET", "/probe") == {}
    async with http.stream("/probe", {}) as response:
        assert await response.read() == b"{}"
    await http.close()
    return servers.requests


@pytest.mark.parametrize(
    ("user", "authorization"), [("", ""), ("jane:s%40crt@", PROXY_USER)], ids=["anonymous", "with a user"]
)
@pytest.mark.parametrize("secure", [False, True], ids=["plain proxy", "proxy with TLS"])
async def test_a_server_with_tls_is_reached_by_a_tunnel(certificates, user, authorization, secure):
    async with RecordingServers(certificates).running() as servers:
        scheme, port = ("https", servers.secure_proxy_port) if secure else ("http", servers.proxy_port)
        http = http_through(f"{scheme}://{user}127.0.0.1:{port}", "https://api.test/prefix", certificates)
        expected = Recorded(
            secure=True,
            target="/prefix/probe",
            host="api.test",
            headers=(("authorization", "Bearer t"),),
            server_name="api.test",
            proxied=("api.test:443", authorization),
        )
        assert await requests_of(http, servers) == [expected] * 3


async def test_a_server_without_tls_is_asked_by_the_proxy(certificates):
    async with RecordingServers(certificates).running() as servers:
        http = http_through(f"http://jane:s%40crt@127.0.0.1:{servers.proxy_port}", "http://api.test:8080")
        expected = Recorded(
            secure=False,
            target="http://api.test:8080/probe",
            host="api.test:8080",
            headers=(("authorization", "Bearer t"),),
            proxied=("", PROXY_USER),
        )
        assert await requests_of(http, servers) == [expected] * 3


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(b"HTTP/1.1 407 Authenticate\r\nContent-Length: 0\r\n\r\n", "HTTP 407", id="a refusal"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", "no valid response", id="not HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nearly", "Cannot connect", id="bytes before ours"),
        pytest.param(b"", "disconnected", id="nothing"),
    ],
)
async def test_a_proxy_that_does_not_connect_is_an_unreachable_server(certificates, answer, problem):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    http = http_through(f"http://127.0.0.1:{port}", "https://api.test", certificates)
    with pytest.raises(UnreachableError, match=problem):
        await http.call("GET", "/probe")
    await http.close()
    server.close()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 407 Authenticate\r\nContent-Length: 0\r\n\r\n", id="a refusal"),
        pytest.param(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", id="no server"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="not HTTP"),
        pytest.param(b"", id="nothing"),
    ],
)
async def test_no_error_of_a_proxy_shows_its_password(certificates, answer):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy = f"http://alice:s3cret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    http = http_through(proxy, "https://api.test", certificates)
    context = tls_context((certificates / "ca.crt").read_text(), None, None, where=("c", "u"))
    errors = []
    for attempt in (http.call("GET", "/probe"), streamed(http), asked_by_kopf(proxy, context)):
        with pytest.raises((UnreachableError, aiohttp.ClientConnectionError)) as caught:
            await attempt
        errors.append(caught.value)
    await http.close()
    server.close()
    for error in errors:
        shown = "".join((str(error), repr(error), *traceback.format_exception(error)))
        assert "s3cret" not in shown
        assert "alice" not in shown
    if answer.startswith(b"HTTP"):
        assert [answer[9:12].decode() in str(error) for error in errors] == [True] * 3


@pytest.mark.parametrize(("method", "sent"), [("GET", 3), ("DELETE", 2), ("PUT", 2), ("POST", 2)])
async def test_a_connection_that_ends_without_an_answer_repeats_only_a_get(method, sent):
    received = []

    async def serve(reader, writer):
        for number in range(2):
            received.append(await reader.readuntil(b"\r\n\r\n"))
            if number == 0:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    http = http_through(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "http://api.test")
    assert await http.call("GET", "/probe") == {}
    if method == "GET":
        assert await http.call(method, "/probe") == {}
    else:
        with pytest.raises(UnreachableError, match="disconnected"):
            await http.call(method, "/probe")
    assert len(received) == sent
    await http.close()
    server.close()


async def test_a_response_that_is_too_long_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(module, "BODY_LIMIT", 1_000)

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 2_000)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    http = http_through(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "http://api.test")
    with pytest.raises(TooLongError):
        await http.call("GET", "/probe")
    await http.close()
    server.close()


async def streamed(http):
    async with http.stream("/probe", {}):
        pass


async def asked_by_kopf(proxy, context):
    """A request in a session like that of Kopf."""
    credentials = Credentials("https://api.test", context, TOKEN, proxy=proxy)
    async with new_session(credentials, authenticated=True) as session, session.get("https://api.test/probe"):
        pass
