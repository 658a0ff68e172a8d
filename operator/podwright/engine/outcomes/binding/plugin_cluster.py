"""The `Cluster` of plugins: the port's, except that waits for stored objects read the cache, and refused Bindings are
recorded.

A wait costs no request: the watch brings the change, as it does for kube-scheduler's informers. Requests wait for
capacity of the BindLimiter: a thousand pods in PreBind would otherwise send as many requests at once, and the API
server would refuse most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from podwright.core.framework.interface import Cluster, ClusterError, ClusterTimeoutError
from podwright.core.objects.items_by_key import drop
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.watched_kinds import STORED_KINDS
from podwright.core.state.object_store import Object, ObjectStore
from podwright.engine.outcomes.binding.cycle import BindingCycle, BindingCycles
from podwright.engine.outcomes.binding.limiter import BindLimiter

CONFLICT: Final = 409
STORED_WHOLE: Final = frozenset(watched.kind for watched in STORED_KINDS if not watched.spec_fields)
"""The kinds of which the store has every field that may be waited for."""

Done = Callable[[Mapping[str, Any] | None], bool]


class PluginCluster:
    """Implements `Cluster` for plugins."""

    def __init__(
        self, cluster: Cluster, binding_cycles: BindingCycles, *, store: ObjectStore, limiter: BindLimiter
    ) -> None:
        self._cluster = cluster
        self._binding_cycles = binding_cycles
        self._waits = StoreWaits(store)
        self._limiter = limiter
        self._send = limiter.send

    async def get(self, kind: str, name: str, namespace: str = "") -> Mapping[str, Any] | None:
        """See Cluster."""
        return await self._send(lambda: self._cluster.get(kind, name, namespace))

    async def update(self, kind: str, raw: Mapping[str, Any], subresource: str = "") -> Mapping[str, Any]:
        """See Cluster."""
        return await self._send(lambda: self._cluster.update(kind, raw, subresource))

    async def create(self, kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """See Cluster."""
        return await self._send(lambda: self._cluster.create(kind, raw))

    async def patch(
        self, kind: str, name: str, namespace: str, change: Mapping[str, Any], subresource: str = ""
    ) -> Mapping[str, Any]:
        """See Cluster."""
        return await self._send(lambda: self._cluster.patch(kind, name, namespace, change, subresource))

    async def delete(self, kind: str, name: str, namespace: str, uid: str) -> None:
        """See Cluster."""
        await self._send(lambda: self._cluster.delete(kind, name, namespace, uid))

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str]) -> None:
        """See Cluster. The Binder raises a conflict only if it is sure that none of our own Bindings went through."""
        try:
            await self._cluster.bind(pod, node_name, annotations)
        except ClusterError as error:
            if error.status == CONFLICT:
                self._binding_cycles.record_conflict(pod.uid)
            raise

    async def wait_for(self, kind: str, name: str, namespace: str, done: Done, timeout: float) -> None:
        """See Cluster."""
        wait = self._waits.wait_for if kind in STORED_WHOLE else self._cluster.wait_for
        holder = self._limiter.holder
        with self._binding_cycles.wait_of(holder if isinstance(holder, BindingCycle) else None):
            await wait(kind, name, namespace, done, timeout)


class StoreWaits:
    """Waits for objects of the store. A change of another object costs a waiting one nothing."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._kinds: set[str] = set()
        """The kinds whose changes are observed."""
        self._waiting: dict[tuple[str, str, str], dict[asyncio.Event, None]] = {}
        """The waits for each object, by kind, namespace and name."""

    async def wait_for(self, kind: str, name: str, namespace: str, done: Done, timeout: float) -> None:
        """See `Cluster.wait_for`. Raises ClusterTimeoutError."""
        key, changed = (kind, namespace, name), asyncio.Event()
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._store.listen(kind, partial(self._changed, kind))
        self._waiting.setdefault(key, {})[changed] = None
        try:
            async with asyncio.timeout(timeout) as limit:
                while not done(self._store.get(kind, name, namespace)):
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            if not limit.expired():
                raise  # an error of `done`
            message = f"{kind} {namespace}/{name}: not as expected after {timeout:g} s"
            raise ClusterTimeoutError(message) from None
        finally:
            drop(self._waiting, key, changed)

    def __len__(self) -> int:
        """The number of objects for which tasks wait."""
        return len(self._waiting)

    def _changed(self, kind: str, before: Object | None, after: Object | None) -> None:
        raw = after if after is not None else before
        if raw is None or not self._waiting:
            return
        metadata = raw["metadata"]
        for waiting in self._waiting.get((kind, metadata.get("namespace") or "", metadata["name"]), ()):
            waiting.set()
