"""Looks for members of pod groups that ask for another scheduler, and whom therefore nobody tells us of.

Pods are only watched if they may be ours. A group that stays incomplete may have members that are not, and its status is to
name them: so where one does, the namespace's waiting pods of others are listed now and then. Each look is complete, so pods that
have left are let go.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from podwright.core.framework.interface import ClusterError
from podwright.engine.engine import Engine
from podwright.kube.client.http import Http
from podwright.kube.client.pages import list_objects
from podwright.kube.kinds import POD

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
REST: Final = 50
"""After a look so many times as long as it took there is no other."""


class ForeignPodLister:
    """See the module."""

    def __init__(self, http: Http, engine: Engine) -> None:
        self._http = http
        self._engine = engine
        self._waited: set[str] = set()

    async def run(self) -> None:
        """Looks until it is cancelled; the longer it takes, the more seldom."""
        clock = asyncio.get_running_loop().time
        pause = LOOK_SECONDS
        while True:
            await asyncio.sleep(pause)
            started = clock()
            try:
                await self.look()
            except ClusterError as error:
                log.info("cannot look for pods of other schedulers in pod groups: %s", error)
            pause = max(LOOK_SECONDS, REST * (clock() - started))

    async def look(self) -> None:
        """Once, where a group was incomplete at the last look, too, or where foreign_pods of it are known. Raises ClusterError."""
        waiting, odd = self._namespaces()
        for namespace in sorted((waiting & self._waited) | odd):
            await self._look_at(namespace)
        self._waited = waiting

    def _namespaces(self) -> tuple[set[str], set[str]]:
        """Those of groups of which pods of ours wait for others to come, and of those that have both ours and foreign_pods."""
        groups, foreign_pods = self._engine.cache.groups, self._engine.foreign_pods
        waiting: set[str] = set()
        odd: set[str] = set()
        for group in groups.all():
            members = groups.members(group.key)
            if members.waiting and members.total < group.min_count:
                waiting.add(group.namespace)
            if members.total and foreign_pods.of(group.key):
                odd.add(group.namespace)
        return waiting, odd

    async def _look_at(self, namespace: str) -> None:
        """At the namespace's waiting pods that ask for somebody else. Raises ClusterError."""
        ours = sorted(self._engine.policies.policy_set.scheduler_names)
        selector = ",".join(("spec.nodeName=", *(f"spec.schedulerName!={name}" for name in ours)))
        there: set[str] = set()
        async for raw in list_objects(self._http, POD.collection_in(namespace), {"fieldSelector": selector}):
            there.add(str(raw["metadata"]["uid"]))
            self._engine.foreign_pods.seen(raw)
        self._engine.foreign_pods.keep_only(namespace, there)
