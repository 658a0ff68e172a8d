"""Eviction of preemption's victims: the condition DisruptionTarget, then a deletion that names the uid. Victims of pods
with a queue, and pods that are moved, are evicted by the Eviction API, which sets the condition, and violates no
PodDisruptionBudget.

Each eviction is a task of its own, so no decision waits for one. As many run at a time as Bindings do
(engine/outcomes/binding/limiter), so that slow deletions, an admission webhook's for example, do not delay the others.
Another pod of the same name is never deleted. Texts follow kube-scheduler's preemption executor;
engine/outcomes/preemption decides who is evicted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.times import rfc3339
from podwright.engine.outcomes.binding.limiter import BindLimiter
from podwright.engine.ports import EvictionEvent, Recorder, Regarding, preempted_by, preempting
from podwright.engine.process.interruption import cancel
from podwright.engine.records.log_fields import fields
from podwright.kube.client.errors import is_conflict, is_not_found, is_retryable_write, uid_mismatch
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import STRATEGIC_PATCH
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import POD

log = logging.getLogger(__name__)

PROMPT_SECONDS: Final = 1.0
"""An eviction that takes longer than this is slow. Each of hundreds takes longer than a Binding, because they keep the
API server busy: with many more at once, it would refuse some.
"""
RETRY: Final = RetryPolicy(shortest=0.1, longest=0.4, attempts=4, retries=is_retryable_write, longest_retry_after=5.0)


def at_once(clock: Callable[[], float]) -> BindLimiter:
    """How many evictions run at a time. `clock` in seconds, never stepping back."""
    return BindLimiter(clock, prompt_seconds=PROMPT_SECONDS)


class PodEvictor:
    """Implements `Evictor`. `clock` gives seconds since the epoch; `limiter` says how many evictions run at a time."""

    def __init__(
        self, http: Http, recorder: Recorder, clock: Callable[[], float], limiter: BindLimiter | None = None
    ) -> None:
        self._http = http
        self._recorder = recorder
        self._clock = clock
        self._limiter = at_once(time.monotonic) if limiter is None else limiter
        self.tasks: set[asyncio.Task[None]] = set()
        self._started: set[asyncio.Task[None]] = set()
        """The tasks that have sent a request."""

    def evict(
        self,
        victim: PodInfo,
        preemptor: PodInfo | Regarding,
        node_name: str,
        done: Callable[[bool], None],
        *,
        within_budgets: bool = False,
        event: EvictionEvent | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> None:
        if victim.terminating:
            done(True)
            return
        deletion = self._evict_within_budgets(victim, wanted) if within_budgets else self._delete(victim, preemptor)
        event = event or EvictionEvent("Preempted", "Preempting", preempted_by(preemptor, node_name))
        eviction = self._evict(victim, event, preemptor.scheduler_name, deletion, done)
        task = asyncio.create_task(eviction, name="podwright eviction")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(self._started.discard)

    async def finish(self, grace: float) -> None:
        """Waits at most `grace` seconds for evictions that have started, so that no marked victim stays; cancels the
        others.
        """
        for task in self.tasks - self._started:
            task.cancel()
        if self._started:
            await asyncio.wait(set(self._started), timeout=grace)
        await cancel(self.tasks)

    async def _evict(
        self,
        victim: PodInfo,
        event: EvictionEvent,
        reporter: str,
        deletion: Coroutine[Any, Any, bool],
        done: Callable[[bool], None],
    ) -> None:
        deleted = False
        try:
            deleted_by_us = await self._in_turn(deletion)
            deleted = True
            if deleted_by_us:
                self._recorder.record(victim, "Normal", event.reason, event.action, event.note, reporter=reporter)
        except ClusterError as error:
            log.warning("cannot preempt a pod", extra=fields(pod=victim, err=error))
        finally:
            deletion.close()
            done(deleted)

    async def _in_turn(self, deletion: Coroutine[Any, Any, bool]) -> bool:
        task = asyncio.current_task()
        assert task is not None
        await self._limiter.wait_for_capacity()
        self._limiter.acquire(task)
        self._started.add(task)
        try:
            return await deletion
        finally:
            self._limiter.release(task)

    async def _delete(self, victim: PodInfo, preemptor: PodInfo | Regarding) -> bool:
        """True if our deletion removes the victim; False if it was gone already. Raises ClusterError."""
        path = POD.path(victim.name, victim.namespace)
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": victim.uid}}
        deletion_failed = False

        async def attempt() -> bool:
            nonlocal deletion_failed
            deleting = False
            try:
                await self._http.call("PATCH", f"{path}/status", self._mark(victim, preemptor), STRATEGIC_PATCH)
                deleting = True
                await self._http.call("DELETE", path, options)
            except ClusterError as error:
                if is_not_found(error) or uid_mismatch(error) or (deleting and is_conflict(error)):
                    return deletion_failed  # an earlier deletion of ours, whose response was lost, has removed it
                deletion_failed = deletion_failed or deleting
                raise
            return True

        return await RETRY.run(attempt)

    async def _evict_within_budgets(self, victim: PodInfo, wanted: Callable[[], bool] | None) -> bool:
        """True if our eviction removes the victim; False if it was gone already. Raises ClusterError."""
        path = f"{POD.path(victim.name, victim.namespace)}/eviction"
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": victim.uid}}
        metadata = {"name": victim.name, "namespace": victim.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        failed = False

        async def attempt() -> bool:
            nonlocal failed
            if wanted is not None and not wanted():
                raise ClusterError("the eviction is no longer wanted")
            try:
                await self._http.call("POST", path, body)
            except ClusterError as error:
                if is_not_found(error) or is_conflict(error):
                    return failed  # an earlier eviction of ours, whose response was lost, has removed it
                failed = True
                raise
            return True

        return await RETRY.run(attempt)

    def _mark(self, victim: PodInfo, preemptor: PodInfo | Regarding) -> object:
        condition: dict[str, object] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": preempting(preemptor),
        }
        if victim.generation:
            condition["observedGeneration"] = victim.generation
        if not victim.preempted:
            condition["lastTransitionTime"] = rfc3339(self._clock())
        return {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
