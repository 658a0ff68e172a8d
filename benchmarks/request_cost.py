"""The CPU of a Binding in the client, in µs: our own client, aiohttp with orjson, and kubernetes.aio (ADR 0005).

    python -m benchmarks.request_cost

A process of its own answers at once, with TLS, on loopback. 32 requests are in flight. The clients take turns.
"""

import asyncio
import multiprocessing
import ssl
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import aiohttp
import orjson
from kubernetes.aio.client import ApiClient, Configuration, CoreV1Api, V1Binding, V1ObjectMeta, V1ObjectReference

from podwright.kube.client.credentials.credentials import Credentials, CredentialSource, Loaded
from podwright.kube.client.credentials.tls import tls_context
from podwright.kube.client.http import Http

IN_FLIGHT, REQUESTS, ROUNDS = 32, 3_000, 7
PATH: Final = "/api/v1/namespaces/default/pods/web-0/binding"
META: Final = {"name": "web-0", "namespace": "default", "uid": "u" * 36, "annotations": {"podwright.dev/x": "y" * 200}}
NODE: Final = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
BODY: Final = {"apiVersion": "v1", "kind": "Binding", "metadata": META, "target": NODE}
CREATED: Final = orjson.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
ANSWER: Final = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(CREATED)
Send = Callable[[], Awaitable[object]]


class _Server(asyncio.Protocol):
    """Answers each Binding."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._received = transport, b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received.endswith(b"}}"):
            self._received = b""
            self._transport.write(ANSWER + CREATED)  # type: ignore[attr-defined]  # it is of a socket


def _serve(folder: str, port: Connection) -> None:
    async def run() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/crt", f"{folder}/key")
        server = await asyncio.get_running_loop().create_server(_Server, "127.0.0.1", 0, ssl=context)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def _clients(url: str, authority: str, context: ssl.SSLContext, stack: AsyncExitStack) -> dict[str, Send]:
    headers = {"Authorization": "Bearer t"}
    http = Http(CredentialSource(lambda _now: Loaded(Credentials(url, context, tuple(headers.items()))), time.time))
    stack.push_async_callback(http.close)
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector, headers=headers))

    async def by_aiohttp() -> None:
        async with session.post(url + PATH, data=orjson.dumps(BODY)) as answer:
            await answer.read()

    def by_aio(*, trust_env: bool) -> Send:
        configuration = Configuration(host=url, ssl_ca_cert=authority, api_key={"BearerToken": "Bearer t"})
        configuration.client_session_kwargs = {"trust_env": trust_env}
        api = CoreV1Api(ApiClient(configuration))
        stack.push_async_callback(api.api_client.close)

        async def send() -> None:
            body = V1Binding(metadata=V1ObjectMeta(**META), target=V1ObjectReference(**NODE))
            answer = await api.create_namespaced_pod_binding_without_preload_content("web-0", "default", body)
            await answer.read()

        return send

    return {
        "podwright": lambda: http.send("POST", PATH, orjson.dumps(BODY)),
        "aiohttp": by_aiohttp,
        "kubernetes.aio": by_aio(trust_env=True),
        "kubernetes.aio, trust_env off": by_aio(trust_env=False),
    }


async def _measured(send: Send, requests: int) -> float:
    left = iter(range(requests))

    async def work() -> None:
        for _ in left:
            await send()

    started = time.process_time()
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return (time.process_time() - started) / requests * 1e6


async def _run(url: str, authority: str, context: ssl.SSLContext) -> None:
    async with AsyncExitStack() as stack:
        clients = await _clients(url, authority, context, stack)
        for send in clients.values():
            await _measured(send, IN_FLIGHT * 4)  # connects
        rounds = [[await _measured(send, REQUESTS) for send in clients.values()] for _ in range(ROUNDS)]
    for name, times in zip(clients, zip(*rounds, strict=True), strict=True):
        print(f"{name:30} {min(times):4.0f} to {max(times):4.0f}, median {statistics.median(times):4.0f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=here -addext"
        names = (
            f"subjectAltName=IP:127.0.0.1 -addext keyUsage=critical,digitalSignature,keyCertSign -keyout {folder}/key"
        )
        subprocess.run(f"{command} {names} -out {folder}/crt".split(), check=True, capture_output=True)
        here, there = multiprocessing.Pipe()
        spawned = multiprocessing.get_context("spawn").Process(target=_serve, args=(folder, there), daemon=True)
        spawned.start()
        context = tls_context(Path(folder, "crt").read_text(), None, None, where=("", ""))
        asyncio.run(_run(f"https://127.0.0.1:{here.recv()}", f"{folder}/crt", context))
        spawned.terminate()


if __name__ == "__main__":
    main()
