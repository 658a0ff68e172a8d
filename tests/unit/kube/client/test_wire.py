"""HTTP/1.1 by hand: whatever shape an answer has, however it is cut up, and whenever the connection goes."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from podwright.kube.client import wire as module
from podwright.kube.client.errors import UnreachableError
from podwright.kube.client.wire import Wire


class Server:
    """Answers each request with the next of `answers`: bytes, or pieces of bytes; None hangs up, "wait" is silent."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.requests = []
        self.connections = 0
        self.writers = []

    async def serve(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")), 0
                )
                self.requests.append((head, await reader.readexactly(length)))
                answer = self.answers.pop(0)
                if answer is None:
                    return
                if answer == "wait":
                    await asyncio.Event().wait()
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.002)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def connected(*answers, headers=(("Authorization", "Bearer t"),), prefix=""):
    script = Server(answers)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    wire = Wire(f"http://127.0.0.1:{port}{prefix}", None, headers)
    try:
        yield wire, script
    finally:
        await wire.close()
        server.close()
        for writer in script.writers:
            writer.close()
        await asyncio.sleep(0.01)


def plain(body=b"{}", status="200 OK", headers=""):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


async def ask(wire, body=b'{"a":1}', timeout=2.0):
    return await wire.send("POST", "/api/v1/pods", body, "application/json", timeout)


async def test_the_request_is_as_it_should_be():
    async with connected(plain(), prefix="/clusters/one/") as (wire, script):
        await ask(wire)
        ((head, body),) = script.requests
        port = wire._port
        assert head == (
            b"POST /clusters/one/api/v1/pods HTTP/1.1\r\nAccept: application/json\r\n"
            b"Host: 127.0.0.1:%d\r\nAuthorization: Bearer t\r\n"
            b"Content-Type: application/json\r\nContent-Length: 7\r\n\r\n" % port
        )
        assert body == b'{"a":1}'


async def test_a_request_without_a_body():
    async with connected(plain()) as (wire, script):
        await wire.send("GET", "/readyz", None, "application/json", 2.0)
        ((head, body),) = script.requests
        assert b"Content-" not in head
        assert body == b""


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(plain(b"hello"), (200, b"hello"), id="with a length"),
        pytest.param(plain(b""), (200, b""), id="empty"),
        pytest.param(
            [plain(b"hello")[:9], plain(b"hello")[9:40], plain(b"hello")[40:]], (200, b"hello"), id="in pieces"
        ),
        pytest.param([bytes([b]) for b in plain(b"hi")], (200, b"hi"), id="byte by byte"),
        pytest.param(CHUNKED + b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", (200, b"abc0123456789"), id="chunked"),
        pytest.param(
            [CHUNKED + b"7\r\n0\r\n\r\n", b"xy\r\n", b"0\r\n\r\n"],
            (200, b"0\r\n\r\nxy"),
            id="chunks that look like the end",
        ),
        pytest.param([CHUNKED, b"1\r\n", b"a\r\n0\r", b"\n\r\n"], (200, b"a"), id="chunks in pieces"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + plain(b"x"), (200, b"x"), id="after a 100"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", (204, b""), id="no content"),
        pytest.param(plain(b"no", "409 Conflict"), (409, b"no"), id="a refusal"),
    ],
)
async def test_an_answer_of_any_shape_is_read_and_the_connection_used_again(answer, expected):
    async with connected(answer, plain(b"next")) as (wire, script):
        received = await ask(wire)
        assert (received.status, received.body) == expected
        assert (await ask(wire)).body == b"next"
        assert script.connections == 1


async def test_a_large_chunked_answer():
    body = b"x" * 3_000_000
    pieces = [CHUNKED, *(b"%x\r\n" % 60_000 + body[i : i + 60_000] + b"\r\n" for i in range(0, len(body), 60_000))]
    async with connected([*pieces, b"0\r\n\r\n"]) as (wire, _):
        assert (await ask(wire, timeout=20)).body == body


async def test_an_answer_without_a_length_ends_with_the_connection():
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None, ())
    assert (await ask(wire)).body == b"all of it"
    server.close()


async def test_retry_after_is_read_from_refusals():
    async with connected(plain(b"", "429 Too Many", "Retry-After: 7\r\n")) as (wire, _):
        assert (await ask(wire)).retry_after == 7.0


@pytest.mark.parametrize("headers", ["Connection: close\r\n", "connection: Close\r\n"])
async def test_a_connection_that_the_server_will_close_is_not_used_again(headers):
    async with connected(plain(headers=headers), plain()) as (wire, script):
        await ask(wire)
        await ask(wire)
        assert script.connections == 2


