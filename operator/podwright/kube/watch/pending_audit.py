"""The audit of pending pods: finds what Kopf's watch has missed, within about a minute.

Kopf does not report objects that vanished while its watch was broken, and a pod that is not in the queue waits forever.
So all pending pods are listed every minute. Pods that the queue does not know are put into it; pods that it knew before
the list and that the list lacks are dropped. The list is consistent, so nothing newer is undone. Usually nothing was
missed, and metadata is enough to see that. Each scheduler name has a list of its own, and one that fails does not stop
the others; of many names, the pods are in one list. Run by `runtime`, also once before the first decision.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from podwright.core.framework.interface import ClusterError
from podwright.engine.intake.pending_pods import PendingPods
from podwright.engine.records.log_fields import V2
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON, METADATA_LIST
from podwright.kube.client.object_metadata import resource_version
from podwright.kube.client.pages import list_objects
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import POD
from podwright.kube.watch.selectors import MANY_NAMES, pending_pods_of, pods_that_may_ask_for
from podwright.kube.watch.unseen_names import UnseenNames

log = logging.getLogger(__name__)

AUDIT_SECONDS: Final = 60.0
START_SECONDS: Final = 5.0
"""How long the start waits for the pods of a name that cannot be listed, while the API server answers."""
START_RETRY: Final = RetryPolicy(shortest=0.2, longest=5.0)
_DOWN: Final = (0, 429, 503)
"""The statuses of an API server that cannot answer now, whatever it is asked."""
_ALL: Final = "*"
"""Stands for all names in one list."""


class PendingAudit:
    """See the module. `scheduler_names`: the names that policies serve; `unseen` learns which of them cannot be
    listed.
    """

    def __init__(
        self, http: Http, pending: PendingPods, scheduler_names: Callable[[], AbstractSet[str]], unseen: UnseenNames
    ) -> None:
        self._http = http
        self._pending = pending
        self._scheduler_names = scheduler_names
        self._unseen = unseen
        self._unusable: dict[str, int] = {}
        """The versions of listed pods that the queue does not accept: failed, or invalid, or of another scheduler."""

    async def run(self) -> None:
        """Audits until it is cancelled."""
        while True:
            await asyncio.sleep(AUDIT_SECONDS)
            await self.audit()

    async def audit_at_start(self) -> None:
        """Returns once all pending pods are known, except those of names whose pods the API server does not list
        although it answers.
        """
        clock = asyncio.get_running_loop().time
        started, failures = clock(), 0
        while failed := await self.audit(V2):
            answers = len(failed) < len(self._lists()) or any(error.status not in _DOWN for error in failed.values())
            if answers and clock() >= started + START_SECONDS:
                log.warning(
                    "decisions begin without the pods of %d scheduler names: %s", len(failed), self._unseen.problem()
                )
                return
            failures += 1
            await asyncio.sleep(START_RETRY.pause(failures))

    async def audit(self, level: int = logging.INFO) -> Mapping[str, ClusterError]:
        """Makes one audit. Returns the errors by name: of these names, no pod was dropped, and pods may be missing.
        `level`: that of its log line.
        """
        before = self._pending.waiting()
        listed: set[str] = set()
        unknown: list[str] = []
        failed: dict[str, ClusterError] = {}
        lists = self._lists()
        self._unseen.keep({*self._scheduler_names(), *lists})
        for name in lists:
            try:
                if await self._list_metadata(name, listed):
                    unknown.append(name)
            except ClusterError as error:
                failed[name] = error
                self._unseen.failed(name, error)
            else:
                for listed_name in (self._scheduler_names() | {_ALL}) if name == _ALL else (name,):
                    self._unseen.listed(listed_name)
        gone = {uid for uid, name in before.items() if uid not in listed and name not in failed and _ALL not in failed}
        for uid in gone:
            self._pending.drop(uid, None)
        added = await self._add_unknown(unknown, failed)
        if added or gone:
            log.log(
                level,
                "audit: added %d pending pods that were not known, dropped %d that no longer exist",
                added,
                len(gone),
            )
        return failed

    def _lists(self) -> Collection[str]:
        names = self._scheduler_names()
        return sorted(names) if len(names) <= MANY_NAMES else [_ALL]

    async def _list_metadata(self, name: str, listed: set[str]) -> bool:
        """Adds the uids of the name's pods. Whether there are any that the queue does not know. Raises ClusterError."""
        unknown = False
        async for raw in self._list(name, METADATA_LIST):
            uid = self._pending.key(raw)
            listed.add(uid)
            if not self._pending.knows(uid) and self._unusable.get(uid, -1) != resource_version(raw):
                unknown = True
        return unknown

    async def _add_unknown(self, names: Collection[str], failed: dict[str, ClusterError]) -> int:
        """Puts unknown pods into the queue and returns how many it accepted."""
        added = 0
        unusable: dict[str, int] = {}
        for name in names:
            try:
                async for raw in self._list(name, JSON):
                    uid = self._pending.key(raw)
                    if self._pending.knows(uid):
                        continue
                    self._pending.put(raw)
                    if self._pending.knows(uid):
                        added += 1
                    else:
                        unusable[uid] = resource_version(raw)
            except ClusterError as error:
                failed[name] = error
                self._unseen.failed(name, error)
        if names:
            self._unusable = unusable
        return added

    def _list(self, name: str, accept: str) -> AsyncIterator[Any]:
        """The pending pods of a scheduler name, or of all. Raises ClusterError."""
        selector = pods_that_may_ask_for(self._scheduler_names()) if name == _ALL else pending_pods_of(name)
        return list_objects(self._http, POD.collection, {"fieldSelector": selector}, accept)
