"""Requests whose head is known are answered without aiohttp, and nobody sees the difference."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from podwright.kube.serve.connections import repeated_requests as module
from podwright.kube.serve.connections.connection import Limits
from podwright.kube.serve.connections.repeated_requests import KNOWN_HEADS, LONGEST_BODY, LONGEST_HEAD, REPEATS
from podwright.kube.serve.port import Address, open_port
from support.waiting import until

LIMITS = Limits(connections=4, request_bytes=1 << 40, mean_bytes=1 << 40, idle_seconds=60.0)
PLAIN = (b"Host: x", b"User-Agent: Go-http-client/1.1", b"Content-Type: application/json", b"Accept-Encoding: gzip")


class Open:
    async def refusal(self, request):
        return None


class Service:
    """Answers a body with the body in capitals, and records who was asked: aiohttp's handler, or `again`."""

    def __init__(self):
        self.asked = []
        self.again = self.capitals
        self.held = asyncio.Event()
        self.held.set()

    async def handle(self, request):
        body = await request.read()
        self.asked.append(("handler", body))
        request.app[REPEATS](request, self.again)
        return web.Response(body=body.upper(), content_type="application/json")

    async def capitals(self, body):
        self.asked.append(("again", bytes(body)))
        await self.held.wait()
        return bytes(body.upper())

    @property
    def who(self):
        return [who for who, _ in self.asked]


@pytest.fixture
def service():
    return Service()


class Client:
    def __init__(self, port, reader, writer):
        self.port, self.reader, self.writer = port, reader, writer

    async def send(self, *parts):
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def answer(self):
        """Status line, headers and body."""
        async with asyncio.timeout(30):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            status, *lines = head.strip().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            return status, headers, await self.reader.readexactly(int(headers["Content-Length"]))

    async def ask(self, *parts):
        await self.send(*parts)
        return (await self.answer())[2]


@asynccontextmanager
async def connected(service, limits=LIMITS):
    port = await open_port(
        [web.post("/{name}", service.handle)],
        Open(),
        Address("--address", "127.0.0.1", 0),
        limits,
        lambda _reason: None,
    )
    client = Client(port, *await asyncio.open_connection("127.0.0.1", port.number))
    try:
        yield client
    finally:
        client.writer.close()
        if client.port is not None:
            await port.close()


def request(body, *headers, line=b"POST /a HTTP/1.1", length=True):
    given = [line, *PLAIN, *headers, *([b"Content-Length: %d" % len(body)] if length else [])]
    return b"\r\n".join(given) + b"\r\n\r\n" + body


async def test_only_the_first_request_of_a_head_is_read_by_aiohttp(service):
    async with connected(service) as client:
        for body in (b"one", b"twenty" * 20, b"3"):
            assert await client.ask(request(body)) == body.upper()
        assert await client.ask(request(b"other", line=b"POST /b HTTP/1.1")) == b"OTHER"
        assert await client.ask(request(b"known")) == b"KNOWN"
        assert await client.ask(request(b"too", line=b"POST /b HTTP/1.1")) == b"TOO"
    assert service.who == ["handler", "again", "again", "handler", "again", "again"]


async def test_the_answer_has_the_same_status_and_headers(service):
    async with connected(service) as client:
        await client.send(request(b"one"))
        status, headers, _ = await client.answer()
        await client.send(request(b"two"))
        again = await client.answer()
    assert service.who == ["handler", "again"]
    assert again[0] == status
    headers.pop("Server")
    assert again[1] | {"Date": ""} == headers | {"Date": ""}


async def test_a_body_may_arrive_in_pieces(service):
    body = b"a" * 100
    whole = request(body)
    head = len(whole) - len(body)
    async with connected(service) as client:
        await client.ask(whole)
        for cuts in ([head], [head + 1, head + 50], [len(whole) - 1]):
            pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
            assert await client.ask(*pieces) == body.upper()
    assert service.who == ["handler", "again", "again", "again"]


async def test_aiohttp_gets_a_body_that_is_late(service, monkeypatch):
    monkeypatch.setattr(module, "COLLECT_SECONDS", 0.0)
    whole = request(b"body")
    async with connected(service) as client:
        await client.ask(whole)
        await client.send(whole[:-2])
        await asyncio.sleep(0.01)
        assert await client.ask(whole[-2:]) == b"BODY"
        assert await client.ask(whole) == b"BODY"
    assert service.who == ["handler", "handler", "again"]


