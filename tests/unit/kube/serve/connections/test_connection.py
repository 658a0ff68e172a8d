"""The data that a connection passes on to its HTTP protocol."""

from __future__ import annotations

import asyncio

import pytest

from podwright.kube.serve.connections.connection import ClientLimits, Connection

LIMITS = ClientLimits(connections=1, request_bytes=100)


class Recorder(asyncio.Protocol):
    def __init__(self):
        self.byte_count = 0

    def data_received(self, data):
        self.byte_count += len(data)


class Transport(asyncio.Transport):
    def __init__(self):
        super().__init__()
        self.aborted = self.paused = False

    def abort(self):
        self.aborted = True

    def pause_reading(self):
        self.paused = True


@pytest.fixture
async def made():
    ended = []
    http, transport = Recorder(), Transport()
    connection = Connection(
        "a", http=http, limits=LIMITS, received=lambda _size: None, ended=lambda _, limit: ended.append(limit)
    )
    connection.connection_made(transport)
    yield connection, http, transport, ended
    connection.connection_lost(None)


async def test_a_long_request_ends_the_connection(made):
    connection, http, transport, ended = made
    for _ in range(5):
        connection.data_received(b"a" * 40)
    assert (http.byte_count, transport.aborted, ended) == (80, True, ["size"])


async def test_a_body_is_not_received_while_its_request_is_answered(made):
    connection, http, transport, ended = made
    connection.data_received(b"a" * 40)
    connection.request_arrived()
    for _ in range(5):
        connection.data_received(b"a" * 40)
    assert (http.byte_count, transport.paused, transport.aborted, ended) == (80, True, False, [])
