"""Batches: pods of a policy with packing Optimal are gathered for a moment, and decided together in a child process.

popped ─► `gather` ─► the lane ─► popped again ─► `take`: those that were gathered with it ─► PackingJob
    ─► core.gangs.packing ─► each decision is checked and carried out
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from podwright.api.policy_status import PackingStatus
from podwright.core.cycle import Decision
from podwright.core.framework.program import Solver
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.pod import PodInfo
from podwright.core.queue import QueuedPod
from podwright.core.queue.queued_pod import Place
from podwright.core.state.transaction import CacheTransaction
from podwright.engine.planning.placing import assume
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.process.steps import Steps
from podwright.engine.state import EngineState

if TYPE_CHECKING:
    from podwright.core.gangs.packing import Packed

MOST_PODS: Final = 1_000
"""How many pods are decided together at most."""


class Attempts(Protocol):
    """What becomes of single pods. See PodAttempts."""

    def seen(self, queued: QueuedPod) -> tuple[PodInfo, int]: ...
    def nominated(self) -> Mapping[str, str]: ...
    def may_decide(self, queued: QueuedPod, policy: ActivePolicy) -> bool: ...
    def carry_out(
        self,
        queued: QueuedPod,
        policy: ActivePolicy,
        decision: Decision,
        *,
        seconds: float,
        started: float,
        seen: tuple[PodInfo, int],
        nominated: Mapping[str, str],
    ) -> bool: ...
    def give_back(self, queued: QueuedPod) -> None: ...
    def fail(self, queued: QueuedPod, message: str, started: float) -> None: ...


class Batches:
    """See the module."""

    def __init__(self, state: EngineState, *, wake: Callable[[], None]) -> None:
        self._queue = state.queue
        self._wake = wake
        self._gathered: dict[str, dict[str, None]] = {}
        """By name of policies: the uids of pods in flight that wait for others."""
        self._due: dict[str, dict[str, None]] = {}
        """The same of pods that wait in the lane."""
        compact_regularly(self)

    def compact(self) -> None:
        """Forgets pods that are gone, or were decided under another policy."""
        left = {name: {uid: None for uid in due if self._waiting(uid)} for name, due in self._due.items()}
        self._due = {name: due for name, due in left.items() if due}

    def _waiting(self, uid: str) -> QueuedPod | None:
        queued = self._queue.get(uid)
        return queued if queued is not None and queued.place is Place.ACTIVE else None

    def gather(self, queued: QueuedPod, policy: ActivePolicy) -> None:
        """The popped pod waits for others."""
        name = policy.compiled.name
        if name not in self._gathered:
            self._gathered[name] = {}
            seconds = policy.compiled.spec.packing_times.batch_seconds
            asyncio.get_running_loop().call_later(seconds, self._end, name)
        self._gathered[name][queued.uid] = None

    def _end(self, name: str) -> None:
        uids = self._gathered.pop(name)
        for uid in uids:
            queued = self._queue.get(uid)
            if queued is not None and queued.place is Place.IN_FLIGHT:
                self._queue.wait_in_lane(queued, ())
        self._due.setdefault(name, {}).update(uids)
        self._wake()

    def take(self, first: QueuedPod, policy: ActivePolicy) -> Sequence[QueuedPod]:
        """The popped pod, and those in the lane that are decided with it; all are in flight."""
        due = self._due.pop(policy.compiled.name, {})
        due.pop(first.uid, None)
        taken = [first]
        for uid in list(due):
            if len(taken) == MOST_PODS:
                self._due[policy.compiled.name] = due
                break
            del due[uid]
            queued = self._waiting(uid)
            if queued is not None and self._queue.take(uid) is not None:
                taken.append(queued)
        return taken


class PackingJob:
    """See `planning.Job`. Of pods that are packed together."""

    def __init__(
        self,
        pods: Sequence[QueuedPod],
        policy: ActivePolicy,
        *,
        state: EngineState,
        solve: Solver | None,
        attempts: Attempts,
        started: float,
    ) -> None:
        self.pods = pods
        self.policy = policy
        self._state = state
        self._solve = solve
        self._attempts = attempts
        self._started = started
        self._seen = {queued.uid: attempts.seen(queued) for queued in pods}
        self._nominated = attempts.nominated()

    def decide(self) -> Packed:
        from podwright.core.gangs.packing import Packing  # noqa: PLC0415 -- few policies pack

        spec, sources = self.policy.compiled.spec, self._state.sources
        packing = Packing(
            self.policy.framework,
            self._state.cache,
            sources.below,
            self._solve,
            seconds=spec.packing_times.budget_seconds,
            clock=sources.clock,
            preempts_at=sources.wall() if spec.packing_may_preempt else None,
        )
        return packing.pack([queued.pod for queued in self.pods])

    def assume(self, packed: Packed, transaction: CacheTransaction) -> bool:
        return all(assume(decision, self.policy, transaction) for decision in packed.decisions)

    def wanted(self) -> bool:
        return any(self._attempts.may_decide(queued, self.policy) for queued in self.pods)

    def carry_out(self, packed: Packed, seconds: float) -> Steps[bool]:
        """A pod whose decision does not fit any more, or that has none, waits in the lane for another one."""
        self.policy.activity.packing = PackingStatus(
            pods=len(self.pods), placed=packed.placed, certificate=packed.certificate, message=packed.message[:1024]
        )
        left = {queued.uid: queued for queued in self.pods}
        for decision in packed.decisions:
            yield
            # A pod that is gone has not come back as an object.
            queued = left.get(decision.pod.uid) if decision.pod is not None else None
            if queued is None or not self._attempts.may_decide(queued, self.policy):
                continue
            if self._attempts.carry_out(
                queued,
                self.policy,
                decision,
                seconds=0.0,
                started=self._started,
                seen=self._seen[queued.uid],
                nominated=self._nominated,
            ):
                del left[queued.uid]
        if len(left) == len(self.pods):
            return False
        for queued in left.values():
            self._attempts.give_back(queued)
        return True

    def charged(self, _packed: Packed) -> Sequence[QueuedPod]:
        return self.pods

    def give_back(self) -> None:
        for queued in self.pods:
            self._attempts.give_back(queued)

    def fail(self, message: str) -> None:
        for queued in self.pods:
            if self._attempts.may_decide(queued, self.policy):
                self._attempts.fail(queued, message, self._started)
