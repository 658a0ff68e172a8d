"""HTTP/1.1 for short requests: responses of every form, in pieces, and connections that end at any moment."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import struct
import threading
from contextlib import asynccontextmanager

import pytest

from podwright.kube.client import wire as module
from podwright.kube.client.errors import UnreachableError
from podwright.kube.client.wire import ConnectionPool
from support.http.wire import connected, plain
from support.serve.certificates import Authority
from support.waiting import PATIENCE_SECONDS, patience, until


async def send(pool, body=b'{"a":1}', timeout=PATIENCE_SECONDS):
    return await pool.send("POST", "/api/v1/pods", body, "application/json", timeout)


async def test_a_request_has_its_headers_and_body():
    async with connected(plain(), prefix="/clusters/one/") as (pool, script):
        await send(pool)
        ((head, body),) = script.requests
        assert head == (
            b"POST /clusters/one/api/v1/pods HTTP/1.1\r\nAccept: application/json\r\n"
            b"Host: 127.0.0.1:%d\r\nAuthorization: Bearer t\r\n"
            b"Content-Type: application/json\r\nContent-Length: 7\r\n\r\n" % script.port
        )
        assert body == b'{"a":1}'


async def test_a_request_without_a_body():
    async with connected(plain()) as (pool, script):
        await pool.send("GET", "/readyz", None, "application/json", PATIENCE_SECONDS)
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
async def test_every_form_of_response_is_read_and_the_connection_reused(answer, expected):
    async with connected(answer, plain(b"next")) as (pool, script):
        received = await send(pool)
        assert (received.status, received.body) == expected
        assert (await send(pool)).body == b"next"
        assert script.connections == 1


async def test_a_large_chunked_response():
    body = b"x" * 3_000_000
    pieces = [CHUNKED, *(b"%x\r\n" % 60_000 + body[i : i + 60_000] + b"\r\n" for i in range(0, len(body), 60_000))]
    async with connected([*pieces, b"0\r\n\r\n"]) as (pool, _):
        assert (await send(pool, timeout=20)).body == body


async def test_a_response_without_a_length_ends_with_the_connection():
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    pool = ConnectionPool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None, ())
    assert (await send(pool)).body == b"all of it"
    server.close()


async def test_retry_after_is_read_from_error_responses():
    async with connected(plain(b"", "429 Too Many", "Retry-After: 7\r\n")) as (pool, _):
        assert (await send(pool)).retry_after == 7.0


@pytest.mark.parametrize("headers", ["Connection: close\r\n", "connection: Close\r\n"])
async def test_a_connection_that_the_server_will_close_is_not_reused(headers):
    async with connected(plain(headers=headers), plain()) as (pool, script):
        await send(pool)
        await send(pool)
        assert script.connections == 2


async def test_concurrent_requests_use_separate_connections():
    async with connected(*[[plain()[:5], plain()[5:]]] * 3, plain()) as (pool, script):
        await asyncio.gather(*(send(pool) for _ in range(3)))
        assert script.connections == 3
        await send(pool)
        assert script.connections == 3


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="closed before the response"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="not HTTP"),
        pytest.param(b"HTTP/1.1 abc\r\n\r\n", id="no status"),
        pytest.param(CHUNKED + b"zz\r\nx\r\n0\r\n\r\n", id="a chunk without a size"),
        pytest.param(CHUNKED + b"-5\r\nx\r\n0\r\n\r\n", id="a chunk of negative size"),
        pytest.param(b"x" * 70_000, id="a head that does not end"),
    ],
)
async def test_an_invalid_response_is_an_error_and_closes_the_connection(answer):
    async with connected(answer, plain()) as (pool, script):
        with pytest.raises(UnreachableError):
            await send(pool)
        assert (await send(pool)).status == 200
        assert script.connections == 2


async def test_a_truncated_response_is_an_error():
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(plain(b"hello")[:-2])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    pool = ConnectionPool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None, ())
    with pytest.raises(UnreachableError, match="lost"):
        await send(pool)
    server.close()


def resets(writer):
    """Ends a connection with a reset."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


async def test_a_response_without_a_length_whose_connection_is_reset_is_an_error():
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
        await asyncio.sleep(0.05)
        resets(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    pool = ConnectionPool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None, ())
    with pytest.raises(UnreachableError, match="lost within a response"):
        await send(pool)
    server.close()


