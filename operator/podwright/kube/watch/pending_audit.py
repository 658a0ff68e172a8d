"""The audit of pending pods: finds what Kopf's watch has missed, within about a minute.

Kopf does not report objects that vanished while its watch was broken, and a pod that is not in the queue waits for ever. So all
pending pods are listed every minute. Pods that the queue does not know are put into it; pods that it knew before the list and
that the list lacks are dropped. The list is consistent, so nothing newer is undone. Usually nothing was missed, and metadata
is enough to see that. Run by `runtime`, also once before the first decision.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

from podwright.core.framework.interface import ClusterError
from podwright.engine.intake.pending_pods import PendingPods
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON, METADATA_LIST
from podwright.kube.client.object_metadata import resource_version
from podwright.kube.client.pages import list_objects
from podwright.kube.kinds import POD
from podwright.kube.watch.selectors import pending_pods_of

log = logging.getLogger(__name__)

AUDIT_SECONDS: Final = 60.0


class PendingAudit:
    """See the module. `scheduler_names`: the names that active policies serve."""

    def __init__(self, http: Http, pending: PendingPods, scheduler_names: Callable[[], Iterable[str]]) -> None:
        self._http = http
        self._pending = pending
        self._scheduler_names = scheduler_names
        self._unusable: dict[str, int] = {}
        """The versions of listed pods that the queue does not accept: failed, or invalid."""

    async def run(self) -> None:
        """Audits until it is cancelled."""
        while True:
            await asyncio.sleep(AUDIT_SECONDS)
            try:
                await self.audit()
            except ClusterError as error:
                log.info("cannot audit pending pods: %s", error)

    async def audit(self) -> None:
        """One audit. Raises ClusterError; then some pods may have been added, and none was dropped."""
        before = self._pending.waiting()
        listed: set[str] = set()
        unknown = False
        async for raw in self._list(METADATA_LIST):
            uid = self._pending.key(raw)
            listed.add(uid)
            if not self._pending.knows(uid) and self._unusable.get(uid, -1) != resource_version(raw):
                unknown = True
        gone = before - listed
        for uid in gone:
            self._pending.drop(uid, None)
        added = await self._add_unknown() if unknown else 0
        if added or gone:
            log.info(
                "audit: added %d pending pods that were not known, dropped %d that no longer exist", added, len(gone)
            )

    async def _add_unknown(self) -> int:
        """Puts unknown pods into the queue and returns how many it accepted. Raises ClusterError."""
        added = 0
        unusable: dict[str, int] = {}
        async for raw in self._list(JSON):
            uid = self._pending.key(raw)
            if self._pending.knows(uid):
                continue
            self._pending.put(raw)
            if self._pending.knows(uid):
                added += 1
            else:
                unusable[uid] = resource_version(raw)
        self._unusable = unusable
        return added

    async def _list(self, accept: str) -> AsyncIterator[Any]:
        """All pending pods of the served scheduler names. Raises ClusterError."""
        for name in sorted(self._scheduler_names()):
            params = {"fieldSelector": pending_pods_of(name)}
            async for raw in list_objects(self._http, POD.collection, params, accept):
                yield raw
