"""Bindings: posted until there is a clear answer.

A Binding is tried again on 429 (after the pause that the server asks for), 5xx, timeouts and lost connections, unless its
node is gone or full by then; 409 and 404 end the attempt. After an attempt that may have gone through without our knowing, a conflict is looked into: the pod is read
back, and if it is on our node, all is well. `metadata.uid` is always sent, so no other pod of the same name is ever bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import orjson
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod import PodInfo
from podwright.kube.client.answers import Answer, ApiError, UnreachableError, worth_retrying
from podwright.kube.client.http import Http
from podwright.kube.kinds import POD

ATTEMPTS: Final = 6
_jitter: Final = wait_random_exponential(multiplier=0.05, max=2.0)
LONGEST_PAUSE: Final = 30.0


def pause(state: RetryCallState) -> float:
    """Seconds until the next attempt: what the server asked for, or a random time that grows."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = getattr(error, "retry_after", None)
    jitter = float(_jitter(state))
    return jitter if asked is None else min(LONGEST_PAUSE, asked) + jitter


class Binder:
    """Posts Bindings. `obstacle(pod, node_name)`, asked before each further try, says why there must be none."""

    def __init__(self, http: Http, obstacle: Callable[[PodInfo, str], str] = lambda _pod, _node_name: "") -> None:
        self._http = http
        self._obstacle = obstacle

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str]) -> None:
        """Binds the pod. Raises ClusterError if it is not known to be bound to that node afterwards."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"
        body = _binding(pod, node_name, annotations)
        try:
            answer = await self._http.send("POST", path, body)
            if answer.status < 300:
                return
            error: ClusterError = answer.error()
        except UnreachableError as unreachable:
            error = unreachable
        if not worth_retrying(error):
            raise error
        await self._try_again(pod, node_name, path, body, error)

    async def _try_again(self, pod: PodInfo, node_name: str, path: str, body: bytes, first: ClusterError) -> None:
        # The first attempt was made without tenacity, which would cost more than the request itself.
        retrying = AsyncRetrying(
            retry=retry_if_exception(worth_retrying), wait=pause, stop=stop_after_attempt(ATTEMPTS), reraise=True
        )
        ambiguous = False
        try:
            async for attempt in retrying:
                with attempt:
                    try:
                        if attempt.retry_state.attempt_number == 1:
                            raise first
                        if why := self._obstacle(pod, node_name):
                            raise ClusterError(why)
                        await self._post(path, body)
                    except ClusterError as error:
                        ambiguous = ambiguous or (worth_retrying(error) and error.status != 429)
                        raise
        except ApiError as error:
            if error.status == 409 and ambiguous and await self._is_on(pod, node_name):
                return
            raise

    async def _post(self, path: str, body: bytes) -> None:
        answer: Answer = await self._http.send("POST", path, body)
        if answer.status >= 300:
            raise answer.error()

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
