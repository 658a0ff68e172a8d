"""Many concurrent requests, with aiohttp and orjson.

Tests and benchmarks use it to fill a cluster. A failed request ends the whole batch with ApiError.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from podwright.testing.client import AnswerError
from podwright.testing.objects import collection_path, object_path

Json = dict[str, Any]
Send = Callable[[str, str, Json | None], Awaitable[Json]]


class Bulk:
    """Creates and deletes objects in batches as one user, with `in_flight` concurrent requests."""

    def __init__(self, url: str, certificate_authority: Path, token: str, in_flight: int = 32) -> None:
        self._url = url
        self._certificate_authority = certificate_authority
        self._token = token
        self._in_flight = in_flight

    def create(self, objects: Iterable[Json]) -> list[Json]:
        """Creates all objects concurrently, and returns the server's responses in the order of `objects`."""
        return self._run([("POST", collection_path(body), body) for body in objects])

    def update_status(self, objects: Iterable[Json]) -> list[Json]:
        """Sets the status of all objects concurrently, which creation ignores for most kinds."""
        return self._run([("PUT", object_path(body, "status"), body) for body in objects])

    def delete(self, objects: Iterable[Json]) -> None:
        """Deletes all objects without a grace period."""
        self._run([("DELETE", object_path(body), {"gracePeriodSeconds": 0}) for body in objects])

    def _run(self, requests: Sequence[tuple[str, str, Json | None]]) -> list[Json]:
        # In a separate thread, so that callers with a running event loop can use it.
        with ThreadPoolExecutor(max_workers=1) as worker:
            return worker.submit(asyncio.run, self._send_all(requests)).result()

    async def _send_all(self, requests: Sequence[tuple[str, str, Json | None]]) -> list[Json]:
        answers: list[Json] = [{}] * len(requests)
        numbered = iter(enumerate(requests))
        async with self.session() as send:

            async def worker() -> None:
                for number, (method, path, body) in numbered:
                    answers[number] = await send(method, path, body)

            async with asyncio.TaskGroup() as workers:
                for _ in range(self._in_flight):
                    workers.create_task(worker())
        return answers

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Send]:
        """A function that sends one request over persistent connections."""
        context = ssl.create_default_context(cafile=str(self._certificate_authority))
        connector = aiohttp.TCPConnector(ssl=context, limit=self._in_flight)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        async with aiohttp.ClientSession(self._url, connector=connector, headers=headers) as session:

            async def send(method: str, path: str, body: Json | None) -> Json:
                data = None if body is None else orjson.dumps(body)
                async with session.request(method, path, data=data) as answer:
                    parsed: Json = orjson.loads(await answer.read())
                    if answer.status >= 400:
                        raise AnswerError(answer.status, parsed.get("reason", ""), parsed.get("message", ""))
                    return parsed

            yield send
