"""The audit of pending pods: whatever a watch has missed comes to light within a minute or so.

Kopf tells nobody what vanished while its watch was broken, and a pod that is not in the queue waits for ever. So all pending
pods are listed now and then, page by page: those that the queue does not know are taken in, those that it knew before the list
and that are not in it are let go. The list is consistent, so nothing newer is ever undone by it. Mostly nothing was missed, and
metadata is enough to see that.
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
from podwright.kube.kinds import POD
from podwright.kube.watch.audit import version_of
from podwright.kube.watch.reflector import PAGE

log = logging.getLogger(__name__)

AUDIT_SECONDS: Final = 60.0


class PendingAudit:
    """See the module. `names`: the scheduler names that are served."""

    def __init__(self, http: Http, pending: PendingPods, names: Callable[[], Iterable[str]]) -> None:
        self._http = http
        self._pending = pending
        self._names = names
        self._unusable: dict[str, int] = {}
        """The versions of pods that were listed and are none of the queue's all the same: failed, or not to be understood."""

    async def run(self) -> None:
        """Audits until it is cancelled."""
        while True:
            await asyncio.sleep(AUDIT_SECONDS)
            try:
                await self.audit()
            except ClusterError as error:
                log.info("cannot audit pending pods: %s", error)

    async def audit(self) -> None:
        """Once. Raises ClusterError; then some are taken in and nothing is let go."""
        before = self._pending.waiting()
        listed: set[str] = set()
        unknown = False
        async for raw in self._pods(METADATA_LIST):
            uid = self._pending.key(raw)
            listed.add(uid)
            if not self._pending.knows(uid) and self._unusable.get(uid, -1) != version_of(raw):
                unknown = True
        ghosts = before - listed
        for uid in ghosts:
            self._pending.drop(uid, None)
        taken = await self._take_in() if unknown else 0
        if taken or ghosts:
            log.info("audit: %d pending pods were not known, %d were pending no more", taken, len(ghosts))

    async def _take_in(self) -> int:
        """Takes in what is not known; how many those were. Raises ClusterError."""
        taken = 0
        unusable: dict[str, int] = {}
        async for raw in self._pods(JSON):
            uid = self._pending.key(raw)
            if self._pending.knows(uid):
                continue
            self._pending.put(raw)
            if self._pending.knows(uid):
                taken += 1
            else:
                unusable[uid] = version_of(raw)
        self._unusable = unusable
        return taken

    async def _pods(self, accept: str) -> AsyncIterator[Any]:
        """All pending pods, page by page. Raises ClusterError."""
        for name in sorted(self._names()):
            params = {"fieldSelector": f"spec.nodeName=,spec.schedulerName={name}", "limit": str(PAGE)}
            while True:
                page = await self._http.call_with_retries("GET", POD.collection, params=params, accept=accept)
                for raw in page.get("items") or ():
                    yield raw
                if not (following := page["metadata"].get("continue")):
                    break
                params["continue"] = following
                await asyncio.sleep(0)
