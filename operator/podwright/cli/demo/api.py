"""The demo's requests to the API server, and waiting for their effects."""

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
TIMEOUT_SECONDS: Final = 30.0
"""How long the demo waits for each effect before it fails."""
RETRY: Final = RetryPolicy(
    shortest=POLL_SECONDS,
    longest=POLL_SECONDS,
    seconds=TIMEOUT_SECONDS,
    retries=lambda error: status_of(error) in (429, 503),
)
"""An API server answers 429 or 503 when it is busy, or not yet ready to serve a new kind."""


class DemoError(Exception):
    """Ends the demo. The message is for the user."""


class NotInTimeError(DemoError):
    """An expected effect did not occur in time."""


class Api:
    """Reads and writes objects as JSON. Retries answers 429 and 503; other errors raise
    podwright.kube.client.errors.ApiError.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def _call(
        self, method: str, path: str, body: Json | None = None, how: str = JSON, params: Mapping[str, str] | None = None
    ) -> Json:
        answer: Json = await RETRY.run(lambda: self._http.call(method, path, body, content_type=how, params=params))
        return answer

    async def create(self, raw: Json) -> Json:
        """Creates an object and returns the stored one."""
        resource, namespace = BY_KIND.get(raw["kind"]), raw["metadata"].get("namespace", "")
        path = collection(resource, namespace) if resource else f"/api/v1/namespaces/{namespace}/serviceaccounts"
        return await self._call("POST", path, raw)

    async def list(self, resource: Resource, namespace: str = "") -> list[Json]:
        """Lists all objects, or those of one namespace."""

        async def collect() -> list[Json]:
            return [raw async for raw in list_objects(self._http, collection(resource, namespace))]

        return await RETRY.run(collect)

    async def merge(self, resource: Resource, name: str, change: Json) -> Json:
        """Applies a merge patch and returns the new object."""
        return await self._call("PATCH", resource.path(name), change, MERGE_PATCH)

    async def read(self, path: str, **params: str) -> Json:
        """Gets a path."""
        return await self._call("GET", path, params=params)

    async def delete(self, path: str) -> None:
        """Deletes an object or a collection without a grace period; ignores 404."""
        try:
            await self._call("DELETE", path, params={"gracePeriodSeconds": "0"})
        except ApiError as error:
            if error.status != 404:
                raise

    async def exists(self, path: str) -> bool:
        """True if a path exists and we may read it."""
        try:
            await self.read(path)
        except ApiError as error:
            if error.status in (403, 404):
                return False
            raise
        return True


def collection(resource: Resource, namespace: str = "") -> str:
    """The path of all objects of a kind, or of its objects in one namespace."""
    return resource.collection_in(namespace) if namespace else resource.collection


async def wait_until(
    condition: Callable[[], Awaitable[bool]],
    expected: str,
    seconds: float | None = None,
    check_alive: Callable[[], None] | None = None,
) -> float:
    """Polls until the condition holds, and returns the seconds this took. Raises NotInTimeError, naming what was
    `expected`.

    `seconds` defaults to TIMEOUT_SECONDS. `check_alive` is called before each pause, and raises when waiting is
    pointless.
    """
    seconds = TIMEOUT_SECONDS if seconds is None else seconds
    clock = asyncio.get_running_loop().time
    started = clock()
    while not await condition():
        if check_alive is not None:
            check_alive()
        if clock() > started + seconds:
            raise NotInTimeError(f"timed out after {seconds:g} s waiting for {expected}")
        await asyncio.sleep(POLL_SECONDS)
    return clock() - started


@contextlib.asynccontextmanager
async def demo_errors(doing: str) -> AsyncIterator[None]:
    """Turns API errors and lost connections into DemoErrors that say what the demo was doing."""
    try:
        yield
    except ClusterError as error:
        raise DemoError(f"{doing}: {error}") from error
