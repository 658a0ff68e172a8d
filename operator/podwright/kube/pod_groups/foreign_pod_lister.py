"""Finds members of pod groups that ask for another scheduler, so that the group's status can name them.

Only pods that may be ours are watched. So the pending pods of other schedulers are listed from time to time, in
namespaces where a group stays incomplete. Each list is complete: foreign pods that it lacks are removed. What is found
is kept in engine/intake/foreign_pods.
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
from podwright.kube.watch.selectors import MANY_NAMES, pending_pods_except

log = logging.getLogger(__name__)

SHORTEST_SECONDS: Final = 10.0
"""The shortest pause between two rounds."""
PAUSE_FACTOR: Final = 50
"""The pause is at least this many times as long as the round before it took."""


class ForeignPodLister:
    """See the module."""

    def __init__(self, http: Http, engine: Engine) -> None:
        self._http = http
        self._engine = engine
        self._incomplete: set[str] = set()
        """The namespaces that had incomplete groups in the last round."""

    async def run(self) -> None:
        """Lists until it is cancelled; the longer a round takes, the longer the pause after it."""
        clock = asyncio.get_running_loop().time
        pause = SHORTEST_SECONDS
        while True:
            await asyncio.sleep(pause)
            started = clock()
            try:
                await self.refresh()
            except ClusterError as error:
                log.info("cannot list pods of other schedulers in pod groups: %s", error)
            pause = max(SHORTEST_SECONDS, PAUSE_FACTOR * (clock() - started))

    async def refresh(self) -> None:
        """One round over namespaces with a group that was incomplete in the last round too, or has known foreign pods.

        Raises ClusterError.
        """
        incomplete, mixed = self._namespaces()
        for namespace in sorted((incomplete & self._incomplete) | mixed):
            await self._refresh(namespace)
        self._incomplete = incomplete

    def _namespaces(self) -> tuple[set[str], set[str]]:
        """The namespaces of groups whose members wait for more members, and of groups with both our and foreign
        pods.
        """
        groups, foreign_pods = self._engine.cache.groups, self._engine.foreign_pods
        incomplete: set[str] = set()
        mixed: set[str] = set()
        for group in groups.all():
            members = groups.members(group.key)
            if members.waiting and not groups.has_minimum(group):
                incomplete.add(group.namespace)
            if members.total and foreign_pods.of(group.key):
                mixed.add(group.namespace)
        return incomplete, mixed

    async def _refresh(self, namespace: str) -> None:
        """Lists the namespace's pending pods of other schedulers. Raises ClusterError."""
        ours = sorted(self._engine.policies.policy_set.scheduler_names)
        selector = pending_pods_except(*ours[:MANY_NAMES])
        listed: set[str] = set()
        async for raw in list_objects(self._http, POD.collection_in(namespace), {"fieldSelector": selector}):
            if self._engine.pending.is_ours(raw):
                continue
            listed.add(str(raw["metadata"]["uid"]))
            self._engine.foreign_pods.seen(raw)
        self._engine.foreign_pods.keep_only(namespace, listed)
