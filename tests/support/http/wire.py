"""A server that answers as a test wants, byte by byte, and a pool of connections to it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from podwright.kube.client.wire import ConnectionPool


class Server:
    """Answers each request with the next of `answers`: bytes, or a list of pieces; None closes the connection, "wait"
    hangs.
    """

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
async def connected(*answers, headers=(("Authorization", "Bearer t"),), prefix="", **options):
    script = Server(answers)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    script.port = port
    pool = ConnectionPool(f"http://127.0.0.1:{port}{prefix}", None, headers, **options)
    try:
        yield pool, script
    finally:
        await pool.close()
        server.close()
        for writer in script.writers:
            writer.close()
        await asyncio.sleep(0.01)


def plain(body=b"{}", status="200 OK", headers=""):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body
