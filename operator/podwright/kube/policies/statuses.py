"""The statuses of policies of one kind.

One policy can shadow another, so those of all policies are compared. A status is computed when what it depends on has
changed, and otherwise every REFRESH_SECONDS, because its counts change all the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from podwright.api.policy_result import ApplyResult
from podwright.api.policy_status import basis_of, status_of
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import Raw
from podwright.engine.engine import Engine
from podwright.engine.process.steps import in_slices
from podwright.engine.records.policy_activity import pending_by_policy
from podwright.kube.client.http import Http
from podwright.kube.policies.kinds import PolicyKind
from podwright.kube.write.object_status import ObjectStatuses, SeenObject
from podwright.kube.write.write_limit import WriteLimit

REFRESH_SECONDS: Final = 60.0


@dataclass(slots=True)
class AppliedVersion:
    """The version of a policy that was applied last. `version`: the object's resourceVersion."""

    result: ApplyResult
    uid: str
    version: str


class PolicyStatuses(ObjectStatuses):
    """See the module. `applied`: by the policy's key."""

    noun = "policy"

    def __init__(
        self, http: Http, engine: Engine, kind: PolicyKind, clock: Callable[[], float], limit: WriteLimit
    ) -> None:
        """`clock` gives seconds since the epoch."""
        super().__init__(http, clock=clock, limit=limit)
        self.resource = kind.resource
        self.applied: dict[str, AppliedVersion] = {}
        self._engine = engine
        self._kind = kind
        self._pending: Mapping[tuple[str, ...], int] = {}
        """How many pods wait, by policy, as of the last refresh."""
        self._computed: dict[str, tuple[object, Raw]] = {}
        """By the policy's key: what its status depends on, and the status."""
        self._refresh_at = 0.0

    def took(self, key: str, applied: AppliedVersion, raw: Raw) -> None:
        """A version of a policy was applied."""
        self.applied[key] = applied
        self.seen(key, raw, "")

    def forget(self, name: str) -> None:
        super().forget(name)
        self.applied.pop(name, None)
        self._computed.pop(name, None)

    async def prepare(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._refresh_at:
            self._refresh_at = now + REFRESH_SECONDS
            self._pending = await in_slices(pending_by_policy(self._engine.queue))
            self._computed.clear()

    def status_of(self, name: str, seen: SeenObject, now: str) -> Raw:
        engine, applied, policies = self._engine, self.applied[name], self._kind.policies
        if not engine.policies.policy_set.is_concerned(name):
            return seen.status
        pending, shadow = self._pending.get((name,), 0), engine.shadow.work_of(name)
        work = replace(engine.policies.work_of(name), pending_pods=pending, shadow=shadow)
        basis = applied.uid, basis_of(policies, applied.result), work.state
        known = self._computed.get(name)
        if known is not None and known[0] == basis:
            return known[1]
        status = status_of(policies, applied.result, seen.status, now, work)
        self._computed[name] = basis, status
        return status
