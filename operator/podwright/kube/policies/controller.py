"""The controller of policies of one kind: applies them to the engine.

Events may come in any order and repeatedly: `apply` and `remove` are idempotent. The expressions of a policy are
compiled in a thread before it is applied (preparation.py). To check the rest and to build its plugins takes
milliseconds, so policies that change all the time must not keep the scheduling loop from deciding: policies get a share
of the time, and of the changes of one policy that wait for it only the last one counts (turns.py). statuses.py writes
the statuses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from podwright.api.policy_result import ApplyResult, verdict
from podwright.api.scheduler_policy import identity_of
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.raw import Raw, mapping_at
from podwright.engine.engine import Engine
from podwright.engine.policies.policy_events import PolicyEvents
from podwright.kube.client import access
from podwright.kube.client.errors import is_not_found
from podwright.kube.client.http import Http
from podwright.kube.client.pages import list_objects
from podwright.kube.client.retry import retry_until_answered
from podwright.kube.deadline import wait_at_most
from podwright.kube.policies.kinds import PolicyKind
from podwright.kube.policies.preparation import is_prepared, prepare
from podwright.kube.policies.statuses import AppliedVersion, PolicyStatuses
from podwright.kube.policies.turns import PolicyTurns
from podwright.kube.write.write_limit import WriteLimit

log = logging.getLogger(__name__)

ANNOUNCE_SECONDS: Final = 1.0
"""While changes wait, the engine is notified of applied ones at this interval."""
CHECK_PAUSE_FACTOR: Final = 4.0
"""As the pause factor of a kind, after a check that a change of another policy made due."""
RELIST_SECONDS: Final = 10.0
ACCESS_SECONDS: Final = 30.0
"""How often the controller asks whether RBAC allows it to read policies, as long as it does not."""


class PolicyController:
    """See the module. `on_names_served` is called with scheduler names that no policy served before."""

    def __init__(
        self,
        http: Http,
        engine: Engine,
        clock: Callable[[], float],
        on_names_served: Callable[[frozenset[str]], None],
        *,
        kind: PolicyKind | None = None,
        events: PolicyEvents | None = None,
        limit: WriteLimit | None = None,
        appeared: asyncio.Event | None = None,
    ) -> None:
        """`clock` gives seconds since the epoch. `kind`: SchedulerPolicies, unless others are given. `events`: where
        refusals are reported. `limit`: how often statuses are written. `appeared`: controllers may share one.
        """
        self.readable = False
        """True if RBAC allows us to list and watch policies; their kind may still be missing."""
        self.appeared = appeared or asyncio.Event()
        """Set when policies can be watched that could not be before. The watcher of policies clears it and watches
        again.
        """
        self._http = http
        self._engine = engine
        self._kind: PolicyKind = kind or PolicyKind(engine)
        self._events = events
        self._on_names_served = on_names_served
        self._statuses = PolicyStatuses(http, engine, kind=self._kind, clock=clock, limit=limit or WriteLimit())
        self._applied = self._statuses.applied
        self._deleted_during_list: set[str] = set()
        """Uids. The list may be older than the deletion."""
        self._waiting = PolicyTurns()
        self._touched: set[str] = set()
        """The namespaces of the changes that were not announced yet."""
        self._arrived = asyncio.Event()
        self._free_at = 0.0
        """When the next change may be applied, by the clock of the event loop."""
        self._announced = engine.policies.policy_set.version
        self._announced_names = engine.policies.policy_set.scheduler_names
        self._announced_at = 0.0
        self._served: bool | None = None
        self._policy_set = engine.policies.policy_set
        self._relist_now = asyncio.Event()
        self._kind.listen(self._arrived.set, self._relist_now.set)

    def key_of(self, raw: Raw) -> str:
        """The policy's name, or of a namespaced one namespace/name."""
        return self._kind.key_of(raw)

    def counts(self) -> Mapping[tuple[str], float]:
        """How many policies there are whose newest generation was accepted, and how many others."""
        refused = sum(not applied.result.accepted for applied in self._applied.values())
        return {("accepted",): len(self._applied) - refused, ("refused",): refused}

    def take_event(self, event: Mapping[str, Any]) -> None:
        """Handles a raw watch event; its type is None for an object from a list."""
        if event["type"] == "DELETED":
            key, uid = self._kind.key_of(event["object"]), _uid_of(event["object"])
            self._deleted_during_list.add(uid)
            if (waiting := self._waiting.get(key)) is not None and _uid_of(waiting) == uid:
                self._waiting.discard(key)
            known = self._applied.get(key)
            if known is None or known.uid == uid:  # else a list has already brought a new policy of that name
                self.remove(key)
        elif (
            not self._waiting
            and asyncio.get_running_loop().time() >= self._free_at
            and is_prepared(event["object"], self._policy_set.signal_names)
        ):
            self.apply(event["object"])
        else:
            raw = event["object"]
            self._waiting.put(self._kind.key_of(raw), self._kind.namespace_of(raw), raw)
            self._arrived.set()

    async def run_changes(self) -> None:
        """Applies the changes that wait and checks what is due, in turns, until it is cancelled."""
        while True:
            await self._arrived.wait()
            await self._pause()
            if (due := self._kind.next_due()) is not None:
                self._check(due)
                await self._pause()
            if self._waiting:
                await self._apply_first()
            elif due is None:
                self._arrived.clear()
                self._announce(asyncio.get_running_loop().time())

    async def _apply_first(self) -> None:
        """Applies the change whose turn it is, unless a newer one or a deletion comes while its expressions are
        compiled.
        """
        key, raw = self._waiting.first()
        await self._prepare(raw)
        if self._waiting.get(key) is raw:
            self._waiting.take(key)
            self.apply(raw)

    async def _prepare(self, raw: Raw) -> None:
        try:
            await prepare(raw, self._policy_set.signal_names, self._kind.pause_factor)
        except Exception:
            log.exception("cannot compile the expressions of policy %s before it is applied", self._kind.key_of(raw))

    def _result(self, key: str, generation: int, work: Callable[[], ApplyResult]) -> ApplyResult:
        """The result of `work` on one policy. Whatever it raises becomes that policy's condition, and keeps no other
        from its turn.
        """
        try:
            return work()
        except Exception as error:
            log.exception("cannot apply policy %s", key)
            known = self._applied.get(key)
            active = None if known is None else known.result.active_generation
            stays = "What decided about its pods before still does"
            return verdict(key, generation, error, consequence=stays, active_generation=active)

    def _report(self, result: ApplyResult) -> None:
        """Logs the result for a generation, and records an event on the policy if it is refused."""
        level = logging.INFO if result.accepted else logging.WARNING
        log.log(level, "policy %s, generation %d: %s", result.name, result.generation, result.message)
        if not result.accepted and self._events is not None:
            self._events.record([result.name], "Warning", "PolicyNotAccepted", result.message)

    def _check(self, key: str) -> None:
        """Checks a policy again because another one has changed."""
        started, known = asyncio.get_running_loop().time(), self._applied.get(key)
        generation = 0 if known is None else known.result.generation
        result = self._result(key, generation, lambda: self._kind.check(key))
        if known is not None and known.result != result:
            self._report(result)
            known.result = result
        self._touched.add(key.partition("/")[0])
        self._announce(started, CHECK_PAUSE_FACTOR)

    async def _pause(self) -> None:
        """Returns when the next change may be applied."""
        clock = asyncio.get_running_loop().time
        while (seconds := self._free_at - clock()) > 0:  # noqa: ASYNC110 -- it may move meanwhile
            await asyncio.sleep(seconds)

    def apply(self, raw: Raw) -> None:
        """Applies a policy that was created or updated. Never raises, whatever the object contains."""
        started = asyncio.get_running_loop().time()
        result = self._result(self._kind.key_of(raw), identity_of(raw)[2], lambda: self._kind.apply(raw))
        metadata = raw.get("metadata") or {}
        key, namespace = result.name, self._kind.namespace_of(raw)
        known = self._applied.get(key)
        if known is None or known.result != result:
            self._report(result)
        applied = AppliedVersion(result, _uid_of(raw), version=str(metadata.get("resourceVersion") or ""))
        self._statuses.took(
            key, applied, {"metadata": metadata, "status": self._shared(key, mapping_at(raw, "status"))}
        )
        self._touched.add(namespace)
        self._announce(started)

    def _shared(self, key: str, status: Raw) -> Raw:
        """The status, without a copy of the spec that is in memory anyway."""
        last = self._kind.policies.last_accepted(key)
        kept = status.get("lastAccepted")
        if last is None or kept != {"generation": last.generation, "spec": last.spec}:
            return status
        return {**status, "lastAccepted": {"generation": last.generation, "spec": last.spec}}

    def remove(self, key: str) -> None:
        """Removes a policy that was deleted."""
        started = asyncio.get_running_loop().time()
        self._kind.remove(key)
        if key in self._applied:
            self._statuses.forget(key)
            log.info("policy %s was deleted", key)
            self._touched.add(key.rpartition("/")[0])
        self._announce(started)

    def _announce(self, started: float, pause_factor: float | None = None) -> None:
        """Tells the engine of changes. `started`: when this change began to be applied."""
        clock = asyncio.get_running_loop().time
        policies = self._engine.policies.policy_set
        due = self._announced_at + (ANNOUNCE_SECONDS if self._waiting else self._kind.announce_seconds)
        if policies.version != self._announced and clock() < due:
            asyncio.get_running_loop().call_later(due - clock(), self._arrived.set)
        elif policies.version != self._announced:
            added = policies.scheduler_names - self._announced_names
            self._announced, self._announced_names = policies.version, policies.scheduler_names
            self._announced_at = clock()
            namespaces, self._touched = frozenset(self._touched), set()
            self._kind.announce(namespaces)
            if added:
                self._on_names_served(added)
        now = clock()
        factor = self._kind.pause_factor if pause_factor is None else pause_factor
        self._free_at = max(self._free_at, now + factor * (now - started))

    async def start(self) -> None:
        """Applies all policies, or logs why they cannot be read. Raises ClusterError."""
        resource = self._kind.resource
        self.readable, problem = await asyncio.gather(self._may_read(), access.access_problem(self._http, resource))
        if problem is not None:
            where = self._kind.resource.collection
            log.warning(self._kind.off, where, problem)
        if self.readable:
            await self.relist(at_once=True)

    def _is_newer(self, raw: Raw) -> bool:
        """True if a listed policy differs from the applied version and from the waiting one, and is not older."""
        _, uid, generation = identity_of(raw)
        key = self._kind.key_of(raw)
        waiting, known = self._waiting.get(key), self._applied.get(key)
        if waiting is not None and _uid_of(waiting) == uid and identity_of(waiting)[2] >= generation:
            return False
        if known is None or known.uid != uid or self._kind.is_outdated(key):
            return True
        if known.result.generation > generation:
            return False
        return not known.version or known.version != raw["metadata"].get("resourceVersion")

    async def relist(self, *, at_once: bool = False) -> None:
        """Applies all policies on the API server, and removes all others. Raises ClusterError. `at_once`: nothing is
        decided yet.

        Events that come during the list may be newer than it, and win.
        """
        before = {name: known.uid for name, known in self._applied.items()}
        self._deleted_during_list.clear()
        try:
            items = [raw async for raw in list_objects(self._http, self._kind.resource.collection)]
        except ClusterError as error:
            if not is_not_found(error):
                raise
            if self._served:
                log.warning(self._kind.gone)
            items, self._served = [], False
        else:
            if self._served is False:
                self.appeared.set()
            self._served = True
        for raw in items:
            key, uid = self._kind.key_of(raw), _uid_of(raw)
            before.pop(key, None)
            if self._is_newer(raw):
                await (asyncio.sleep(0) if at_once else self._pause())
                if not at_once:
                    await self._prepare(raw)
                if self._is_newer(raw) and uid not in self._deleted_during_list:
                    self._waiting.discard(key)
                    self.apply(raw)
        for name, uid in before.items():
            known = self._applied.get(name)
            if known is not None and known.uid == uid:  # else a new policy of that name was created during the list
                self.remove(name)

    async def run_relists(self) -> None:
        """Relists every RELIST_SECONDS, from the moment that RBAC allows it, until it is cancelled.

        Kopf does not report deletions that happen while its watch is broken, and sometimes misses that the kind was
        installed.
        """
        if not self.readable:
            await self.wait_until_readable()
            await retry_until_answered(self._kind.plural, self.relist)
            log.info("%s can be read now", self._kind.plural)
            self.readable = True
            self.appeared.set()
        while True:
            await wait_at_most(RELIST_SECONDS, self._relist_now.wait())
            self._relist_now.clear()
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
        return await access.forbidden(self._http, self._kind.resource) is None

    async def run_status_writes(self) -> None:
        """Writes statuses until it is cancelled."""
        await self._statuses.run()


def _uid_of(raw: Raw) -> str:
    return str((raw.get("metadata") or {}).get("uid") or "")
