"""A sandbox in the test's event loop, and a JSON client for it."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import orjson
import pytest

from podwright.sandbox import Sandbox

PODS = "/api/v1/namespaces/default/pods"


class Http:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = None if body is None else io.BytesIO(body if isinstance(body, bytes) else orjson.dumps(body))
        given = {"Content-Type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}
        async with self._session.request(method, self._url + path, data=data, headers=given) as answer:
            return answer.status, orjson.loads(await answer.read())

    async def lines(self, path: str, count: int, opened: Callable[[], object] = lambda: None) -> list[dict]:
        """The first `count` events of a watch. `opened` is called once the server has begun to answer."""
        async with self._session.get(self._url + path) as answer:
            opened()
            return [orjson.loads(await answer.content.readline()) for _ in range(count)]

    async def get(self, path: str) -> Any:
        status, body = await self("GET", path)
        assert status == 200, body
        return body

    async def until(self, path: str, holds: Callable[[Any], bool]) -> Any:
        """Gets `path` until the response satisfies `holds`, for at most about ten seconds."""
        for _ in range(1000):
            _, body = await self("GET", path)
            if holds(body):
                return body
            await asyncio.sleep(0.01)
        raise AssertionError(body)

    async def pod(self, name: str, **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c"}], **spec}}
        assert (await self("POST", PODS, body))[0] == 201

    async def bind(self, name: str, node: str) -> None:
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        assert (await self("POST", f"{PODS}/{name}/binding", binding))[0] == 201


@contextlib.asynccontextmanager
async def running(**options: Any) -> AsyncIterator[tuple[Sandbox, Http]]:
    async with Sandbox(delay=0, **options) as sandbox, aiohttp.ClientSession() as session:
        yield sandbox, Http(session, sandbox.url)


@pytest.fixture
async def cluster() -> AsyncIterator[Http]:
    """A sandbox with two nodes, kubelets and controllers."""
    async with running() as (sandbox, http):
        sandbox.add_nodes(2, zones=2)
        yield http
