"""How h11, and how our reader, read the same bytes."""

from __future__ import annotations

import random
from dataclasses import dataclass

import h11

from podwright.kube.client.response import HEAD_LIMIT, ResponseError, ResponseReader


@dataclass(frozen=True)
class Reading:
    """An answer, or an `error`. `keep`: whether another request may follow on the connection."""

    status: int = 0
    body: bytes = b""
    keep: bool = False
    error: str = ""


def read_by_h11(data: bytes) -> Reading:
    """A server sends `data` and ends the connection."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    connection.send(h11.EndOfMessage())
    if data:
        connection.receive_data(data)
    status, body, ended = 0, bytearray(), False
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                keep = not ended and connection.their_state is h11.DONE and not connection.trailing_data[0]
                return Reading(status, bytes(body), keep)
            elif event is h11.NEED_DATA and not ended:
                ended = True
                connection.receive_data(b"")
            elif event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                return Reading(error=f"h11 stopped at {event!r}")
    except h11.RemoteProtocolError as error:
        return Reading(error=str(error))


def read_by_us(data: bytes, pieces: random.Random | None = None) -> Reading:
    """The same with our reader, which gets the data as a whole, or in random pieces."""
    reader = ResponseReader()
    try:
        at = 0
        while at < len(data):
            size = len(data) if pieces is None else pieces.choice((1, 2, 3, 10, 100, len(data)))
            answer = reader.feed(data[at : at + size])
            at += size
            if answer is not None:
                return Reading(answer.status, answer.body, reader.keep and at >= len(data))
        answer = reader.end()
    except ResponseError as error:
        return Reading(error=str(error))
    return Reading(answer.status, answer.body, reader.keep)
