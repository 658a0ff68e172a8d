"""Requests that a client repeats on one connection with new bodies: their heads are not parsed again.

kube-scheduler calls an extender twice for each pod, one call after the other, with the same head but for the length of the body. To read a head, find the handler
and write an answer costs aiohttp as much as the decision. So aiohttp serves the first request of each head. If it is a plain one (`PLAIN`) and was answered,
its handler may name a function that answers the next ones. These are recognised by comparing bytes, and answered without aiohttp.

    idle ─┬─ a known head ────► collected ─► answered ─► idle
          └─ any other bytes ─► aiohttp ─┬─ a plain request, answered ─► idle
                                         └─ anything else ─► aiohttp, for the rest of the connection
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from email.utils import formatdate
from enum import Enum, auto
from typing import Any, Final

from aiohttp import HttpVersion11, web

from podwright.kube.deadline import Deadline

HEADERS: Final = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
"""The headers of all answers of a port."""
PLAIN: Final = frozenset(("host", "user-agent", "content-length", "content-type", "accept-encoding", "accept"))
"""A request with these headers alone is allowed or refused, and understood, whenever another one with the same head is on the same connection. One with a token, for
example, is not: tokens expire."""
KNOWN_HEADS: Final = 8
"""How many heads are remembered for a connection. kube-scheduler has four verbs."""
LONGEST_HEAD: Final = 1024
LONGEST_BODY: Final = 1 << 20
COLLECT_SECONDS: Final = 2.0
"""How long a body may take to arrive. If a body is slower, aiohttp gets what has arrived, and the rest."""
_LENGTH: Final = re.compile(rb"\r\nContent-Length: ([1-9][0-9]{0,6})\r\n")

Answer = Callable[[bytearray], Awaitable[bytes | None]]
"""Answers a body with JSON. None: aiohttp's handler answers instead."""
Repeats = Callable[[web.Request, Answer], None]
REPEATS: Final = web.AppKey[Repeats]("podwright_repeats")
"""A handler calls it at its end, to name the function that may answer further requests with the same head. Some ports ignore this."""

_Head = tuple[bytes, bytes]
"""The bytes before and after the length of the body."""


class _State(Enum):
    IDLE = auto()
    COLLECTING = auto()
    ANSWERING = auto()
    PASSED_ON = auto()
    """aiohttp has the request."""
    LEFT = auto()
    """aiohttp has the connection."""


