"""A server of health and metrics on a free port, with content that a test chooses, and clients of all kinds."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from podwright.core.objects.pod import PodInfo
from podwright.engine.records.metrics import SERVER_DROPPED, Metrics
from podwright.kube.certificate_chain import load_certificate_chain
from podwright.kube.options.options import Options
from podwright.kube.serve.access.delegation import User
from podwright.kube.serve.connections.connection import ClientLimits
from podwright.kube.serve.content import Content
from podwright.kube.serve.server import Server
from podwright.testing.processes import free_port
from support.serve.certificates import Issued
from support.waiting import patience

WIDE = ClientLimits(connections=64)


@dataclass
class Told:
    """The scheduler's answers to the server."""

    problems: dict[str, str] = field(default_factory=lambda: {"ping": ""})
    pods: Sequence[PodInfo] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=lambda: Metrics(lambda: 0.0))
    list_pods: Callable[[], Iterable[PodInfo]] | None = None
    checks: Callable[[], Mapping[str, str]] | None = None
    snapshots: int = 0
    about_pod: Any = None
    shown: Any = None
    shadow: Any = None

    def content(self) -> Content:
        return Content(
            checks=self.checks or (lambda: dict(self.problems)),
            metrics=self._snapshots,
            pods=self.list_pods or (lambda: self.pods),
            configuration=lambda: lambda: self.configuration,
            about_pod=self.about_pod,
            shown=self.shown,
            shadow=self.shadow,
        )

    def _snapshots(self) -> Any:
        self.snapshots += 1
        return self.metrics.snapshots()

    def dropped(self, reason: str) -> int:
        """The number of connections that were dropped for this reason."""
        return self.metrics.counter(SERVER_DROPPED).of(reason)[0]


class Delegate:
    """Decides in place of the API server, and records what it was asked."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        """By token."""
        self.allowed: set[tuple[str, ...]] = set()
        """User, verb and path; or user, namespace and name of a pod; or user, "list" and the namespace of pods; or user
        and the resource, namespace and name of whom to impersonate.
        """
        self.authorities = ""
        self.published: dict[str, str] = {}
        """Further fields that the API server publishes about the issuers of client certificates."""
        self.error: Exception | None = None
        self.held = asyncio.Event()
        self.held.set()
        self.asked: list[tuple[str, ...]] = []

    async def user_of(self, token: str) -> User | None:
        await self._ask("token", token)
        return self.users.get(token)

    async def allows(self, user: User, verb: str, path: str) -> bool:
        await self._ask(user.name, verb, path)
        return (user.name, verb, path) in self.allowed

    async def allows_pod(self, user: User, namespace: str, name: str) -> bool:
        await self._ask(user.name, namespace, name)
        return (user.name, namespace, name) in self.allowed

    async def allows_pods(self, user: User, namespace: str) -> bool:
        await self._ask(user.name, "list", namespace)
        return (user.name, "list", namespace) in self.allowed

    async def allows_impersonation(self, user: User, *what: str) -> bool:
        await self._ask(user.name, *what)
        return (user.name, *what) in self.allowed

    async def authentication(self) -> Mapping[str, Any]:
        await self._ask("authorities")
        return {"client-ca-file": self.authorities, **self.published}

    async def _ask(self, *what: str) -> None:
        self.asked.append(what)
        await self.held.wait()
        if self.error is not None:
            raise self.error


@asynccontextmanager
async def serving(
    told: Told | None = None, limits: ClientLimits = WIDE, delegate: Delegate | None = None, **options: Any
) -> AsyncIterator[Server]:
    """A server on a free port of loopback: of plain HTTP unless `options` say otherwise."""
    told = told or Told()
    given = Options(**(options or {"health_address": ("127.0.0.1", 0)}))
    delegation: Any = delegate or Delegate()
    server = Server(told.content(), told.metrics, options=given, delegation=delegation, limits=limits)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


def secure(**options: Any) -> dict[str, Any]:
    """Options for HTTPS on a free port of loopback."""
    return {"bind_address": "127.0.0.1", "secure_port": free_port(), **options}


def client_context(issued: Issued | None = None, authority: str | None = None) -> ssl.SSLContext:
    """For a client with this certificate, which verifies the server if it knows its authority."""
    context = ssl.create_default_context(cadata=authority)
    if authority is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if issued is not None:
        load_certificate_chain(context, issued.certificate, issued.key)
    return context


async def connect(
    server: Server, context: ssl.SSLContext | None = None, peer: str = "127.0.0.1"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects from this address, which must be this machine's own."""
    return await asyncio.open_connection("127.0.0.1", server.ports[-1], ssl=context, local_addr=(peer, 0))


async def get(
    server: Server,
    path: str,
    *headers: str,
    method: str = "GET",
    context: ssl.SSLContext | None = None,
    peer: str = "127.0.0.1",
    host: str = "localhost",
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers by lower-case name, and body."""
    reader, writer = await connect(server, context, peer)
    try:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        return await answer(reader)
    finally:
        await hang_up(writer)


async def hang_up(*writers: asyncio.StreamWriter) -> None:
    """Closes connections, and waits until they are closed."""
    for writer in writers:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Reads an answer until the server closes the connection."""
    async with patience():
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
    async with patience():
        try:
            return await reader.read()
        except ConnectionError:
            return b""
