"""The demo's requests to the API server, and waiting for what is expected of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from podwright.cli.demo.objects import Json
from podwright.core.framework.interface import ClusterError
from podwright.kube.client.errors import ApiError, status_of
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON, MERGE_PATCH
from podwright.kube.client.pages import list_objects
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import BY_KIND, Resource

POLL_SECONDS: Final = 0.1
MOST_SECONDS: Final = 30.0
"""How long anything may take before the demo says that it did not happen."""
RETRY: Final = RetryPolicy(
    shortest=POLL_SECONDS,
    longest=POLL_SECONDS,
    seconds=MOST_SECONDS,
    retries=lambda error: status_of(error) in (429, 503),
)
"""A busy API server answers 429 or 503, and so does one that is not yet ready for a new kind."""


class DemoError(Exception):
    """What went wrong, in words for whoever started the demo."""


class NotInTimeError(DemoError):
    """Something that was expected did not happen."""


class Api:
    """Objects in, objects out. Refusals are raised as podwright.kube.client.errors.ApiError; "not now" is asked again."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def _call(
        self, method: str, path: str, body: Json | None = None, how: str = JSON, params: Mapping[str, str] | None = None
    ) -> Json:
        answer: Json = await RETRY.run(lambda: self._http.call(method, path, body, content_type=how, params=params))
        return answer

    async def create(self, raw: Json) -> Json:
        """The object as it was created."""
        resource, namespace = BY_KIND.get(raw["kind"]), raw["metadata"].get("namespace", "")
        path = collection(resource, namespace) if resource else f"/api/v1/namespaces/{namespace}/serviceaccounts"
        return await self._call("POST", path, raw)

    async def list(self, resource: Resource, namespace: str = "") -> list[Json]:
        """All objects, or those of one namespace."""

        async def collect() -> list[Json]:
            return [raw async for raw in list_objects(self._http, collection(resource, namespace))]

        return await RETRY.run(collect)

    async def merge(self, resource: Resource, name: str, change: Json) -> Json:
        """The object after a merge patch."""
        return await self._call("PATCH", resource.path(name), change, MERGE_PATCH)

    async def read(self, path: str, **params: str) -> Json:
        """What is at a path."""
        return await self._call("GET", path, params=params)

    async def delete(self, path: str) -> None:
        """An object or a collection, at once; that it is gone is no error."""
        try:
            await self._call("DELETE", path, params={"gracePeriodSeconds": "0"})
        except ApiError as error:
            if error.status != 404:
                raise

    async def exists(self, path: str) -> bool:
        """Whether there is something at a path that we may read."""
        try:
            await self.read(path)
        except ApiError as error:
            if error.status in (403, 404):
                return False
            raise
        return True


def collection(resource: Resource, namespace: str = "") -> str:
    """The path of all objects of a kind, or of those in a namespace."""
    return f"{resource.root}/namespaces/{namespace}/{resource.plural}" if namespace else resource.collection


async def until(
    holds: Callable[[], Awaitable[bool]],
    what: str,
    seconds: float | None = None,
    alive: Callable[[], None] | None = None,
) -> float:
    """Polls until it holds, at most MOST_SECONDS unless told otherwise; the seconds it took. Raises NotInTimeError.

    `alive` raises if there is nothing to wait for.
    """
    seconds = MOST_SECONDS if seconds is None else seconds
    clock = asyncio.get_running_loop().time
    started = clock()
    while not await holds():
        if alive is not None:
            alive()
        if clock() > started + seconds:
            raise NotInTimeError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(POLL_SECONDS)
    return clock() - started


@contextlib.asynccontextmanager
async def explained(what: str) -> AsyncIterator[None]:
    """Turns refusals and lost connections into DemoErrors that say what was being done."""
    try:
        yield
    except ClusterError as error:
        raise DemoError(f"{what}: {error}") from error
