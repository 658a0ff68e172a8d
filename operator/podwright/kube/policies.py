"""The controller of SchedulerPolicies: applies them to the engine and writes their status.

Events may come in any order and repeatedly: `apply` and `remove` are idempotent. A background task writes the statuses. It computes
those of all policies after every change, because one policy can shadow another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from podwright.api.policy_set import ApplyResult
from podwright.api.policy_status import status_of
from podwright.core.framework.interface import ClusterError
from podwright.engine.engine import Engine
from podwright.kube.client import access
from podwright.kube.client.errors import is_not_found
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON_PATCH
from podwright.kube.client.pages import list_objects
from podwright.kube.client.retry import RetryPolicy, retry_until_answered
from podwright.kube.client.times import rfc3339
from podwright.kube.kinds import POLICY

log = logging.getLogger(__name__)

STATUS_RETRY: Final = RetryPolicy(shortest=1.0, longest=60.0)
RELIST_SECONDS: Final = 10.0
ACCESS_SECONDS: Final = 30.0
"""How often the controller asks whether RBAC allows it to read policies, as long as it does not."""

Raw = Mapping[str, Any]


@dataclass(slots=True)
class _Applied:
    """The version of a policy that was applied last, and its status on the API server.

    `failures`: how many writes of the status failed in a row. It is not written before `retry_at`, by the clock of the event loop; if
    `retried`, it is written then, otherwise after the next change.
    """

    result: ApplyResult
    uid: str
    status: Raw
    failures: int = 0
    retry_at: float = 0.0
    retried: bool = False


class PolicyController:
    """See the module. `on_names_served` is called with scheduler names that no policy served before."""

    def __init__(
        self,
        http: Http,
        engine: Engine,
        clock: Callable[[], float],
        on_names_served: Callable[[frozenset[str]], None],
    ) -> None:
        """`clock` gives seconds since the epoch."""
        self.readable = False
        """Whether RBAC allows us to list and watch policies; their kind may still be missing."""
        self.appeared = asyncio.Event()
        """Set when policies can be watched that could not be before. Whoever watches them clears it and watches again."""
        self._http = http
        self._engine = engine
        self._clock = clock
        self._on_names_served = on_names_served
        self._applied: dict[str, _Applied] = {}
        self._deleted_during_list: set[str] = set()
        """Uids. The list may be older than the deletion."""
        self._changed = asyncio.Event()
        self._served: bool | None = None
        engine.plugin_exceptions.listen(self._changed.set)

    def take_event(self, event: Mapping[str, Any]) -> None:
        """Handles a raw watch event; its type is None for an object from a list."""
        if event["type"] == "DELETED":
            name, uid = str(event["object"]["metadata"]["name"]), _uid_of(event["object"])
            self._deleted_during_list.add(uid)
            known = self._applied.get(name)
            if known is None or known.uid == uid:  # else a list has already brought a new policy of that name
                self.remove(name)
        else:
            self.apply(event["object"])

    def apply(self, raw: Raw) -> None:
        """Applies a policy that was created or updated. Never raises, whatever the object contains."""
        policies = self._engine.policies.policy_set
        version, names = policies.version, policies.scheduler_names
        result = self._engine.policies.apply(raw)
        status = raw.get("status")
        known = self._applied.get(result.name)
        applied = _Applied(result=result, uid=_uid_of(raw), status=status if isinstance(status, Mapping) else {})
        if known is not None and (known.uid, known.result) == (applied.uid, result):
            known.status = applied.status  # and keep its backoff: a relist brings the same generation again
        else:
            self._applied[result.name] = applied
        if known is None or known.result != result:
            log.log(
                logging.INFO if result.accepted else logging.WARNING,
                "policy %s, generation %d: %s",
                result.name,
                result.generation,
                result.message,
            )
        self._announce(version, names)

    def remove(self, name: str) -> None:
        """Removes a policy that was deleted."""
        policies = self._engine.policies.policy_set
        version, names = policies.version, policies.scheduler_names
        self._engine.policies.remove(name)
        if self._applied.pop(name, None) is not None:
            log.info("policy %s was deleted", name)
        self._announce(version, names)

    def _announce(self, version: int, names: frozenset[str]) -> None:
        """Has the statuses written, and tells the engine of a change since `version`, when `names` were served."""
        self._changed.set()
        policies = self._engine.policies.policy_set
        if policies.version == version:
            return
        self._engine.policies_changed()
        if added := policies.scheduler_names - names:
            self._on_names_served(added)

    async def start(self) -> None:
        """Applies all policies, or logs why they cannot be read. Raises ClusterError."""
        self.readable = await self._may_read()
        problem = await access.access_problem(self._http, POLICY)
        if problem is not None:
            log.warning("SchedulerPolicies are off (%s): the built-in default policy decides", problem)
        if self.readable:
            await self.relist()

    async def relist(self) -> None:
        """Applies all policies on the API server, and removes all others. Raises ClusterError.

        Events that come during the list may be newer than it, and win.
        """
        before = {name: known.uid for name, known in self._applied.items()}
        self._deleted_during_list.clear()
        try:
            items = [raw async for raw in list_objects(self._http, POLICY.collection)]
        except ClusterError as error:
            if not is_not_found(error):
                raise
            if self._served:
                log.warning("SchedulerPolicies are not served any more: the built-in default policy decides")
            items, self._served = [], False
        else:
            if self._served is False:
                self.appeared.set()
            self._served = True
        for raw in items:
            name, uid = raw["metadata"]["name"], _uid_of(raw)
            if uid in self._deleted_during_list:
                continue
            known = self._applied.get(name)
            older = known is not None and known.result.generation > raw["metadata"].get("generation", 0)
            if known is None or not older or known.uid != uid:
                self.apply(raw)
            before.pop(name, None)
        for name, uid in before.items():
            known = self._applied.get(name)
            if known is not None and known.uid == uid:  # else a new policy of that name was created during the list
                self.remove(name)

    async def run_relists(self) -> None:
        """Relists every RELIST_SECONDS, from the moment that RBAC allows it, until it is cancelled.

        Kopf does not report deletions that happen while its watch is broken, and sometimes misses that the kind was installed.
        """
        if not self.readable:
            await self.wait_until_readable()
            await retry_until_answered("policies", self.relist)
            log.info("SchedulerPolicies can be read now")
            self.readable = True
            self.appeared.set()
        while True:
            await asyncio.sleep(RELIST_SECONDS)
            try:
                await self.relist()
            except ClusterError as error:
                log.info("cannot list policies: %s", error)

    async def wait_until_readable(self) -> None:
        """Returns when RBAC allows us to read policies; asks every ACCESS_SECONDS."""
        while True:
            await asyncio.sleep(ACCESS_SECONDS)
            try:
                if await self._may_read():
                    return
            except ClusterError as error:
                log.info("cannot ask whether policies can be read: %s", error)

    async def _may_read(self) -> bool:
        return all([await access.is_allowed(self._http, POLICY, verb) for verb in access.READ])

    async def run_status_writes(self) -> None:
        """Writes the statuses after each change, until it is cancelled. Each policy has a backoff of its own."""
        clock = asyncio.get_running_loop().time
        while True:
            retries = [applied.retry_at for applied in self._applied.values() if applied.retried]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(retries) - clock() if retries else None):
                    await self._changed.wait()
            self._changed.clear()
            await self._write_statuses(clock)

    async def _write_statuses(self, clock: Callable[[], float]) -> None:
        """Writes the statuses that have changed, except those whose backoff is not over."""
        for name in list(self._applied):
            applied = self._applied.get(name)
            if applied is None or clock() < applied.retry_at:
                continue
            now = rfc3339(self._clock())
            policies = self._engine.policies
            exceptions = policies.plugin_exceptions_of(name)
            status = status_of(policies.policy_set, applied.result, applied.status, now, exceptions)
            applied.retried = False
            if status == applied.status:
                continue
            try:
                await self._http.call(
                    "PATCH", POLICY.path(name, subresource="status"), _patch(applied, status), JSON_PATCH
                )
            except ClusterError as error:
                if not is_not_found(error):
                    log.warning("cannot write the status of policy %s: %s", name, error)
                    applied.failures += 1
                    applied.retry_at = clock() + STATUS_RETRY.pause(applied.failures, error)
                    applied.retried = error.status not in (403, 422)
                continue
            applied.status, applied.failures = status, 0


def _patch(applied: _Applied, status: Raw) -> list[dict[str, Any]]:
    """Replaces the whole status, so that no field of an older lastAccepted remains.

    It fails if another policy has taken the name: `lastAccepted` of one policy must not pass to its successor.
    """
    same = [{"op": "test", "path": "/metadata/uid", "value": applied.uid}] if applied.uid else []
    return [*same, {"op": "add", "path": "/status", "value": status}]


def _uid_of(raw: Raw) -> str:
    return str((raw.get("metadata") or {}).get("uid") or "")