class Restarting:
    """A server that answers the first request on each connection, and ends connections in `way` at the second."""

    def __init__(self, way):
        self.way = way
        self.requests = 0
        self.connections = 0
        self.running = set()

    async def __call__(self, reader, writer):
        self.running.add(asyncio.current_task())
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client closed the connection
        finally:
            writer.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        await self._read(reader)
        writer.write(plain(b"%d" % self.connections))
        await self._read(reader)
        if self.way == "in a response":
            writer.write(b"HTTP/1.1 200 OK\r\nConte")
            await asyncio.sleep(0.01)
        if self.way == "reset":
            resets(writer)

    async def _read(self, reader):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")), 0
        )
        await reader.readexactly(length)
        self.requests += 1


@asynccontextmanager
async def restarting(way):
    script = Restarting(way)
    server = await asyncio.start_server(script, "127.0.0.1", 0)
    pool = ConnectionPool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None, ())
    yield pool, script
    await pool.close()
    server.close()
    await asyncio.gather(*script.running)
    await asyncio.sleep(0.01)


async def get(pool):
    return await pool.send("GET", "/api/v1/pods", None, "application/json", PATIENCE_SECONDS)


@pytest.mark.parametrize("way", ["closed", "reset"])
async def test_a_get_on_a_reused_connection_that_ends_is_sent_again_on_a_new_one(way):
    async with restarting(way) as (pool, script):
        assert (await get(pool)).body == b"1"
        assert (await get(pool)).body == b"2"
        assert (script.connections, script.requests) == (2, 3)


@pytest.mark.parametrize("way", ["closed", "reset"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_on_a_reused_connection_that_ends_is_not_sent_again(way, method):
    async with restarting(way) as (pool, script):
        await get(pool)
        with pytest.raises(UnreachableError, match="lost"):
            await pool.send(method, "/api/v1/pods", b"{}", "application/json", 2.0)
        assert (script.connections, script.requests) == (1, 2)


async def test_a_get_whose_response_has_begun_is_not_sent_again():
    async with restarting("in a response") as (pool, script):
        await get(pool)
        with pytest.raises(UnreachableError, match="lost within a response"):
            await get(pool)
        assert script.requests == 2


async def test_a_get_on_a_new_connection_that_ends_is_not_sent_again():
    async with connected(None, plain()) as (pool, script):
        with pytest.raises(UnreachableError, match="lost"):
            await get(pool)
        assert script.connections == 1


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(plain(b"evil"), id="a response"),
        pytest.param(b"x", id="a byte"),
    ],
)
async def test_bytes_after_a_response_close_the_connection_and_answer_no_other_request(extra):
    async with connected(plain(b"one") + extra, plain(b"two")) as (pool, script):
        assert (await send(pool)).body == b"one"
        assert (await send(pool)).body == b"two"
        assert script.connections == 2


def unresponsive(port):
    """An address that drops packets: a listening socket whose backlog is full."""
    listening = socket.socket()
    listening.bind(("127.0.0.2", port))
    listening.listen(0)
    crowd = [socket.socket() for _ in range(4)]
    for one in crowd:
        one.setblocking(False)
        one.connect_ex(("127.0.0.2", port))
    return [listening, *crowd]


@pytest.mark.parametrize("refuses", [True, False], ids=["refuses", "does not respond"])
async def test_the_next_address_of_the_server_is_tried_and_remembered(monkeypatch, refuses):
    monkeypatch.setattr(module, "ADDRESS_SECONDS", 0.2)
    async with connected(plain(), *[[plain()[:5], plain()[5:]]] * 2) as (pool, script):
        sockets = [] if refuses else unresponsive(script.port)

        async def two(*_arguments, **_options):
            return [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")]

        async def dial(protocol, address, port):
            dialled.append(address)
            return await create_connection(protocol, address, port)

        loop, dialled = asyncio.get_running_loop(), []
        create_connection = loop.create_connection
        monkeypatch.setattr(loop, "getaddrinfo", two)
        monkeypatch.setattr(loop, "create_connection", dial)
        await send(pool)
        await asyncio.gather(send(pool), send(pool))
        assert script.connections == 2
        assert dialled == ["127.0.0.2", "127.0.0.1", "127.0.0.1"]
        for one in sockets:
            one.close()


async def test_a_response_after_the_timeout_is_discarded():
    async with connected(plain(), "wait", plain(b"second")) as (pool, script):
        await send(pool)
        with pytest.raises(UnreachableError, match=r"no answer after 0\.05 s"):
            await send(pool, timeout=0.05)
        assert (await send(pool)).body == b"second"
        assert script.connections == 2


async def test_a_cancelled_request_closes_its_connection():
    async with connected("wait", plain(b"second")) as (pool, script):
        task = asyncio.create_task(send(pool))
        await until(lambda: script.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await send(pool)).body == b"second"
        assert script.connections == 2


async def test_a_connection_that_was_idle_for_long_is_not_reused(monkeypatch):
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    async with connected(plain(), plain()) as (pool, script):
        await send(pool)
        await asyncio.sleep(0.05)
        await send(pool)
        assert script.connections == 2


async def test_a_connection_that_the_server_closed_while_idle_is_not_reused():
    async with connected(plain(), plain()) as (pool, script):
        await send(pool)
        script.writers[0].close()
        await asyncio.sleep(0.02)
        await send(pool)
        assert script.connections == 2


async def test_connections_left_by_a_burst_are_closed(monkeypatch):
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.02)
    async with connected(plain(), plain(), plain()) as (pool, script):
        await asyncio.gather(send(pool), send(pool), send(pool))
        assert script.connections == 3
        async with patience():
            while not all(writer.is_closing() for writer in script.writers):
                await asyncio.sleep(0.01)


