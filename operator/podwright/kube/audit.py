"""The audit of pending pods: whatever a watch has missed comes to light within a minute or so.

Kopf tells nobody what vanished while its watch was broken, and a pod that is not in the queue waits for ever. So all pending
pods are listed now and then, page by page: those that the queue does not know are taken in, those that it knew before the list
and that are not in it are let go. The list is consistent, so nothing newer is ever undone by it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from podwright.core.framework.interface import ClusterError
from podwright.engine.intake import PendingPods
from podwright.kube.http import Http
from podwright.kube.reflector import PAGE
from podwright.kube.resources import POD

log = logging.getLogger(__name__)

AUDIT_SECONDS: Final = 60.0


class PendingAudit:
    """See the module. `names`: the scheduler names that are served."""

    def __init__(self, http: Http, pending: PendingPods, names: Callable[[], Iterable[str]]) -> None:
        self._http = http
        self._pending = pending
        self._names = names

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
        taken = 0
        for name in sorted(self._names()):
            params = {"fieldSelector": f"spec.nodeName=,spec.schedulerName={name}", "limit": str(PAGE)}
            while True:
                page = await self._http.insist("GET", POD.collection, params=params)
                for raw in page.get("items") or ():
                    uid = self._pending.key(raw)
                    listed.add(uid)
                    if not self._pending.knows(uid):
                        self._pending.put(raw)
                        taken += self._pending.knows(uid)
                if not (following := page["metadata"].get("continue")):
                    break
                params["continue"] = following
                await asyncio.sleep(0)
        ghosts = before - listed
        for uid in ghosts:
            self._pending.drop(uid, None)
        if taken or ghosts:
            log.info("audit: %d pending pods were not known, %d were pending no more", taken, len(ghosts))
