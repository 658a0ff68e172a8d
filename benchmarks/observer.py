"""Sees pods being bound, by one watch on bound pods, and notes when.

Times are `time.monotonic()` of this process. One event a pod, and no more of it is kept than the name and the node.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.http import Api
from benchmarks.workloads import MEASURED_PREFIX

Json = dict[str, Any]

_POLL_S = 0.1
_QUIET_S = 0.35


class Observer:
    """Bindings of measured pods: `bound_at` and `node_of` by pod name."""

    def __init__(self, api: Api, expected: int, on_first: Callable[[], None]) -> None:
        self._api = api
        self._expected = expected
        self._on_first = on_first
        self.bound_at: dict[str, float] = {}
        self.node_of: dict[str, str] = {}
        self.done = asyncio.Event()

    async def watch(self, started: asyncio.Event) -> None:
        """Watch until all expected pods are bound. Sets `started` when nothing can be missed any more."""
        empty = await self._api.get("/api/v1/pods?limit=1")
        version = empty["metadata"]["resourceVersion"]
        started.set()
        async for event in self._api.watch("/api/v1/pods?fieldSelector=spec.nodeName%21%3D", version):
            if event["type"] == "ADDED":
                self._note(event["object"], time.monotonic())
            if len(self.bound_at) >= self._expected:
                self.done.set()
                return

    def _note(self, pod: Json, now: float) -> None:
        name = pod["metadata"]["name"]
        if name.startswith(MEASURED_PREFIX):
            if not self.bound_at:
                self._on_first()
            self.bound_at[name] = now
            self.node_of[name] = pod["spec"]["nodeName"]


async def count_events(api: Api) -> int:
    """How many events there are in the cluster, of all kinds: cheap, since none is read."""
    page = await api.get("/apis/events.k8s.io/v1/events?limit=1")
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


async def count_scheduled(api: Api) -> int:
    """How many measured pods have a `Scheduled` event."""
    pods: set[str] = set()
    rest = ""
    while True:
        page = await api.get(f"/apis/events.k8s.io/v1/events?fieldSelector=reason%3DScheduled&limit=2000{rest}")
        pods.update(item["regarding"]["name"] for item in page["items"])
        if not page["metadata"].get("continue"):
            return sum(name.startswith(MEASURED_PREFIX) for name in pods)
        rest = f"&continue={page['metadata']['continue']}"


async def settle(
    count: Callable[[], Awaitable[int]],
    complete: Callable[[], Awaitable[bool]],
    moved: Callable[[], None],
    patience_s: float,
) -> None:
    """Poll `count` until all is `complete` or nothing has changed for `patience_s`; `moved` is called now and at each change.

    `complete` is dear: it is asked when there was no change for a moment, and now and then where there always is one, since
    pods that stay pending may go on having events. Ten times the patience is enough.
    """
    begun = since = asked = time.monotonic()
    seen = await count()
    moved()
    while (now := time.monotonic()) - since < patience_s and now - begun < 10 * patience_s:
        if now - asked > (_QUIET_S if now - since > _QUIET_S else patience_s):
            if await complete():
                return
            asked = time.monotonic()
        await asyncio.sleep(_POLL_S)
        if (found := await count()) != seen:
            seen, since = found, time.monotonic()
            moved()
