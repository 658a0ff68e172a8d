"""Looks for members of pod groups that ask for another scheduler, and whom therefore nobody tells us of.

Pods are only watched if they may be ours. A group that stays incomplete may have members that are not, and its status is to
name them: so where one does, the namespace's waiting pods of others are listed now and then. Each look is complete, so pods that
have left are let go.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from podwright.core.framework.interface import ClusterError
from podwright.engine.engine import Engine
from podwright.kube.http import Http
from podwright.kube.reflector import PAGE
from podwright.kube.resources import POD

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0


class StrangersLook:
    """See the module."""

    def __init__(self, http: Http, engine: Engine) -> None:
        self._http = http
        self._engine = engine
        self._waited: set[str] = set()

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except ClusterError as error:
                log.info("cannot look for pods of other schedulers in pod groups: %s", error)

    async def look(self) -> None:
        """Once: at namespaces where a group was incomplete at the last look, too, or where somebody was found. Raises ClusterError."""
        waiting = self._waiting()
        for namespace in sorted((waiting & self._waited) | self._engine.strangers.namespaces):
            self._engine.strangers.only(namespace, await self._pods(namespace))
        self._waited = waiting

    def _waiting(self) -> set[str]:
        """The namespaces of groups of which pods of ours wait for others to come."""
        groups = self._engine.cache.groups
        return {
            group.namespace
            for group in groups.all()
            if (members := groups.members(group.key)).waiting and members.total < group.min_count
        }

    async def _pods(self, namespace: str) -> list[Any]:
        """The namespace's waiting pods that ask for somebody else. Raises ClusterError."""
        ours = sorted(self._engine.live.policies.scheduler_names)
        selector = ",".join(("spec.nodeName=", *(f"spec.schedulerName!={name}" for name in ours)))
        params = {"fieldSelector": selector, "limit": str(PAGE)}
        found: list[Any] = []
        while True:
            page = await self._http.insist("GET", POD.collection_in(namespace), params=params)
            found += page.get("items") or ()
            if not (following := page["metadata"].get("continue")):
                return found
            params["continue"] = following
            await asyncio.sleep(0)
