"""Writes the statuses of policies of one kind when they have changed.

Each policy has a backoff of its own, and its status is written once a second at most; all policies together, five times
a second. After every change the statuses of all policies are compared, because one policy can shadow another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

from podwright.api.policy_result import ApplyResult
from podwright.api.policy_status import COUNTS, Work, basis_of, status_of
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.raw import Raw
from podwright.engine.engine import Engine
from podwright.engine.process.steps import in_slices
from podwright.engine.records.policy_activity import pending_by_policy
from podwright.kube.client.errors import is_not_found
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON_PATCH
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.client.times import rfc3339
from podwright.kube.deadline import wait_at_most
from podwright.kube.policies.kinds import PolicyKind
from podwright.kube.write.write_limit import WriteLimit

log = logging.getLogger(__name__)

STATUS_SECONDS: Final = 1.0
"""The shortest time between two writes of a policy's status."""
REFRESH_SECONDS: Final = 60.0
"""How often statuses are written in which only counts have changed."""
STATUS_RETRY: Final = RetryPolicy(shortest=1.0, longest=60.0)


@dataclass(slots=True)
class AppliedVersion:
    """The version of a policy that was applied last, and its status on the API server.

    `version`: the object's resourceVersion. `basis`: what the status on the API server says, None if that is not known.

    `attempted_at`: when the status was written last, with or without success, by the clock of the event loop.
    `failures`: how many writes failed in a row. The status is not written before `not_before`; if `retried`, it is
    written then, otherwise after the next change.
    """

    result: ApplyResult
    uid: str
    version: str
    status: Raw
    namespace: str = ""
    name: str = ""
    basis: tuple[object, ...] | None = None
    attempted_at: float = -inf
    failures: int = 0
    not_before: float = -inf
    retried: bool = False


class PolicyStatuses:
    """See the module. `applied`: by the policy's key. Set `changed` when something has changed."""

    def __init__(
        self, http: Http, engine: Engine, kind: PolicyKind, clock: Callable[[], float], limit: WriteLimit
    ) -> None:
        """`clock` gives seconds since the epoch."""
        self.applied: dict[str, AppliedVersion] = {}
        self.changed = asyncio.Event()
        self._http = http
        self._engine = engine
        self._kind = kind
        self._clock = clock
        self._limit = limit
        self._pending: Mapping[tuple[str], int] = {}
        """How many pods wait, by policy, as of the last refresh."""
        self._refresh_at = inf
        """When the counts in statuses are written again, by the clock of the event loop."""
        engine.plugin_exceptions.listen(self.changed.set)
        engine.budgets.listen(self.changed.set)
        engine.activities.listen(self.changed.set)

    def took(self, key: str, applied: AppliedVersion) -> None:
        """A version of a policy was applied. A newer generation's status is written soon, but not sooner than a second
        after the last write.
        """
        known = self.applied.get(key)
        if known is not None and (known.uid, known.result) == (applied.uid, applied.result):
            if not known.version or known.version != applied.version:
                known.basis = None
            known.version, known.status = applied.version, applied.status  # and keep its backoff
            return
        if known is not None:
            applied.attempted_at, applied.not_before = known.attempted_at, known.attempted_at + STATUS_SECONDS
        self.applied[key] = applied

    async def run(self) -> None:
        """Writes the statuses after each change, until it is cancelled."""
        clock = asyncio.get_running_loop().time
        self._refresh_at = clock() + REFRESH_SECONDS
        while True:
            due = [applied.not_before for applied in self.applied.values() if applied.retried]
            await wait_at_most(min([self._refresh_at, *due]) - clock(), self.changed.wait())
            self.changed.clear()
            refresh = clock() >= self._refresh_at
            if refresh:
                self._refresh_at = clock() + REFRESH_SECONDS
                self._pending = await in_slices(pending_by_policy(self._engine.queue))
            await self._write_statuses(clock, refresh=refresh)

    async def _write_statuses(self, clock: Callable[[], float], *, refresh: bool) -> None:
        """Writes the statuses that have changed, except those that have to wait. `refresh`: also if only counts have
        changed.
        """
        for key in list(self.applied):
            applied = self.applied.get(key)
            if applied is None or not self._engine.policies.policy_set.is_concerned(key):
                continue
            try:
                await self._write_if_changed(key, applied, clock, refresh=refresh)
            except Exception:
                if not applied.failures:
                    log.exception("cannot write the status of policy %s", key)
                applied.failures += 1

    async def _write_if_changed(
        self, key: str, applied: AppliedVersion, clock: Callable[[], float], *, refresh: bool
    ) -> None:
        work = replace(
            self._engine.policies.work_of(key),
            pending_pods=self._pending.get((key,), 0),
            shadow=self._engine.shadow.work_of(key),
        )
        basis = (*basis_of(self._kind.policies, applied.result), work.state)
        if basis == applied.basis and not refresh:
            applied.retried = False
        elif clock() >= applied.not_before:
            await self._write_status(applied, basis, work, refresh=refresh)
        elif not applied.failures:
            applied.retried = True

    async def _write_status(
        self, applied: AppliedVersion, basis: tuple[object, ...], work: Work, *, refresh: bool
    ) -> None:
        """Writes the status, unless the API server has it already, with or without its counts. `basis`, `work`: what it
        is about.
        """
        clock = asyncio.get_running_loop().time
        applied.retried = False
        policies = self._kind.policies
        status = status_of(policies, applied.result, applied.status, rfc3339(self._clock()), work)
        worth = refresh or (applied.basis is not None and applied.basis[-1] != basis[-1])
        if status != applied.status and (worth or _without_counts(status) != _without_counts(applied.status)):
            await self._limit.take()
            applied.attempted_at = clock()
            try:
                path = self._kind.resource.path(applied.name, applied.namespace, subresource="status")
                await self._http.call("PATCH", path, _patch(applied, status), JSON_PATCH)
            except (ClusterError, TypeError) as error:  # a TypeError if something in it cannot be written as JSON
                if not is_not_found(error):
                    log.warning("cannot write the status of policy %s: %s", applied.result.name, error)
                    applied.failures += 1
                    applied.not_before = clock() + STATUS_RETRY.pause(applied.failures, error)
                    applied.retried = isinstance(error, ClusterError) and error.status not in (403, 422)
                return
            applied.not_before, applied.status = applied.attempted_at + STATUS_SECONDS, status
        applied.basis, applied.failures = basis, 0


def _without_counts(status: Raw) -> Raw:
    """The status without what may change all the time."""
    return {key: value for key, value in status.items() if key not in COUNTS}


def _patch(applied: AppliedVersion, status: Raw) -> list[dict[str, Any]]:
    """Replaces the whole status, so that no field of an older lastAccepted remains.

    It fails if another policy has taken the name: `lastAccepted` of one policy must not pass to its successor.
    """
    same = [{"op": "test", "path": "/metadata/uid", "value": applied.uid}] if applied.uid else []
    return [*same, {"op": "add", "path": "/status", "value": status}]