@pytest.mark.parametrize(
    "asking",
    [
        request(b"x", b"Authorization: Bearer token"),
        request(b"x", b"Cookie: a=b"),
        request(b"x", line=b"PUT /a HTTP/1.1"),
        request(b"1\r\nx\r\n0\r\n\r\n", b"Transfer-Encoding: chunked", length=False),
        request(b"x", b"X-Long: " + b"a" * LONGEST_HEAD),
        request(b"x", b"Accept: " + b"a" * LONGEST_HEAD),
    ],
)
async def test_aiohttp_reads_all_heads_that_are_not_plain(service, asking):
    async with connected(service) as client:
        for _ in range(3):
            await client.send(asking)
            await client.answer()
    assert "again" not in service.who


async def test_a_connection_with_a_token_is_left_to_aiohttp(service):
    async with connected(service) as client:
        await client.ask(request(b"one"))
        await client.ask(request(b"two", b"Authorization: Bearer token"))
        await client.ask(request(b"three"))
    assert service.who == ["handler", "handler", "handler"]


async def test_a_connection_that_the_client_wants_closed_is_closed(service):
    closing = request(b"x", b"Connection: close")
    async with connected(service) as client:
        await client.ask(request(b"x"))
        assert await client.ask(closing) == b"X"
        assert await client.reader.read() == b""


