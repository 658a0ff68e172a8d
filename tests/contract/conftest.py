"""Every test here runs against the sandbox and against a real API server.

`server` is the kubeconfig of the server under test. `api` is a client with a new namespace for each test.
"""

import asyncio
import base64
import contextlib
import ssl
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import yaml

from podwright.sandbox import SandboxThread
from support.waiting import PATIENCE_SECONDS

SERVERS = [pytest.param("sandbox", id="sandbox"), pytest.param("real", id="real", marks=pytest.mark.control_plane)]
JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture(scope="session")
def sandbox_kubeconfig(tmp_path_factory) -> Iterator[Path]:
    with SandboxThread(kubelet=False, controllers=False) as sandbox:
        yield sandbox.write_kubeconfig(tmp_path_factory.mktemp("sandbox") / "kubeconfig")


@pytest.fixture(params=SERVERS)
def server(request) -> Path:
    """The kubeconfig of the API server under test."""
    if request.param == "sandbox":
        return request.getfixturevalue("sandbox_kubeconfig")
    return request.getfixturevalue("control_plane").kubeconfig


@dataclass
class Answer:
    status: int
    body: Any

    @property
    def reason(self) -> str:
        return self.body.get("reason", "")

    @property
    def message(self) -> str:
        return self.body.get("message", "")

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]


class WatchStream:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self, seconds: float = PATIENCE_SECONDS) -> tuple[str, dict]:
        """The type and object of the next event."""
        line = await asyncio.wait_for(self._response.content.readline(), seconds)
        if not line:
            raise EOFError("the watch has ended")
        event = orjson.loads(line)
        return event["type"], event["object"]

    async def types_and_names(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(kind, obj["metadata"]["name"]) for kind, obj in events]

    async def rest(self) -> list[tuple[str, dict]]:
        """All events until the server ends the watch."""
        events = []
        with contextlib.suppress(EOFError):
            while True:
                events.append(await self.next())
        return events

    async def silent(self, seconds: float = 0.3) -> bool:
        try:
            await self.next(seconds)
        except TimeoutError:
            return True
        return False


class Api:
    """A client. The path `~pods` is in the test's namespace and the core group, `~apps/v1:deployments` in another
    group.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, namespace: str) -> None:
        self.namespace = namespace
        self._session = session
        self._url = url

    def _path(self, path: str) -> str:
        if not path.startswith("~"):
            return self._url + path
        head, _, rest = path[1:].rpartition(":")
        return f"{self._url}/{'apis/' + head if head else 'api/v1'}/namespaces/{self.namespace}/{rest}"

    async def __call__(self, method: str, path: str, body: Any = None, how: str = JSON, **query: str) -> Answer:
        data = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        headers = {"Content-Type": how, "Accept": query.pop("accept", JSON)}
        async with self._session.request(method, self._path(path), data=data, headers=headers, params=query) as answer:
            text = await answer.read()
            return Answer(answer.status, orjson.loads(text) if text[:1] in b"{[" else text.decode())

    async def until(
        self,
        status: int,
        method: str,
        path: str,
        body: Any = None,
        holds: Callable[[Any], object] = lambda _: True,
        **query: str,
    ) -> Answer:
        """Repeats a request until the response has this code, and this holds of its body, because a real server needs a
        moment to serve a new kind, and its caches a moment to show a change.
        """
        for _ in range(int(PATIENCE_SECONDS / 0.05)):
            answer = await self(method, path, body, **query)
            if answer.status == status and holds(answer.body):
                return answer
            await asyncio.sleep(0.05)
        raise AssertionError(answer)

    async def ok(self, method: str, path: str, body: Any = None, how: str = JSON, **query: str) -> Any:
        answer = await self(method, path, body, how, **query)
        assert answer.status < 300, answer
        return answer.body

    async def revision(self, path: str = "~pods") -> str:
        """The revision of a list, from which a watch can start."""
        return (await self.ok("GET", path))["metadata"]["resourceVersion"]

    @contextlib.asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[WatchStream]:
        params = {"watch": "true", **query}
        headers = {"Accept": params.pop("accept", JSON)}
        async with self._session.get(self._path(path), params=params, headers=headers) as response:
            assert response.status == 200
            yield WatchStream(response)

    async def pod(self, name: str, **fields: Any) -> dict:
        """Creates a pod. `fields` are fields of its metadata or spec."""
        metadata = {key: fields.pop(key) for key in ("labels", "annotations", "finalizers") if key in fields}
        spec = {
            "schedulerName": "unused-scheduler",
            "containers": [{"name": "main", "image": "registry.example/main"}],
            **fields,
        }
        return await self.ok("POST", "~pods", {"metadata": {"name": name, **metadata}, "spec": spec})

    async def config(self, name: str, **data: str) -> dict:
        return await self.ok("POST", "~configmaps", {"metadata": {"name": name}, "data": data})

    async def bind(self, name: str, node: str, **metadata: Any) -> Answer:
        """Binds a pod. After a success, the server's watch cache shows the pod on its node.

        kube-apiserver first tries a DELETE on the cached pod. If that one has no node yet, the grace period of the
        DELETE stays 0, and the bound pod vanishes at once.
        """
        binding = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
        answer = await self("POST", f"~pods/{name}/binding", binding)
        if answer.status == 201:
            await self.until(
                200, "GET", f"~pods/{name}", holds=lambda pod: "nodeName" in pod["spec"], resourceVersion="0"
            )
        return answer


@pytest.fixture
async def api(server: Path) -> AsyncIterator[Api]:
    config = yaml.safe_load(server.read_bytes())  # noqa: ASYNC240 -- a small local file
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    headers = {"Authorization": f"Bearer {user['token']}"}
    connector = aiohttp.TCPConnector(ssl=_trust(cluster), limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        client = Api(session, cluster["server"], f"contract-{uuid.uuid4().hex[:8]}")
        await client.ok("POST", "/api/v1/namespaces", {"metadata": {"name": client.namespace}})
        # No controller creates the default service account of a new namespace.
        await client("POST", "~serviceaccounts", {"metadata": {"name": "default"}})
        yield client
        await _clean_up(client)


def _trust(cluster: dict) -> ssl.SSLContext | bool:
    if "certificate-authority-data" in cluster:
        return ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "certificate-authority" in cluster:
        return ssl.create_default_context(cafile=cluster["certificate-authority"])
    return True


async def _clean_up(api: Api) -> None:
    for path in ("~pods", "~configmaps", "~policy/v1:poddisruptionbudgets", "~apps/v1:deployments"):
        await api("DELETE", path, gracePeriodSeconds="0")
    namespace = f"/api/v1/namespaces/{api.namespace}"
    await api("DELETE", namespace)
    finalized = {"metadata": {"name": api.namespace}, "spec": {"finalizers": []}}
    await api("PUT", f"{namespace}/finalize", {"apiVersion": "v1", "kind": "Namespace", **finalized})
