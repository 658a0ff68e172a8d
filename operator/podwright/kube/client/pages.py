"""Lists of the API server, read in pages. Used wherever objects are listed: the reflector, the audits, policies,
foreign pods.

The server builds the next page while the caller handles the current one, unless that one is large. All pages together
are one consistent list, at the `resourceVersion` of the last page. An expired continue token raises `ApiError` with
status 410; the caller then lists again.

A list may consist of the largest objects, so pages become smaller with the size of their objects. A list needs memory
for two pages of PAGE_BYTES, or for one that is larger: `response.BODY_LIMIT` at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from podwright.kube.client.errors import TooLongError
from podwright.kube.client.json_text import loads
from podwright.kube.client.media_types import JSON

if TYPE_CHECKING:
    from podwright.kube.client.http import Http

PAGE_SIZE: Final = 500
PAGE_BYTES: Final = 1 << 23
"""Bytes of JSON that a page should have at most. After a larger page the next one has fewer objects, and is not
requested ahead.
"""
SMALLER: Final = 4
"""By how much a page becomes smaller after one that was too long."""
LARGER: Final = 2
"""By how much a page may become larger than the one before: the next objects may be large again."""
SLICE_SECONDS: Final = 0.005
"""How long the objects of a page are handled before other tasks run: a page of the largest objects takes seconds."""


async def list_pages(
    http: Http,
    path: str,
    params: Mapping[str, str] | None = None,
    accept: str = JSON,
    loads: Callable[[bytes], Any] = loads,
) -> AsyncGenerator[Mapping[str, Any]]:
    """The pages of the list at `path`, each as `loads` reads it. Each request is retried. Raises ClusterError.

    A page of very large objects may be longer than the client reads. Then the rest of the list is read in smaller
    pages.
    """
    limit, token = PAGE_SIZE, ""
    ahead: asyncio.Task[tuple[Any, int]] | None = None

    def request() -> asyncio.Task[tuple[Any, int]]:
        query = {**(params or {}), "limit": str(limit), **({"continue": token} if token else {})}
        return asyncio.create_task(http.page(path, query, accept, loads), name="podwright list")

    try:
        while True:
            ahead = ahead or request()
            try:
                page, size = await ahead
            except TooLongError:
                if limit == 1:
                    raise
                limit, ahead = max(1, limit // SMALLER), None
                continue
            ahead = None
            token = page["metadata"].get("continue")
            limit = next_limit(limit, size, len(page.get("items") or ()))
            if token and size <= PAGE_BYTES:
                ahead = request()
                await asyncio.sleep(0)  # sends the request before the caller handles this page
            yield page
            del page  # before the next one comes
            if not token:
                return
    finally:
        if ahead is not None:
            ahead.cancel()


def next_limit(limit: int, size: int, count: int) -> int:
    """How many objects the next page may have, if they are like those of this page (`count` in `size` bytes)."""
    return max(1, min(PAGE_SIZE, limit * LARGER, PAGE_BYTES * max(1, count) // size))


async def objects_of(page: Mapping[str, Any]) -> AsyncGenerator[Any]:
    """The objects of a page. Other tasks run between two of them if the caller has needed SLICE_SECONDS since they last
    ran.
    """
    clock = asyncio.get_running_loop().time
    ends = clock() + SLICE_SECONDS
    for raw in page.get("items") or ():
        yield raw
        if clock() >= ends:
            await asyncio.sleep(0)
            ends = clock() + SLICE_SECONDS


async def list_objects(
    http: Http, path: str, params: Mapping[str, str] | None = None, accept: str = JSON
) -> AsyncIterator[Any]:
    """The objects of the list at `path`. Raises ClusterError."""
    async with aclosing(list_pages(http, path, params, accept)) as pages:
        async for page in pages:
            async with aclosing(objects_of(page)) as objects:
                del page  # before the next one comes
                async for raw in objects:
                    yield raw
