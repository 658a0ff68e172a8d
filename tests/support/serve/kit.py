"""A server of health and metrics on a free port, with content that a test chooses, and clients of all kinds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from podwright.core.objects.pod import PodInfo
from podwright.engine.metrics.metrics import SERVER_DROPPED, Metrics
from podwright.kube.serve.connection import Limits
from podwright.kube.serve.endpoints import Content
from podwright.kube.serve.server import Server

WIDE = Limits(connections=64)


@dataclass
class Told:
    """What the scheduler tells the server."""

    problems: dict[str, str] = field(default_factory=lambda: {"ping": ""})
    pods: Sequence[PodInfo] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=lambda: Metrics(lambda: 0.0))
    list_pods: Callable[[], Iterable[PodInfo]] | None = None
    snapshots: int = 0

    def content(self) -> Content:
        return Content(
            checks=lambda: dict(self.problems),
            metrics=self._snapshots,
            pods=self.list_pods or (lambda: self.pods),
            configuration=lambda: self.configuration,
        )

    def _snapshots(self) -> Any:
        self.snapshots += 1
        return self.metrics.snapshots()

    def dropped(self, reason: str) -> int:
        """The number of connections that were dropped for this reason."""
        return self.metrics.counter(SERVER_DROPPED).of(reason)[0]


@asynccontextmanager
async def serving(told: Told | None = None, limits: Limits = WIDE) -> AsyncIterator[Server]:
    """A server on a free port of loopback."""
    told = told or Told()
    server = Server(told.content(), told.metrics, limits)
    await server.start(("127.0.0.1", 0))
    try:
        yield server
    finally:
        await server.stop()


async def connect(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.ports[0])


async def get(server: Server, path: str, *headers: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """Status, headers by lower-case name, and body."""
    reader, writer = await connect(server)
    try:
        lines = [f"{method} {path} HTTP/1.1", "Host: here", *headers]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        return await answer(reader)
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Reads an answer until the server closes the connection."""
    async with asyncio.timeout(20):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = _unchunked(body)
    return int(status.split(" ")[1]), headers, body


def _unchunked(body: bytes) -> bytes:
    found = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        found += body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]
    return found


async def closed(reader: asyncio.StreamReader) -> bytes:
    """Waits until the server closes the connection, and returns what it has sent."""
    async with asyncio.timeout(20):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
