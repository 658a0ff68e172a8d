"""Planning: costly pods and gangs, decided one after another in a child process, and carried out by the loop.

    from the lane ─► `plan` ─► the child: decide, assume, the next one ─► an answer ─┬─► it still fits ─► carried out
                                                                                     └─► it does not ─► the lane

A child decides on the cluster as it was at the fork, and its pods are in flight meanwhile: events that may help them
are kept by the queue. A placement is checked against the cluster as it is now, on its node alone. A preemption does not
fit any more if a victim is gone, or if another preemptor got the room meanwhile, also while the members of a gang are
rejected in steps, before the first eviction. A pod that comes back CONFLICTS times is planned alone, in a quiet time,
in which nothing else is decided and the watches hold back what they receive. So no pod is put off forever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Protocol

from podwright.core.objects.control_flow import CONTROL_FLOW
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import described
from podwright.core.queue import QueuedPod, SchedulingQueue
from podwright.core.state.cache import Cache
from podwright.core.state.deadline import TookLongError
from podwright.core.state.transaction import CacheTransaction
from podwright.engine.planning.messages import Messages
from podwright.engine.plugins.exceptions import PluginExceptions, Report
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.process.forks import CHILD_SECONDS, ChildError, Children, NoChildError
from podwright.engine.process.interruption import cancel
from podwright.engine.process.quiet import Quiet
from podwright.engine.process.slice import LOOP_SECONDS, Slice
from podwright.engine.process.steps import Steps, Turn, at_once, in_slices
from podwright.engine.records.local_budgets import LocalBudgets
from podwright.engine.records.metrics import Metrics

log = logging.getLogger(__name__)

CONFLICTS: Final = 3
"""How often the plan for a pod may not fit any more before the pod is planned in a quiet time."""
STILL_CHANGING: Final = "what was decided about the pod did not fit any more, again and again"
QUIET_SECONDS: Final = 8.0
"""The longest quiet time."""
MOST_JOBS: Final = 16
"""How many pods a child decides about at most."""
BATCH_SECONDS: Final = 0.05
"""No further pods join once the Bindings of these keep the API server busy for so long."""
ORDINARY_SECONDS: Final = 0.001
"""About how long the API server and others are busy with the Binding of an ordinary pod."""


class Job(Protocol):
    """A decision about `pods`, which are in flight, under `policy`. `decide` and `assume` run in the child, all
    others in the loop.
    """

    @property
    def pods(self) -> Sequence[QueuedPod]: ...

    @property
    def policy(self) -> ActivePolicy: ...

    @property
    def turn(self) -> Turn:
        """Of the steps that carry the decision out."""

    def decide(self) -> Any: ...

    def assume(self, decision: Any, transaction: CacheTransaction) -> bool:
        """Lets the next decision see this one. Returns False if it cannot: then no decision follows."""

    def wanted(self) -> bool:
        """True if the same pods still wait for a decision under this policy."""

    def carry_out(self, decision: Any, seconds: float) -> Steps[bool]:
        """Checks and carries out the decision, which took so many seconds of CPU. Returns False if it does not fit
        any more.
        """

    def charged(self, decision: Any) -> Sequence[QueuedPod]:
        """The pods for which the lane pays what the decision takes of the loop's and the API server's time."""

    def give_back(self) -> Steps[None]:
        """Returns the pods to the lane that are still in flight without a binding cycle."""

    def fail(self, message: str) -> Steps[None]:
        """The attempt has failed."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """`number`: of the job. `problem`: why no decision was made, else "". `spent`: what the policy's account was
    charged.
    """

    number: int
    decision: Any
    problem: str
    seconds: float
    spent: float
    exceptions: Sequence[Report]
    counted: Any


class Planning:
    """See the module. One child at a time."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        *,
        children: Children,
        messages: Messages,
        slices: Slice,
        quiet: Quiet,
        budgets: LocalBudgets,
        exceptions: PluginExceptions,
        metrics: Metrics,
        clock: Callable[[], float],
        cpu: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._children = children
        self._messages = messages
        self._slice = slices
        self.quiet = quiet
        self._budgets = budgets
        self._exceptions = exceptions
        self._metrics = metrics
        self._clock = clock
        self._cpu = cpu
        self._wake = wake
        self._jobs: list[Job] = []
        self._taking: Steps[Job | None] | None = None
        self._task: asyncio.Task[None] | None = None

    # What the loop does

    def add(self, job: Job) -> None:
        """Adds a decision to the next child's."""
        self._jobs.append(job)

    def add_taken(self, taking: Steps[Job | None]) -> None:
        """Adds the decision that `taking` returns, if any, in steps before the child starts. No others join it."""
        self._taking = taking

    @property
    def has_room(self) -> bool:
        """True if there are decisions for the next child, and more pods may join them."""
        pods = [pod for job in self._jobs for pod in job.pods]
        return (
            self._taking is None
            and 0 < len(pods) < MOST_JOBS
            and not any(pod.conflicts >= CONFLICTS for pod in pods)
            and sum(pod.cost.elsewhere for pod in pods if pod.cost is not None) < BATCH_SECONDS
        )

    def start(self) -> None:
        """Starts the child, if there is anything to decide. The lane is busy until all of it is carried out."""
        if self._jobs or self._taking is not None:
            jobs, self._jobs = self._jobs, []
            taking, self._taking = self._taking, None
            self._queue.lane_is_busy = True
            self._task = asyncio.create_task(self._take_and_run(jobs, taking), name="podwright planning")

    def cancel(self) -> None:
        """Ends the child. Its pods have no decision."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Ends the child, and waits until it has ended."""
        await cancel([self._task])

    # A child's decisions

    async def _take_and_run(self, jobs: Sequence[Job], taking: Steps[Job | None] | None) -> None:
        left = dict(enumerate(jobs))
        try:
            if taking is not None and (taken := await in_slices(taking)) is not None:
                left[len(left)] = taken
            if left:
                await asyncio.sleep(0)  # the fork takes long by itself
                await self._run(left)
        finally:
            for job in left.values():
                at_once(job.give_back())
            self._queue.lane_is_busy = False
            self._wake()

    async def _run(self, left: dict[int, Job]) -> None:
        """Removes the jobs from `left` that are carried out."""
        alone = any(pod.conflicts >= CONFLICTS for job in left.values() for pod in job.pods)
        seconds = QUIET_SECONDS if alone else CHILD_SECONDS
        if alone:
            self.quiet.begin()
        try:
            await self._decide(left, seconds)
        except Exception as error:
            why = f"the process that decides ended: {error}"
            if not isinstance(error, ChildError):
                log.exception("a decision could not be carried out")
                why = f"what was decided cannot be carried out: {described(error)}"
            number = next(iter(left), None)
            if number is not None and (job := left[number]).wanted():
                await in_slices(job.fail(why))
                del left[number]
        finally:
            if alone:
                self.quiet.end()

    async def _decide(self, left: dict[int, Job], seconds: float) -> None:
        """Removes the jobs from `left` that are carried out. Raises ChildError."""
        jobs, started = dict(left), self._clock()
        try:
            messages = self._children.start(lambda: self._work(jobs, seconds), seconds)
        except NoChildError as error:
            log.warning("costly pods are decided without a child process: %s", error)
            for number, job in jobs.items():
                await self._decide_here(job, str(error))
                del left[number]
            return
        self._queue.charge_lane(self._clock() - started)
        async with aclosing(messages):
            async for message in messages:
                answer: _Answer = self._messages.decode(message)
                await self._answered(left[answer.number], answer)
                del left[answer.number]

    def _work(self, jobs: Mapping[int, Job], seconds: float) -> Iterator[bytes]:
        """Runs in the child, for at most so many seconds."""
        deadline, ends = self._cache.deadline, self._clock() + seconds
        others_wait, deadline.others_wait = deadline.others_wait, False
        is_late = deadline.is_late
        try:
            with CacheTransaction(self._cache) as transaction:
                for number, job in jobs.items():
                    # Each may search for half of the time that is left, and the rest is for what follows the search.
                    search_ends = (self._clock() + ends) / 2
                    deadline.is_late = partial(self._is_past, search_ends)
                    answer = self._answer(number, job)
                    try:
                        yield self._messages.encode(answer)
                    except Exception as error:  # noqa: BLE001 -- a plugin's result may be anything
                        yield self._messages.encode(
                            _failed(number, f"the decision cannot be passed on: {described(error)}")
                        )
                    if answer.problem or not job.assume(answer.decision, transaction):
                        return
        finally:
            deadline.others_wait, deadline.is_late = others_wait, is_late

    def _is_past(self, moment: float) -> bool:
        return self._clock() >= moment

    def _answer(self, number: int, job: Job) -> _Answer:
        account = job.policy.account
        spent, cpu = 0.0 if account is None else account.total, self._cpu()
        counted = self._metrics.numbers()
        self._exceptions.reports.clear()
        try:
            decision = job.decide()
        except CONTROL_FLOW:
            raise
        except BaseException as error:
            log.exception("an attempt failed")
            return _failed(number, described(error))
        return _Answer(
            number=number,
            decision=decision,
            problem="",
            seconds=self._cpu() - cpu,
            spent=0.0 if account is None else account.total - spent,
            exceptions=[*self._exceptions.reports],
            counted=self._metrics.numbers_since(counted),
        )

    async def _answered(self, job: Job, answer: _Answer) -> None:
        started = self._clock()
        if not job.wanted():
            await in_slices(job.give_back())
            return
        if self._children.apart:
            self._metrics.add(answer.counted)
            self._exceptions.take(job.policy.compiled, answer.exceptions)
            if job.policy.account is not None:
                self._budgets.charge(job.policy.account, answer.spent)
        if answer.problem:
            await in_slices(job.fail(answer.problem))
            return
        charged = job.charged(answer.decision)
        await self._carry_out(job, answer.decision, answer.seconds)
        elsewhere = sum(ORDINARY_SECONDS if pod.cost is None else pod.cost.elsewhere for pod in charged)
        took = (self._clock() - started) * len(charged) / len(job.pods)
        self._queue.charge_lane(max(took, elsewhere))

    async def _carry_out(self, job: Job, decision: Any, seconds: float) -> None:
        if await in_slices(job.carry_out(decision, seconds), None if self.quiet else job.turn):
            for pod in job.pods:
                pod.conflicts = 0
            return
        if self.quiet and job.wanted():
            await in_slices(job.fail(STILL_CHANGING))
            return
        for pod in job.pods:
            pod.conflicts += 1
        await in_slices(job.give_back())

    async def _decide_here(self, job: Job, why: str) -> None:
        """Decides in the loop, because there is no child."""
        if not job.wanted():
            await in_slices(job.give_back())
            return
        started = self._cpu()
        try:
            decision = self._slice.run(job.decide, LOOP_SECONDS)
        except TookLongError:
            await in_slices(job.fail(f"{why}, and the decision takes more than {LOOP_SECONDS:g} s"))
            return
        await self._carry_out(job, decision, self._cpu() - started)


def _failed(number: int, problem: str) -> _Answer:
    return _Answer(number, None, problem, 0.0, 0.0, (), {})
