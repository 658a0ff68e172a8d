"""Bindings: posted until the outcome is known.

A Binding is retried after 429 (with the pause that the server asks for), 5xx, timeouts and lost connections, unless its
node is gone or full by then. A 404 or 409 ends it. If an earlier attempt may have taken effect, a 409 is checked: the
pod is read back, and if it is on our node, it is bound. The outcome is never guessed. `metadata.uid` is always sent, so
another pod of the same name is never bound. Called by the engine through `api_cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import orjson

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod import PodInfo
from podwright.kube.client.errors import (
    ApiError,
    UnreachableError,
    is_conflict,
    is_retryable,
    is_throttled,
    may_have_been_carried_out,
)
from podwright.kube.client.http import Http
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import POD

RETRY: Final = RetryPolicy(shortest=0.05, longest=2.0, attempts=6, jitter=(0.0, 1.0), adds_backoff=True)


class Binder:
    """Posts Bindings. `reason_not_to_bind(pod, node_name)`, called before each retry, says why the pod must not be
    bound there.

    `throttled` is called for each 429.
    """

    def __init__(
        self,
        http: Http,
        reason_not_to_bind: Callable[[PodInfo, str], str] = lambda _pod, _node_name: "",
        throttled: Callable[[], None] = lambda: None,
    ) -> None:
        self._http = http
        self._throttled = throttled
        self._reason_not_to_bind = reason_not_to_bind

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str]) -> None:
        """Binds the pod. Raises ClusterError if it is not known to be bound to that node afterwards."""
        path = POD.path(pod.name, pod.namespace, "binding")
        body = _binding(pod, node_name, annotations)
        try:
            answer = await self._http.send("POST", path, body)
            if answer.status < 300:
                return
            error: ClusterError = answer.error()
        except UnreachableError as unreachable:
            error = unreachable
        if is_throttled(error):
            self._throttled()
        if not is_retryable(error):
            raise error
        await self._retry(pod, node_name, path, body, error)

    async def _retry(self, pod: PodInfo, node_name: str, path: str, body: bytes, failure: ClusterError) -> None:
        ambiguous = may_have_been_carried_out(failure)

        async def post() -> None:
            nonlocal ambiguous
            if problem := self._reason_not_to_bind(pod, node_name):
                raise ClusterError(problem)
            try:
                answer = await self._http.send("POST", path, body)
                if answer.status >= 300:
                    raise answer.error()
            except ClusterError as error:
                if is_throttled(error):
                    self._throttled()
                ambiguous = ambiguous or may_have_been_carried_out(error)
                raise

        try:
            await RETRY.resume(post, failure)
        except ApiError as error:
            if is_conflict(error) and ambiguous and await self._is_on(pod, node_name):
                return
            raise

    async def _is_on(self, pod: PodInfo, node_name: str) -> bool:
        raw = await self._http.call("GET", POD.path(pod.name, pod.namespace))
        return bool(raw["metadata"]["uid"] == pod.uid and raw["spec"].get("nodeName") == node_name)


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
