"""The `Cluster` of plugins (core/framework/interface.py) on the API server: reads, updates, waits and Bindings.

Unlike everything else in kube/, it is called by plugins. Reads are sent once, and updates are retried a few times.
Waits poll, but for objects that are in the cache the engine waits there (engine/outcomes/binding/plugin_cluster).
`RetryingPodReader` retries reads, for the engine.

A Binding is posted until the outcome is known. It is retried after 429 (with the pause that the server asks for), 5xx,
timeouts and lost connections, unless its node is gone or full by then. A 404 or 409 ends it. If an earlier attempt may
have taken effect, a 409 is checked: the pod is read back, and if it is on our node, it is bound. The outcome is never
guessed. `metadata.uid` is always sent, so another pod of the same name is never bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import orjson

from podwright.core.framework.interface import Cluster, ClusterError, ClusterTimeoutError
from podwright.core.objects.pod import PodInfo
from podwright.engine.records.log_fields import fields
from podwright.kube.client.errors import (
    ApiError,
    if_there,
    is_conflict,
    is_not_found,
    is_retryable,
    is_throttled,
    may_have_been_carried_out,
)
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON, STRATEGIC_PATCH
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import BY_KIND, POD, Resource

log = logging.getLogger(__name__)

T = TypeVar("T")

POLL_SECONDS: Final = 0.5
BINDING_RETRY: Final = RetryPolicy(shortest=0.05, longest=2.0, attempts=6, jitter=(0.0, 1.0), adds_backoff=True)
UPDATE_RETRY: Final = RetryPolicy(shortest=0.2, longest=1.0, attempts=4, longest_retry_after=5.0, jitter=(0.5, 1.5))
READ_RETRY: Final = RetryPolicy(
    shortest=0.2, longest=5.0, longest_retry_after=0.0, retries=lambda error: isinstance(error, Exception)
)
"""Every error is retried. Only cancellation ends it."""


class ApiCluster:
    """Implements `Cluster`."""

    def __init__(
        self,
        http: Http,
        reason_not_to_bind: Callable[[PodInfo, str], str] = lambda _pod, _node_name: "",
        throttled: Callable[[], None] = lambda: None,
    ) -> None:
        """`reason_not_to_bind(pod, node_name)`, called before a Binding is retried, says why the pod must not be bound
        there. `throttled` is called for each 429.
        """
        self._http = http
        self._throttled = throttled
        self._reason_not_to_bind = reason_not_to_bind

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str]) -> None:
        """See Cluster. Raises ClusterError if the pod is not known to be bound to that node afterwards."""
        path, body = POD.path(pod.name, pod.namespace, "binding"), _binding(pod, node_name, annotations)
        try:
            await self._post(path, body)
        except ClusterError as error:
            if not is_retryable(error):
                raise
            await self._bind_again(pod, node_name, path, body, error)

    async def _bind_again(self, pod: PodInfo, node_name: str, path: str, body: bytes, failure: ClusterError) -> None:
        ambiguous = may_have_been_carried_out(failure)

        async def post() -> None:
            nonlocal ambiguous
            if problem := self._reason_not_to_bind(pod, node_name):
                raise ClusterError(problem)
            try:
                await self._post(path, body)
            except ClusterError as error:
                ambiguous = ambiguous or may_have_been_carried_out(error)
                raise

        try:
            await BINDING_RETRY.resume(post, failure)
        except ApiError as error:
            if is_conflict(error) and ambiguous and await self._is_on(pod, node_name):
                return
            raise

    async def _post(self, path: str, body: bytes) -> None:
        answer = await self._http.send("POST", path, body)
        if answer.status >= 300:
            error = answer.error()
            if is_throttled(error):
                self._throttled()
            raise error

    async def _is_on(self, pod: PodInfo, node_name: str) -> bool:
        raw = await self._http.call("GET", POD.path(pod.name, pod.namespace))
        return bool(raw["metadata"]["uid"] == pod.uid and raw["spec"].get("nodeName") == node_name)

    async def get(self, kind: str, name: str, namespace: str = "") -> Mapping[str, Any] | None:
        return await if_there(self._call("GET", _resource(kind).path(name, namespace)))

    async def update(self, kind: str, raw: Mapping[str, Any], subresource: str = "") -> Mapping[str, Any]:
        """See Cluster. Retried after transient errors. A conflict with our own first attempt is a success."""
        metadata = raw["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        path, body = _resource(kind).path(name, namespace, subresource), {**raw, **_type_of(kind)}
        ambiguous = False

        async def put() -> Mapping[str, Any]:
            nonlocal ambiguous
            try:
                updated: Mapping[str, Any] = await self._call("PUT", path, body)
            except ClusterError as error:
                ambiguous = ambiguous or may_have_been_carried_out(error)
                raise
            return updated

        try:
            return await UPDATE_RETRY.run(put)
        except ApiError as error:
            if is_conflict(error) and ambiguous:
                stored = await self.get(kind, name, namespace)
                if stored is not None and _content(stored, subresource) == _content(body, subresource):
                    return stored
            raise

    async def create(self, kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        namespace = raw["metadata"].get("namespace", "")
        created: Mapping[str, Any] = await self._call(
            "POST", _resource(kind).collection_in(namespace), {**raw, **_type_of(kind)}
        )
        return created

    async def patch(
        self, kind: str, name: str, namespace: str, change: Mapping[str, Any], subresource: str = ""
    ) -> Mapping[str, Any]:
        """See Cluster. Retried after transient errors: a merge that is repeated changes nothing more."""
        path = _resource(kind).path(name, namespace, subresource)

        async def send() -> Mapping[str, Any]:
            patched: Mapping[str, Any] = await self._call("PATCH", path, change, STRATEGIC_PATCH)
            return patched

        return await UPDATE_RETRY.run(send)

    async def delete(self, kind: str, name: str, namespace: str, uid: str) -> None:
        """See Cluster. Retried after transient errors."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        path = _resource(kind).path(name, namespace)

        async def send() -> None:
            try:
                await self._call("DELETE", path, options)
            except ApiError as error:
                if not is_not_found(error) and not is_conflict(error):
                    raise

        await UPDATE_RETRY.run(send)

    async def wait_for(
        self, kind: str, name: str, namespace: str, done: Callable[[Mapping[str, Any] | None], bool], timeout: float
    ) -> None:
        try:
            async with asyncio.timeout(timeout):
                while True:
                    if await self._is(kind, name, namespace, done):
                        return
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            message = f"{kind} {namespace}/{name}: not as expected after {timeout:g} s"
            raise ClusterTimeoutError(message) from None

    async def _call(self, method: str, path: str, body: object = None, content_type: str = JSON) -> Any:
        try:
            return await self._http.call(method, path, body, content_type)
        except ApiError as error:
            if is_throttled(error):
                self._throttled()
            raise

    async def _is(self, kind: str, name: str, namespace: str, done: Callable[[Mapping[str, Any] | None], bool]) -> bool:
        """Returns the result of `done` for the object; False after a transient error."""
        try:
            found = await self.get(kind, name, namespace)
        except ClusterError as error:
            if is_retryable(error):
                return False
            raise
        return done(found)


