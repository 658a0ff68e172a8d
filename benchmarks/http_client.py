"""The HTTP client of the load generator, the observer and the null scheduler: aiohttp and orjson, with little work per
request.

These parts share the machine with the schedulers under test, so they must use little CPU.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

Json = dict[str, Any]


class Api:
    """Sends requests to one API server, as the user of a kubeconfig."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def get(self, path: str) -> Json:
        async with self._session.get(path) as response:
            response.raise_for_status()
            parsed: Json = orjson.loads(await response.read())
            return parsed

    async def text(self, path: str) -> str:
        async with self._session.get(path, headers={"Accept": "text/plain"}) as response:
            response.raise_for_status()
            return await response.text()

    async def post(self, path: str, body: Json) -> int:
        """Post an object and return the HTTP status, which may be an error."""
        async with self._session.post(path, data=orjson.dumps(body)) as response:
            await response.read()
            return response.status

    async def send(self, method: str, path: str, body: Json) -> Json:
        """Send an object, or a strategic merge patch, and return what is stored. Raises RuntimeError for an HTTP
        error.
        """
        kind = {"Content-Type": "application/strategic-merge-patch+json"} if method == "PATCH" else {}
        async with self._session.request(method, path, data=orjson.dumps(body), headers=kind) as response:
            stored: Json = orjson.loads(await response.read())
            if response.status >= 400:
                raise RuntimeError(f"{method} {path}: HTTP {response.status}: {stored.get('message')}")
            return stored

    async def patch(self, path: str, body: Json, kind: str = "strategic-merge-patch") -> int:
        """Send a patch and return the HTTP status, which may be an error. Custom resources take a `merge-patch`."""
        headers = {"Content-Type": f"application/{kind}+json"}
        async with self._session.patch(path, data=orjson.dumps(body), headers=headers) as response:
            await response.read()
            return response.status

    async def delete(self, path: str) -> int:
        async with self._session.delete(path, data=b'{"gracePeriodSeconds":0}') as response:
            await response.read()
            return response.status

    async def watch(self, path: str, version: str) -> AsyncIterator[Json]:
        """The events of a watch from resourceVersion `version` on, without end. Raises RuntimeError for an ERROR event.

        Under load the API server closes watches whose clients are slow (it buffers ten events). The watch then resumes
        from the last event seen, so no event is lost.
        """
        while True:
            target = f"{path}&watch=1&allowWatchBookmarks=true&resourceVersion={version}"
            async with self._session.get(target, timeout=aiohttp.ClientTimeout(total=None)) as response:
                response.raise_for_status()
                async for line in _lines(response.content):
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        raise RuntimeError(f"the watch of {path} failed: {event['object']}")
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        yield event


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


@asynccontextmanager
async def connect(kubeconfig: Path, connections: int = 100) -> AsyncIterator[Api]:
    """An Api for a kubeconfig in the form that `podwright.testing` writes."""
    cluster, user = _cluster_and_user(kubeconfig)
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    connector = aiohttp.TCPConnector(ssl=context, limit=connections)
    headers = {"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(cluster["server"], connector=connector, headers=headers) as session:
        yield Api(session)


def _cluster_and_user(kubeconfig: Path) -> tuple[Json, Json]:
    config = yaml.safe_load(kubeconfig.read_text())
    return config["clusters"][0]["cluster"], config["users"][0]["user"]
