"""The controller of SchedulerPolicies: applies them to the engine and writes their status.

Events may come in any order and repeatedly: `apply` and `remove` are idempotent. To check a policy and to build its plugins takes
milliseconds, so policies that change all the time must not keep the scheduling loop from deciding: policies get a share of the time, and of
the changes of one policy that wait for it only the last one counts. A background task writes the statuses. It looks at those of all
policies after every change, because one policy can shadow another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from podwright.api.policy_set import ApplyResult
from podwright.api.policy_status import basis_of, status_of
from podwright.api.scheduler_policy import identity_of
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

PAUSE_FACTOR: Final = 4.0
"""After a change was applied, the next one waits for this many times as long as that took: policies get a fifth of the time."""
ANNOUNCE_SECONDS: Final = 1.0
"""While changes wait, the engine is told of those that were applied so often."""
STATUS_SECONDS: Final = 1.0
"""The shortest time between two writes of a policy's status."""
STATUS_RETRY: Final = RetryPolicy(shortest=1.0, longest=60.0)
RELIST_SECONDS: Final = 10.0
ACCESS_SECONDS: Final = 30.0
"""How often the controller asks whether RBAC allows it to read policies, as long as it does not."""

Raw = Mapping[str, Any]


@dataclass(slots=True)
class _Applied:
    """The version of a policy that was applied last, and its status on the API server.

    `version`: the object's resourceVersion. `basis`: what the status on the API server says, None if that is not known.

    `attempted_at`: when the status was written last, with or without success, by the clock of the event loop. `failures`: how many writes
    failed in a row. The status is not written before `not_before`; if `retried`, it is written then, otherwise after the next change.
    """

    result: ApplyResult
    uid: str
    version: str
    status: Raw
    basis: tuple[object, ...] | None = None
    attempted_at: float = -inf
    failures: int = 0
    not_before: float = -inf
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
        self._waiting: dict[str, Raw] = {}
        """Changed policies that are not applied yet, by name, the oldest change first."""
        self._arrived = asyncio.Event()
        self._free_at = 0.0
        """When the next change may be applied, by the clock of the event loop."""
        self._announced = engine.policies.policy_set.version
        self._announced_names = engine.policies.policy_set.scheduler_names
        self._announced_at = 0.0
        self._changed = asyncio.Event()
        self._served: bool | None = None
        engine.plugin_exceptions.listen(self._changed.set)

    def counts(self) -> Mapping[tuple[str], float]:
        """How many policies there are whose newest generation was accepted, and how many others."""
        refused = sum(not applied.result.accepted for applied in self._applied.values())
        return {("accepted",): len(self._applied) - refused, ("refused",): refused}

    def take_event(self, event: Mapping[str, Any]) -> None:
        """Handles a raw watch event; its type is None for an object from a list."""
        if event["type"] == "DELETED":
            name, uid = str(event["object"]["metadata"]["name"]), _uid_of(event["object"])
            self._deleted_during_list.add(uid)
            if name in self._waiting and _uid_of(self._waiting[name]) == uid:
                del self._waiting[name]
            known = self._applied.get(name)
            if known is None or known.uid == uid:  # else a list has already brought a new policy of that name
                self.remove(name)
        elif not self._waiting and asyncio.get_running_loop().time() >= self._free_at:
            self.apply(event["object"])
        else:
            self._waiting[identity_of(event["object"])[0]] = event["object"]
            self._arrived.set()

    async def run_changes(self) -> None:
        """Applies the changes that wait, until it is cancelled."""
        while True:
            await self._arrived.wait()
            await self._pause()
            if self._waiting:
                self.apply(self._waiting.pop(next(iter(self._waiting))))
            else:
                self._arrived.clear()
                self._announce(asyncio.get_running_loop().time())

    async def _pause(self) -> None:
        """Returns when the next change may be applied."""
        clock = asyncio.get_running_loop().time
        while (seconds := self._free_at - clock()) > 0:  # noqa: ASYNC110 -- it may move meanwhile
            await asyncio.sleep(seconds)

    def apply(self, raw: Raw) -> None:
        """Applies a policy that was created or updated. Never raises, whatever the object contains."""
        started = asyncio.get_running_loop().time()
        result = self._engine.policies.apply(raw)
        metadata, status = raw.get("metadata") or {}, raw.get("status")
        known = self._applied.get(result.name)
        applied = _Applied(
            result=result,
            uid=_uid_of(raw),
            version=str(metadata.get("resourceVersion") or ""),
            status=self._shared(result.name, status if isinstance(status, Mapping) else {}),
        )
        if known is not None and (known.uid, known.result) == (applied.uid, result):
            if not known.version or known.version != applied.version:
                known.basis = None
            known.version, known.status = (
                applied.version,
                applied.status,
            )  # and keep its backoff: the generation is the same
        else:
            if known is not None:
                applied.attempted_at, applied.not_before = known.attempted_at, known.attempted_at + STATUS_SECONDS
            self._applied[result.name] = applied
        if known is None or known.result != result:
            log.log(
                logging.INFO if result.accepted else logging.WARNING,
                "policy %s, generation %d: %s",
                result.name,
                result.generation,
                result.message,
            )
        self._announce(started)

    def _shared(self, name: str, status: Raw) -> Raw:
        """The status, without a copy of the spec that is in memory anyway."""
        last = self._engine.policies.policy_set.last_accepted(name)
        kept = status.get("lastAccepted")
        if last is None or kept != {"generation": last.generation, "spec": last.spec}:
            return status
        return {**status, "lastAccepted": {"generation": last.generation, "spec": last.spec}}

    def remove(self, name: str) -> None:
        """Removes a policy that was deleted."""
        started = asyncio.get_running_loop().time()
        self._engine.policies.remove(name)
        if self._applied.pop(name, None) is not None:
            log.info("policy %s was deleted", name)
        self._announce(started)

    def _announce(self, started: float) -> None:
        """Has the statuses written, and tells the engine of changes. `started`: when this change began to be applied."""
        clock = asyncio.get_running_loop().time
        self._changed.set()
        policies = self._engine.policies.policy_set
        if policies.version != self._announced and (
            not self._waiting or clock() >= self._announced_at + ANNOUNCE_SECONDS
        ):
            added = policies.scheduler_names - self._announced_names
            self._announced, self._announced_names = policies.version, policies.scheduler_names
            self._announced_at = clock()
            self._engine.policies_changed()
            if added:
                self._on_names_served(added)
        now = clock()
        self._free_at = max(self._free_at, now + PAUSE_FACTOR * (now - started))

    async def start(self) -> None:
        """Applies all policies, or logs why they cannot be read. Raises ClusterError."""
        self.readable, problem = await asyncio.gather(self._may_read(), access.access_problem(self._http, POLICY))
        if problem is not None:
            where = POLICY.collection
            log.warning("SchedulerPolicies are off (%s: %s): the built-in default policy decides", where, problem)
        if self.readable:
            await self.relist(at_once=True)

    def _is_newer(self, raw: Raw) -> bool:
        """Whether a listed policy differs from what was applied, and from what waits to be applied, and is not older."""
        name, uid, generation = identity_of(raw)
        waiting, known = self._waiting.get(name), self._applied.get(name)
        if waiting is not None and _uid_of(waiting) == uid and identity_of(waiting)[2] >= generation:
            return False
        if known is None or known.uid != uid:
            return True
        if known.result.generation > generation:
            return False
        return not known.version or known.version != raw["metadata"].get("resourceVersion")

    async def relist(self, *, at_once: bool = False) -> None:
        """Applies all policies on the API server, and removes all others. Raises ClusterError. `at_once`: nothing is decided yet.

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
            before.pop(name, None)
            if self._is_newer(raw):
                await (asyncio.sleep(0) if at_once else self._pause())
                if self._is_newer(raw) and uid not in self._deleted_during_list:
                    self._waiting.pop(name, None)
                    self.apply(raw)
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
        return await access.forbidden(self._http, POLICY) is None

    async def run_status_writes(self) -> None:
        """Writes the statuses after each change, until it is cancelled. Each policy has a backoff of its own."""
        clock = asyncio.get_running_loop().time
        while True:
            retries = [applied.not_before for applied in self._applied.values() if applied.retried]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(retries) - clock() if retries else None):
                    await self._changed.wait()
            self._changed.clear()
            await self._write_statuses(clock)

    async def _write_statuses(self, clock: Callable[[], float]) -> None:
        """Writes the statuses that have changed, except those that have to wait."""
        for name in list(self._applied):
            applied = self._applied.get(name)
            if applied is None:
                continue
            policies = self._engine.policies
            exceptions = policies.plugin_exceptions_of(name)
            basis = (*basis_of(policies.policy_set, applied.result), exceptions)
            if basis == applied.basis:
                applied.retried = False
            elif clock() >= applied.not_before:
                await self._write_status(name, applied, basis, exceptions)
            elif not applied.failures:
                applied.retried = True

    async def _write_status(self, name: str, applied: _Applied, basis: tuple[object, ...], exceptions: str) -> None:
        """Writes the status, unless the API server has it already. `basis`, `exceptions`: what it is about."""
        clock = asyncio.get_running_loop().time
        applied.retried = False
        policies = self._engine.policies.policy_set
        status = status_of(policies, applied.result, applied.status, rfc3339(self._clock()), exceptions)
        if status != applied.status:
            applied.attempted_at = clock()
            try:
                path = POLICY.path(name, subresource="status")
                await self._http.call("PATCH", path, _patch(applied, status), JSON_PATCH)
            except (ClusterError, TypeError) as error:  # a TypeError if something in it cannot be written as JSON
                if not is_not_found(error):
                    log.warning("cannot write the status of policy %s: %s", name, error)
                    applied.failures += 1
                    applied.not_before = clock() + STATUS_RETRY.pause(applied.failures, error)
                    applied.retried = isinstance(error, ClusterError) and error.status not in (403, 422)
                return
            applied.not_before = applied.attempted_at + STATUS_SECONDS
        applied.status, applied.basis, applied.failures = status, basis, 0


def _patch(applied: _Applied, status: Raw) -> list[dict[str, Any]]:
    """Replaces the whole status, so that no field of an older lastAccepted remains.

    It fails if another policy has taken the name: `lastAccepted` of one policy must not pass to its successor.
    """
    same = [{"op": "test", "path": "/metadata/uid", "value": applied.uid}] if applied.uid else []
    return [*same, {"op": "add", "path": "/status", "value": status}]


def _uid_of(raw: Raw) -> str:
    return str((raw.get("metadata") or {}).get("uid") or "")
