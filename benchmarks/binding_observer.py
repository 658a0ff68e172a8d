"""Watches bound pods and records when each measured pod was bound, and to which node.

Times are `time.monotonic()` of this process. Each pod costs one watch event; only the pod's name and node are kept.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from benchmarks.http_client import Api, Json
from benchmarks.workloads import MEASURED_PREFIX

_POLL_S = 0.1
_QUIET_S = 0.35


class BindingObserver:
    """Bindings of measured pods: `bound_at` and `node_of` by pod name.

    `unschedulable`: instead when they were first told that they fit nowhere.
    """

    def __init__(self, api: Api, expected: int, on_first: Callable[[], None], *, unschedulable: bool = False) -> None:
        self._api = api
        self._expected = expected
        self._on_first = on_first
        self._unschedulable = unschedulable
        self.bound_at: dict[str, float] = {}
        self.node_of: dict[str, str] = {}
        self.done = asyncio.Event()
        self._awaited: dict[str, asyncio.Event] = {}

    async def bound(self, name: str) -> None:
        """Wait until the measured pod of this name is bound."""
        if name not in self.bound_at:
            await self._awaited.setdefault(name, asyncio.Event()).wait()

    async def watch(self, started: asyncio.Event) -> None:
        """Watch until all expected pods are bound. Sets `started` once the watch can miss no binding."""
        page = await self._api.get("/api/v1/pods?limit=1")
        version = page["metadata"]["resourceVersion"]
        started.set()
        selector = "spec.nodeName%3D" if self._unschedulable else "spec.nodeName%21%3D"
        async for event in self._api.watch(f"/api/v1/pods?fieldSelector={selector}", version):
            if _is_unschedulable(event["object"]) if self._unschedulable else event["type"] == "ADDED":
                self._record(event["object"], time.monotonic())
            if len(self.bound_at) >= self._expected:
                self.done.set()
                return

    def _record(self, pod: Json, now: float) -> None:
        name = pod["metadata"]["name"]
        if name.startswith(MEASURED_PREFIX) and name not in self.bound_at:
            if not self.bound_at:
                self._on_first()
            self.bound_at[name] = now
            self.node_of[name] = pod["spec"].get("nodeName", "")
            if name in self._awaited:
                self._awaited.pop(name).set()


def _is_unschedulable(pod: Json) -> bool:
    return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions", ()))


async def count_events(api: Api) -> int:
    """The number of events in the cluster, of all kinds. Cheap, because it fetches only one event."""
    page = await api.get("/apis/events.k8s.io/v1/events?limit=1")
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


async def count_scheduled(api: Api) -> int:
    """The number of measured pods that have a `Scheduled` event."""
    pods: set[str] = set()
    next_page = ""
    while True:
        page = await api.get(f"/apis/events.k8s.io/v1/events?fieldSelector=reason%3DScheduled&limit=2000{next_page}")
        pods.update(item["regarding"]["name"] for item in page["items"])
        if not page["metadata"].get("continue"):
            return sum(name.startswith(MEASURED_PREFIX) for name in pods)
        next_page = f"&continue={page['metadata']['continue']}"


async def settle(
    count: Callable[[], Awaitable[int]],
    complete: Callable[[], Awaitable[bool]],
    on_change: Callable[[], None],
    patience_s: float,
) -> None:
    """Poll `count` until `complete` or until nothing has changed for `patience_s`. Calls `on_change` now and at each
    change.

    `complete` is expensive, so it is called only after a moment without changes, or every `patience_s` while changes
    continue, since pending pods may produce events without end. Gives up after forty times `patience_s`.
    """
    started = changed = checked = time.monotonic()
    seen = await count()
    on_change()
    while (now := time.monotonic()) - changed < patience_s and now - started < 40 * patience_s:
        if now - checked > (_QUIET_S if now - changed > _QUIET_S else patience_s):
            if await complete():
                return
            checked = time.monotonic()
        await asyncio.sleep(_POLL_S)
        if (found := await count()) != seen:
            seen, changed = found, time.monotonic()
            on_change()
