"""A small synchronous JSON client for tests, with one connection per thread.

It does not retry, so that a test sees each response. For thousands of objects, use `bulk`.
"""

import http.client
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from podwright.testing import processes
from podwright.testing.objects import collection_path, object_path, pod

Json = dict[str, Any]

_IDLE_SECONDS = 20.0
"""Closes idle connections before the API server does."""


class AnswerError(RuntimeError):
    """An error response. `status` is the HTTP code, `reason` that of the Status object."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Client:
    """Sends requests as one user. Connection errors raise OSError or http.client.HTTPException."""

    def __init__(self, host: str, port: int, certificate_authority: Path, token: str, timeout: float = 30.0) -> None:
        self._host = host
        self._port = port
        self._certificate_authority = certificate_authority
        self._token = token
        self._timeout = timeout
        self._local = threading.local()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        """Sends a request, and returns the response as JSON. Raises ApiError for 4xx and 5xx."""
        status, data = self.raw(method, path, body, query, content_type)
        answer: Json = orjson.loads(data) if data[:1] == b"{" else {"message": data.decode(errors="replace")}
        if status >= 400:
            raise AnswerError(status, str(answer.get("reason", "")), str(answer.get("message", "")))
        return answer

    def raw(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> tuple[int, bytes]:
        """Sends a request, and returns the HTTP code and the body."""
        target = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        payload = None
        if body is not None:
            headers["Content-Type"] = content_type
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = self._connection()
        try:
            connection.request(method, target, payload, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def ready(self) -> bool:
        """True if the server is reachable and ready."""
        try:
            return self.raw("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def get(self, path: str, **query: str) -> Json:
        """Gets a path. `query`: the parameters of the query string. Raises ApiError, like all methods below."""
        return self.request("GET", path, query=query)

    def items(self, path: str, **query: str) -> list[Json]:
        """Lists a path, and returns the items."""
        items: list[Json] = self.get(path, **query)["items"]
        return items

    def create(self, body: Json) -> Json:
        """Creates an object, and returns it as stored."""
        return self.request("POST", collection_path(body), body)

    def add_priority_class(self, name: str, value: int, preemption_policy: str = "PreemptLowerPriority") -> None:
        """Creates a PriorityClass unless it exists, and returns when pods may name it: the API server's admission
        learns of it by a watch.
        """
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        with suppress_status(409):
            self.create({**body, "value": value, "preemptionPolicy": preemption_policy})
        probe = pod(f"probe-of-{name}", priorityClassName=name)
        path = collection_path(probe)

        def admitted() -> bool:
            return self.raw("POST", path, probe, {"dryRun": "All"})[0] == 201

        wait_until(admitted, 30, f"pods may name PriorityClass {name}")

    def read(self, body: Json) -> Json:
        """Gets the object with the kind, namespace and name of `body`."""
        return self.request("GET", object_path(body))

    def replace(self, body: Json, subresource: str = "") -> Json:
        """Replaces an object or one of its subresources (PUT), and returns the object as stored."""
        return self.request("PUT", object_path(body, subresource), body)

    def patch(self, body: Json, change: Json, subresource: str = "") -> Json:
        """Merge-patches the object with the kind, namespace and name of `body`."""
        return self.request(
            "PATCH", object_path(body, subresource), change, content_type="application/merge-patch+json"
        )

    def delete(self, body: Json) -> None:
        """Deletes the object without a grace period; ignores 404."""
        with suppress_status(404):
            self.request("DELETE", object_path(body), query={"gracePeriodSeconds": "0"})

    def close(self) -> None:
        """Closes this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _connection(self) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        now = time.monotonic()
        if connection is not None and now - self._local.used > _IDLE_SECONDS:
            connection.close()
            connection = None
        self._local.used = now
        if connection is None:
            context = ssl.create_default_context(cafile=str(self._certificate_authority))
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)
            self._local.connection = connection
        return connection


@contextmanager
def suppress_status(status: int) -> Iterator[None]:
    """Ignores an ApiError with this status."""
    try:
        yield
    except AnswerError as error:
        if error.status != status:
            raise


def wait_until(condition: Callable[[], bool], timeout: float, expected: str) -> None:
    """Polls until `condition()` holds. Raises TimeoutError, naming what was `expected`.

    `timeout`: seconds of pauses. The time that the condition takes does not count, so that a busy machine gets longer.
    Pauses are longer after a condition that takes long, so that polling leaves most of the CPU to the awaited work.
    """
    waiter, left = threading.Event(), timeout * processes.patience
    while True:
        started = time.monotonic()
        if condition():
            return
        if left <= 0:
            raise TimeoutError(f"not within {timeout:g} s: {expected}")
        pause = min(1.0, max(0.05, 3 * (time.monotonic() - started)))
        waiter.wait(pause)
        left -= pause