class RetryingPodReader:
    """Implements `PodReader`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def read(self, pod: PodInfo, parse: Callable[[Mapping[str, Any] | None], T]) -> T:
        """See PodReader. Only the first error is logged."""
        reported = False

        def report(error: BaseException) -> None:
            nonlocal reported
            if not reported:
                reported = True
                log.warning("cannot read a pod back yet", extra=fields(pod=pod, err=str(error) or repr(error)))

        async def attempt() -> T:
            return parse(await self._cluster.get("Pod", pod.name, pod.namespace))

        return await READ_RETRY.run(attempt, on_retry=report)


def _binding(pod: PodInfo, node_name: str, annotations: Mapping[str, str]) -> bytes:
    return orjson.dumps(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "annotations": annotations,
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
    )


def _resource(kind: str) -> Resource:
    resource = BY_KIND.get(kind)
    if resource is None:
        raise ClusterError(f"unknown kind {kind}")
    return resource


def _type_of(kind: str) -> dict[str, str]:
    """The fields that items of a list lack."""
    resource = _resource(kind)
    version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    return {"apiVersion": version, "kind": kind}


def _content(raw: Mapping[str, Any], subresource: str) -> tuple[Any, ...]:
    """Returns the fields that an update of the object, or of its subresource, sets."""
    metadata = raw["metadata"]
    if subresource:
        return metadata.get("uid"), raw.get(subresource)
    parts = (metadata.get(part) for part in ("uid", "labels", "annotations", "finalizers", "ownerReferences"))
    return (*(part or None for part in parts), raw.get("spec"))