async def test_requests_at_the_same_time_have_connections_of_their_own():
    async with connected(*[[plain()[:5], plain()[5:]]] * 3, plain()) as (wire, script):
        await asyncio.gather(*(ask(wire) for _ in range(3)))
        assert script.connections == 3
        await ask(wire)
        assert script.connections == 3


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="hung up before the answer"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="not HTTP"),
        pytest.param(b"HTTP/1.1 abc\r\n\r\n", id="no status"),
        pytest.param(CHUNKED + b"zz\r\nx\r\n0\r\n\r\n", id="a chunk without size"),
        pytest.param(b"x" * 70_000, id="a head without end"),
    ],
)
async def test_what_is_no_answer_is_an_error_and_the_connection_is_given_up(answer):
    async with connected(answer, plain()) as (wire, script):
        with pytest.raises(UnreachableError):
            await ask(wire)
        assert (await ask(wire)).status == 200
        assert script.connections == 2


async def test_an_answer_cut_off_in_the_middle_is_an_error():
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(plain(b"hello")[:-2])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None, ())
    with pytest.raises(UnreachableError, match="lost"):
        await ask(wire)
    server.close()


def silent(port):
    """Where packets vanish: a full backlog that nobody takes from."""
    listening = socket.socket()
    listening.bind(("127.0.0.2", port))
    listening.listen(0)
    crowd = [socket.socket() for _ in range(4)]
    for one in crowd:
        one.setblocking(False)
        one.connect_ex(("127.0.0.2", port))
    return [listening, *crowd]


@pytest.mark.parametrize("refuses", [True, False], ids=["refuses", "is silent"])
async def test_where_one_address_of_the_server_does_not_answer_the_next_one_is_tried(monkeypatch, refuses):
    monkeypatch.setattr(module, "ADDRESS_SECONDS", 0.2)
    async with connected(plain(), *[[plain()[:5], plain()[5:]]] * 2) as (wire, script):
        sockets = [] if refuses else silent(wire._port)

        async def two(*_arguments, **_options):
            return [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
        await ask(wire)
        await asyncio.gather(ask(wire), ask(wire))
        assert script.connections == 2
        assert wire._answered == "127.0.0.1"
        for one in sockets:
            one.close()


async def test_no_answer_in_time_is_an_error_and_a_late_one_reaches_nobody():
    async with connected("wait", plain(b"second")) as (wire, script):
        with pytest.raises(UnreachableError, match=r"no answer after 0\.05 s"):
            await ask(wire, timeout=0.05)
        assert (await ask(wire)).body == b"second"
        assert script.connections == 2


async def test_a_cancelled_request_gives_up_its_connection():
    async with connected("wait", plain(b"second")) as (wire, script):
        task = asyncio.create_task(ask(wire))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await ask(wire)).body == b"second"
        assert script.connections == 2


async def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch):
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    async with connected(plain(), plain()) as (wire, script):
        await ask(wire)
        await asyncio.sleep(0.05)
        await ask(wire)
        assert script.connections == 2


async def test_a_connection_that_the_server_closed_while_idle_is_not_used_again():
    async with connected(plain(), plain()) as (wire, script):
        await ask(wire)
        script.writers[0].close()
        await asyncio.sleep(0.02)
        await ask(wire)
        assert script.connections == 2


async def test_connections_that_a_burst_left_behind_are_closed_in_time(monkeypatch):
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.02)
    async with connected(plain(), plain(), plain()) as (wire, script):
        await asyncio.gather(ask(wire), ask(wire), ask(wire))
        assert script.connections == 3
        async with asyncio.timeout(5):
            while not all(writer.is_closing() for writer in script.writers):  # noqa: ASYNC110 -- what the server sees
                await asyncio.sleep(0.01)
        assert wire._idle == []


async def test_a_few_connections_stay_warm_for_longer(monkeypatch):
    monkeypatch.setattr(module, "SURPLUS_SECONDS", 0.02)
    monkeypatch.setattr(module, "KEPT_WARM", 1)
    async with connected(plain(), plain(), plain(), plain()) as (wire, script):
        await asyncio.gather(ask(wire), ask(wire), ask(wire))
        async with asyncio.timeout(5):
            while sum(writer.is_closing() for writer in script.writers) < 2:  # noqa: ASYNC110 -- what the server sees
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(wire._idle) == 1
        await ask(wire)
        assert script.connections == 3


async def test_bytes_that_nobody_asked_for_end_the_connection():
    async with connected(plain(), plain()) as (wire, script):
        await ask(wire)
        script.writers[0].write(plain(b"for somebody else"))
        await asyncio.sleep(0.02)
        assert (await ask(wire)).body == b"{}"
        assert script.connections == 2


async def test_other_headers_go_with_the_next_request():
    async with connected(plain(), plain()) as (wire, script):
        await ask(wire)
        wire.use((("Authorization", "Bearer new"),))
        await ask(wire)
        assert b"Bearer new" in script.requests[1][0]
        assert script.connections == 1


def test_a_header_cannot_break_out_of_its_line():
    with pytest.raises(ValueError, match="line break"):
        Wire("http://127.0.0.1:1", None, (("Authorization", "Bearer t\r\nX-Evil: 1"),))


async def test_after_closing_no_connection_is_made():
    async with connected(plain()) as (wire, _):
        await wire.close()
        with pytest.raises(UnreachableError, match="closed"):
            await ask(wire)
