"""API servers that record who asks them for what: one with TLS, one without, and an HTTP proxy before both.

The certificates are new for each folder: a CA, a server for 127.0.0.1, localhost and api.test, a client, and a CA of
somebody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

SERVER_NAME = "api.test"
_IDENTITY = ("authorization", "impersonate-")


@dataclass(frozen=True)
class Recorded:
    """A request. `headers`: those about identity, sorted. `client`: the common name of the certificate that was shown.

    `server_name`: what TLS was asked for. `proxied`: the target and the authorization that the proxy was given.
    """

    secure: bool
    target: str
    host: str
    headers: tuple[tuple[str, str], ...]
    client: str = ""
    server_name: str = ""
    proxied: tuple[str, str] | None = None


def create_certificates(folder: Path) -> None:
    """Writes ca.crt, other-ca.crt, server.crt, client.crt and other-client.crt, with their keys."""
    openssl = shutil.which("openssl")
    assert openssl, "openssl is needed to create certificates"

    def run(command: str) -> None:
        subprocess.run([openssl, *command.split()], cwd=folder, check=True, capture_output=True)

    key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    for name in ("ca", "other-ca"):
        run(f"req -x509 {key} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.crt")
    (folder / "names").write_text(f"subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:{SERVER_NAME}\n")
    for name in ("server", "client", "other-client"):
        run(f"req {key} -subj /CN={name} -keyout {name}.key -out {name}.csr")
        names = "-extfile names" if name == "server" else ""
        run(f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 {names} -out {name}.crt")


class RecordingServers:
    """Answers everything with 200 and `{}`. The proxy sends each request to these servers, whatever host it names."""

    def __init__(self, folder: Path) -> None:
        """`folder` has the certificates."""
        self._folder = folder
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._tunnels: dict[int, tuple[str, str]] = {}
        """The target and the authorization of each connection that the proxy made, by its local port."""
        self._names: dict[ssl.SSLObject, str] = {}
        self.requests: list[Recorded] = []
        self.secure_port = self.plain_port = self.proxy_port = self.secure_proxy_port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RecordingServers]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "server.crt", self._folder / "server.key")
        context.load_verify_locations(self._folder / "ca.crt")
        context.verify_mode = ssl.CERT_OPTIONAL
        context.sni_callback = self._note_name
        self.secure_port = await self._listen(self._serve, context)
        self.plain_port = await self._listen(self._serve)
        self.proxy_port = await self._listen(self._serve_proxy)
        self.secure_proxy_port = await self._listen(self._serve_proxy, context)
        try:
            yield self
        finally:
            for server in self._servers:
                server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, serve: object, context: ssl.SSLContext | None = None) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                with contextlib.suppress(asyncio.IncompleteReadError, OSError, asyncio.LimitOverrunError):
                    await serve(reader, writer)
            finally:
                self._tasks.discard(task)
                writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def _note_name(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        self._names[connection] = name or ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("ssl_object")
        proxied = self._tunnels.get(writer.get_extra_info("peername")[1])
        while True:
            recorded = _parsed(await reader.readuntil(b"\r\n\r\n"))
            if connection is not None:
                certificate = connection.getpeercert() or {}
                names = dict(pair for part in certificate.get("subject", ()) for pair in part)
                recorded = replace(
                    recorded,
                    secure=True,
                    client=names.get("commonName", ""),
                    server_name=self._names.get(connection, ""),
                )
            self.requests.append(replace(recorded, proxied=proxied))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()

    async def _serve_proxy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target = head.split()[:2]
        authorization = _header(head, "proxy-authorization")
        if method != b"CONNECT":
            self.requests.append(replace(_parsed(head), proxied=("", authorization)))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            await writer.drain()
            return
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self.secure_port)
        self._tunnels[upstream.get_extra_info("sockname")[1]] = (target.decode(), authorization)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(_copy(reader, upstream), _copy(upstream_reader, writer))
        finally:
            upstream.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


def _parsed(head: bytes) -> Recorded:
    lines = [line.partition(":") for line in head.decode().split("\r\n")[1:] if line]
    headers = sorted((name.lower(), value.strip()) for name, _, value in lines if name.lower().startswith(_IDENTITY))
    return Recorded(False, head.split()[1].decode(), _header(head, "host"), tuple(headers))


def _header(head: bytes, name: str) -> str:
    lines = (line.partition(":") for line in head.decode().split("\r\n")[1:])
    return next((value.strip() for found, _, value in lines if found.lower() == name), "")
