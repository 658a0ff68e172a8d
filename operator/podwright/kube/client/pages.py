"""Lists of the API server, read in pages. Used wherever objects are listed: the reflector, the audits, policies, foreign pods.

The server builds the next page while the caller handles the current one. All pages together are one consistent list, at the
`resourceVersion` of the last page. An expired continue token raises `ApiError` with status 410; the caller then lists again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from podwright.kube.client.errors import TooLongError
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON

PAGE_SIZE: Final = 500
SMALLER: Final = 4
"""By how much a page becomes smaller after one that was too long."""
SLICE_SECONDS: Final = 0.005
"""How long the objects of a page are handled before other tasks run: a page of the largest objects takes seconds."""


async def list_pages(
    http: Http, path: str, params: Mapping[str, str] | None = None, accept: str = JSON
) -> AsyncGenerator[Mapping[str, Any]]:
    """The pages of the list at `path`, each as the server sent it. Each request is retried. Raises ClusterError.

    A page of very large objects may be longer than the client reads. Then the rest of the list is read in smaller pages.
    """
    limit, token = PAGE_SIZE, ""

    def request() -> asyncio.Task[Any]:
        query = {**(params or {}), "limit": str(limit), **({"continue": token} if token else {})}
        call = http.call_with_retries("GET", path, params=query, accept=accept)
        return asyncio.create_task(call, name="podwright list")

    page_request = request()
    try:
        while True:
            try:
                page = await page_request
            except TooLongError:
                if limit == 1:
                    raise
                limit = max(1, limit // SMALLER)
                page_request = request()
                continue
            token = page["metadata"].get("continue")
            if token:
                page_request = request()
                await asyncio.sleep(0)  # sends the request before the caller handles this page
            yield page
            if not token:
                return
    finally:
        page_request.cancel()


async def objects_of(page: Mapping[str, Any]) -> AsyncGenerator[Any]:
    """The objects of a page. Other tasks run between two of them if the caller has needed SLICE_SECONDS since they last ran."""
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
                async for raw in objects:
                    yield raw