class RepeatedRequests:
    """See the module. Of one connection."""

    def __init__(self, http: asyncio.Protocol, *, idle_seconds: float, arrived: Callable[[], None]) -> None:
        """`http`: aiohttp's protocol; `idle_seconds`: how long the connection waits for its next request; `arrived` is called for each request here."""
        self._http = http
        self._idle_seconds = idle_seconds
        self._arrived = arrived
        self._transport: asyncio.Transport | None = None
        self._known: dict[_Head, Answer] = {}
        self._state = _State.IDLE
        self._received = bytearray()
        """The request that is collected or answered, and what came after it."""
        self._head: _Head | None = None
        self._body_at = 0
        self._ends_at = 0
        self._passed_on = 0
        """How many bytes aiohttp has got of the request."""
        self._paused = False
        """Whether nothing is read from the client because of this."""
        self._idle = Deadline(self._end)
        self._collecting = Deadline(self._pass_on)
        self.answering: asyncio.Task[None] | None = None
        """Makes the last answer that was asked for here."""

    def opened(self, transport: asyncio.Transport) -> None:
        """The connection is open."""
        self._transport = transport

    def closed(self) -> None:
        """The connection has ended. An answer in progress is completed and dropped."""
        self._state = _State.LEFT
        self._idle.cancel()
        self._collecting.cancel()

    def pause_writing(self) -> None:
        """The client does not read its answers. So no further answers are made here."""
        if self._state is _State.ANSWERING:
            self._pause_reading()

    def resume_writing(self) -> None:
        """The client reads."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def _pause_reading(self) -> None:
        if self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def repeats(self, request: web.Request, answer: Answer) -> None:
        """The handler of a request has ended, and `answer` may answer further requests with the same head."""
        asyncio.get_running_loop().call_soon(self._answered, _is_plain(request), answer)

    def take(self, data: bytes) -> bool:
        """Takes bytes that have arrived. False if they are for aiohttp."""
        match self._state:
            case _State.LEFT:
                return False
            case _State.PASSED_ON:
                self._passed_on += len(data)
                return False
            case _State.IDLE:
                return self._begin(data)
            case _State.COLLECTING:
                self._received += data
                if len(self._received) >= self._ends_at:
                    self._collecting.suspend()
                    self._answer()
                return True
            case _State.ANSWERING:  # the next request, before this one is answered
                self._received += data
                self._pause_reading()
                return True

    def _begin(self, data: bytes) -> bool:
        self._idle.suspend()
        self._body_at = data.find(b"\r\n\r\n") + 4
        length = _LENGTH.search(data, 0, self._body_at)
        self._head = None if length is None else (data[: length.start(1)], data[length.end(1) : self._body_at])
        self._ends_at = self._body_at if length is None else self._body_at + int(length[1])
        if self._head not in self._known or self._ends_at - self._body_at > LONGEST_BODY:
            self._state, self._passed_on = _State.PASSED_ON, len(data)
            return False
        if isinstance(self._http, web.RequestHandler):
            self._http.keep_alive(True)  # ends the timer of aiohttp, which takes the connection for idle
        self._received += data
        if len(data) < self._ends_at:
            self._state = _State.COLLECTING
            self._collecting.set(COLLECT_SECONDS)
        else:
            self._answer()
        return True

    def _answer(self) -> None:
        assert self._head is not None
        self._state = _State.ANSWERING
        self._arrived()
        body = self._received[self._body_at : self._ends_at]
        self.answering = _started(self._answer_with(self._known[self._head], body))

    async def _answer_with(self, answer: Answer, body: bytearray) -> None:
        found = None
        with suppress(Exception):  # aiohttp's handler meets the same error, and reports it
            found = await answer(body)
        if self._state is not _State.ANSWERING:
            return
        if found is None:
            self._pass_on()
            return
        assert self._transport is not None
        self._transport.write(_head_of_answer(int(time.time()), len(found)) + found)
        if len(self._received) > self._ends_at:
            del self._received[: self._ends_at]
            self._pass_on()
        else:
            self._received.clear()
            self._wait()

    def _pass_on(self) -> None:
        """Gives aiohttp what was received."""
        self._state, self._passed_on = _State.PASSED_ON, len(self._received)
        data = bytes(self._received)
        self._received.clear()
        self.resume_writing()
        self._http.data_received(data)

    def _answered(self, is_plain: bool, answer: Answer) -> None:
        """A request of aiohttp was answered. If it is all that aiohttp got, the connection is idle."""
        if self._state is not _State.PASSED_ON:
            return
        if not is_plain or self._head is None or self._passed_on != self._ends_at:
            self._state = _State.LEFT
            return
        if len(self._known) < KNOWN_HEADS and self._body_at <= LONGEST_HEAD:
            self._known.setdefault(self._head, answer)
        self._wait()

    def _wait(self) -> None:
        """Waits for the next request."""
        self._state = _State.IDLE
        self._idle.set(self._idle_seconds)

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _is_plain(request: web.Request) -> bool:
    is_post = request.method == "POST" and request.version == HttpVersion11
    return is_post and PLAIN.issuperset(name.lower() for name in request.headers)


def _started(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that has already run its first step, where Python supports that."""
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    else:  # noqa: RET505 -- mypy leaves out branches, not statements
        return loop.create_task(work)


_written: tuple[int, bytes] = (-1, b"")


def _head_of_answer(second: int, length: int) -> bytes:
    global _written  # noqa: PLW0603 -- the text of a second, not a state
    if _written[0] != second:
        headers = {"Date": formatdate(second, usegmt=True), "Content-Type": "application/json", **HEADERS}
        lines = "\r\n".join(("HTTP/1.1 200 OK", *(f"{name}: {value}" for name, value in headers.items())))
        _written = second, f"{lines}\r\nContent-Length: ".encode()
    return _written[1] + str(length).encode() + b"\r\n\r\n"
