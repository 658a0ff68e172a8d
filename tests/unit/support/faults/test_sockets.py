"""The sockets of a client are closed at its end, also where the server never completes the TLS handshake."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress

import aiohttp

from support.faults.sockets import Sockets


async def test_close_ends_connections_whose_request_was_cancelled_within_the_handshake():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sockets = Sockets()
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(), socket_factory=sockets)
        async with aiohttp.ClientSession(connector=connector) as session:
            request = asyncio.ensure_future(session.get(f"https://127.0.0.1:{silent.getsockname()[1]}/"))
            loop = asyncio.get_running_loop()
            silent.setblocking(False)
            accepted, _ = await loop.sock_accept(silent)
            await loop.sock_recv(accepted, 1)  # the handshake has begun
            request.cancel()
            with suppress(asyncio.CancelledError):
                await request
        await sockets.close()
        assert sockets.open() == []
        accepted.close()


async def test_close_ends_connections_that_are_in_use():
    async def answer_never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(answer_never, "127.0.0.1", 0)
    sockets = Sockets()
    loop = asyncio.get_running_loop()
    port = server.sockets[0].getsockname()[1]
    made = sockets((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port)))
    made.setblocking(False)
    await loop.sock_connect(made, ("127.0.0.1", port))
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=made)
    assert sockets.open() == [made]
    await sockets.close()
    assert sockets.open() == []
    assert transport.is_closing()
    server.close()
    await server.wait_closed()