async def test_a_few_connections_are_kept_for_longer(monkeypatch):
    monkeypatch.setattr(module, "SURPLUS_SECONDS", 0.02)
    monkeypatch.setattr(module, "KEPT_WARM", 1)
    async with connected(plain(), plain(), plain(), plain()) as (pool, script):
        await asyncio.gather(send(pool), send(pool), send(pool))
        async with patience():
            while sum(writer.is_closing() for writer in script.writers) < 2:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert sum(writer.is_closing() for writer in script.writers) == 2
        await send(pool)
        assert script.connections == 3


async def test_unexpected_bytes_close_the_connection():
    async with connected(plain(), plain()) as (pool, script):
        await send(pool)
        script.writers[0].write(plain(b"unexpected"))
        await asyncio.sleep(0.02)
        assert (await send(pool)).body == b"{}"
        assert script.connections == 2


async def test_new_headers_are_sent_with_the_next_request():
    async with connected(plain(), plain()) as (pool, script):
        await send(pool)
        pool.set_headers((("Authorization", "Bearer new"),))
        await send(pool)
        assert b"Bearer new" in script.requests[1][0]
        assert script.connections == 1


def test_a_header_cannot_break_out_of_its_line():
    with pytest.raises(ValueError, match="line break"):
        ConnectionPool("http://127.0.0.1:1", None, (("Authorization", "Bearer t\r\nX-Evil: 1"),))


async def test_a_closed_pool_makes_no_connection():
    async with connected(plain()) as (pool, _):
        await pool.close()
        with pytest.raises(UnreachableError, match="closed"):
            await send(pool)


def test_no_socket_is_left_open_by_a_server_that_does_not_end_its_side(tmp_path):
    """The loop ends right after the pool, as in commands."""
    authority = Authority()
    secured = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    secured.load_cert_chain(*authority.server().write(tmp_path, "server"))
    trusting = ssl.create_default_context(cadata=authority.certificate)
    accepted = []

    def serve(listener):
        connection = secured.wrap_socket(listener.accept()[0], server_side=True)
        accepted.append(connection)
        connection.recv(65536)
        connection.sendall(plain())

    async def ask(port):
        pool = ConnectionPool(f"https://127.0.0.1:{port}", trusting, ())
        await get(pool)
        await pool.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        asyncio.run(ask(listener.getsockname()[1]))
        server.join()
        gc.collect()  # warns of a socket that is open, and warnings are errors
        accepted[0].close()


async def test_a_write_can_be_prevented_right_before_it_is_sent():
    paths = []

    def prevent(path):
        paths.append(path)
        raise UnreachableError("not now")

    async with connected(plain(), plain(), before_write=prevent) as (pool, server):
        await pool.send("GET", "/read", None, "", 1)
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(UnreachableError, match="not now"):
                await pool.send(method, f"/{method}", b"{}", "application/json", 1)
        await pool.send("GET", "/read", None, "", 1)
        assert paths == ["/POST", "/PUT", "/PATCH", "/DELETE"]
        assert [head.split()[0] for head, _ in server.requests] == [b"GET", b"GET"]


async def test_abort_ends_requests_that_are_under_way():
    async with connected(plain(), "wait", plain()) as (pool, server):
        await pool.send("GET", "/", None, "", 1)
        waiting = asyncio.create_task(pool.send("POST", "/", b"{}", "application/json", 60))
        while len(server.requests) < 2:
            await asyncio.sleep(0.001)
        pool.abort()
        with pytest.raises(UnreachableError):
            await waiting
        assert (await pool.send("POST", "/", b"{}", "application/json", 5)).status == 200