async def test_requests_sent_before_their_answers_are_answered_in_order(service):
    async with connected(service) as client:
        await client.ask(request(b"first"))
        await client.send(b"".join(request(b"%d" % number) for number in range(5)))
        assert [(await client.answer())[2] for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
        assert await client.ask(request(b"last")) == b"LAST"
    assert service.who == ["handler", "again", *["handler"] * 5]


async def test_a_request_that_arrives_while_another_is_answered_comes_after_it(service):
    async with connected(service) as client:
        await client.ask(request(b"first"))
        service.held.clear()
        await client.send(request(b"slow"))
        await until(lambda: service.who == ["handler", "again"])
        for number in range(3):
            await client.send(request(b"%d" % number))
            await asyncio.sleep(0.01)
        service.held.set()
        assert [(await client.answer())[2] for _ in range(4)] == [b"SLOW", b"0", b"1", b"2"]


async def test_the_handler_answers_what_nobody_else_can_answer(service):
    async def unable(body):
        service.asked.append(("again", bytes(body)))

    service.again = unable
    async with connected(service) as client:
        for body in (b"one", b"two", b"three"):
            assert await client.ask(request(body)) == body.upper()
    assert service.who == ["handler", "again", "handler", "again", "handler"]


async def test_the_handler_answers_after_a_failure(service):
    async def broken(body):
        raise ValueError(body)

    service.again = broken
    async with connected(service) as client:
        for body in (b"one", b"two"):
            assert await client.ask(request(body)) == body.upper()
    assert service.who == ["handler", "handler"]


async def test_a_body_that_is_too_long_is_for_aiohttp(service, monkeypatch):
    monkeypatch.setattr(module, "LONGEST_BODY", 10)
    async with connected(service) as client:
        for length in (1, 10, 11, 1):
            assert await client.ask(request(b"a" * length)) == b"A" * length
    assert service.who == ["handler", "again", "handler", "again"]
    assert LONGEST_BODY <= 9_999_999, "the pattern has seven digits"


async def test_few_heads_are_remembered(service):
    async with connected(service) as client:
        for _ in range(2):
            for number in range(KNOWN_HEADS + 2):
                await client.ask(request(b"x", line=b"POST /%d HTTP/1.1" % number))
    assert service.who.count("again") == KNOWN_HEADS


async def test_a_client_that_does_not_read_gets_no_more_answers(service):
    async def long(body):
        service.asked.append(("again", bytes(body)))
        return b"a" * (1 << 20)

    service.again = long
    async with connected(service) as client:
        await client.ask(request(b"x"))
        for number in range(100):
            client.writer.write(request(b"x"))
            for _ in range(100):
                await asyncio.sleep(0.001)
                if service.who.count("again") > number:
                    break
            else:
                break
        assert 0 < service.who.count("again") < 50, "the kernel keeps some"


async def test_an_idle_connection_ends(service):
    limits = Limits(connections=4, request_bytes=1 << 40, mean_bytes=1 << 40, idle_seconds=0.05)
    async with connected(service, limits) as client:
        await client.ask(request(b"x"))
        await client.ask(request(b"x"))
        async with asyncio.timeout(30):
            assert await client.reader.read() == b""
    assert service.who == ["handler", "again"]


async def test_aiohttp_does_not_take_a_connection_for_idle_that_is_used(service, monkeypatch):
    calls, keep_alive = [], web.RequestHandler.keep_alive
    monkeypatch.setattr(
        web.RequestHandler, "keep_alive", lambda self, wanted: calls.append(wanted) or keep_alive(self, wanted)
    )
    async with connected(service) as client:
        for _ in range(3):
            await client.ask(request(b"x"))
    assert calls == [True, True]


async def test_an_answer_to_a_client_that_has_gone_is_dropped(service):
    async with connected(service) as client:
        await client.ask(request(b"x"))
        service.held.clear()
        await client.send(request(b"y"))
        await until(lambda: "again" in service.who)
        client.writer.transport.abort()
        await asyncio.sleep(0.01)
        service.held.set()
        await asyncio.sleep(0.01)
    assert service.who == ["handler", "again"]


async def test_closing_the_port_waits_for_what_has_begun(service):
    ended = []

    async def slow(body):
        service.asked.append(("again", bytes(body)))
        await service.held.wait()
        ended.append(body)

    service.again = slow
    async with connected(service) as client:
        await client.ask(request(b"x"))
        service.held.clear()
        await client.send(request(b"bind"))
        await until(lambda: "again" in service.who)
        port, client.port = client.port, None
        closing = asyncio.create_task(port.close())
        assert await client.reader.read() == b""
        asyncio.get_running_loop().call_later(0.1, service.held.set)
        await closing
        assert ended == [b"bind"]


async def test_ports_without_lasting_connections_have_no_repeated_requests(service):
    async with connected(service, Limits(connections=4)) as client:
        await client.ask(request(b"x"))
        assert await client.reader.read() == b""


ASKED = (
    request(b"one"),
    request(b"two" * 200),
    request(b"b", line=b"POST /b HTTP/1.1"),
    request(b"", line=b"POST /empty HTTP/1.1"),
    request(b"t", b"Authorization: Bearer token"),
    request(b"3\r\nabc\r\n0\r\n\r\n", b"Transfer-Encoding: chunked", length=False),
    request(b"", line=b"POST /absent/too HTTP/1.1"),
    request(b"", line=b"GET /a HTTP/1.1", length=False),
    request(b"x").replace(b"Content-Length: 1", b"content-length: 1"),
)
"""What clients may send on one connection."""
ENDS = (request(b"last", b"Connection: close"), request(b"last", line=b"POST /a HTTP/1.0"))
"""After these, the server ends the connection."""
MALFORMED = (
    request(b"x").replace(b"Content-Length: 1", b"Content-Length: -1"),
    request(b"x").replace(b"Content-Length: 1", b"Content-Length: 1\r\nContent-Length: 2"),
    b"nonsense\r\n\r\n",
)


async def answers_to(pieces):
    """Status and body of each answer, until the server ends the connection. The first requests are answered before the others are sent."""
    found = []
    async with connected(Service()) as client:
        for first in ASKED[:3]:
            await client.ask(first)
        for piece, turns in pieces:
            client.writer.write(piece)
            for _ in range(turns):
                await asyncio.sleep(0)
        try:
            while True:
                status, _, body = await client.answer()
                found.append((status, body))
        except asyncio.IncompleteReadError as error:
            return found, error.partial


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_is_sent_gets_the_answers_of_aiohttp(seed, monkeypatch):
    chance = random.Random(seed)
    asked = [*chance.choices(ASKED, k=chance.randint(1, 12)), *chance.choices(ASKED[:3], k=4)]
    stream = b"".join(asked)
    cuts = sorted(chance.sample(range(1, len(stream)), chance.choice([0, 3, 30])))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    pieces = [*(asked if chance.random() < 0.5 else pieces), chance.choice(ENDS)]
    sent = [(piece, chance.choice([0, 1, 20])) for piece in pieces]
    ours = await answers_to(sent)
    monkeypatch.setattr(module.RepeatedRequests, "take", lambda *_: False)
    assert ours == await answers_to(sent)
    assert ours[0]


@pytest.mark.parametrize("malformed", MALFORMED)
async def test_a_malformed_request_ends_the_connection_with_the_answer_of_aiohttp(malformed, monkeypatch):
    ours = await answers_to([(malformed, 0)])
    monkeypatch.setattr(module.RepeatedRequests, "take", lambda *_: False)
    assert ours == await answers_to([(malformed, 0)])
    assert "400" in ours[0][0][0]
