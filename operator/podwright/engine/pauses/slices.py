"""Slices: a long attempt is cut into slices, and between them watches, health and Bindings go on.

    start ─► ended within the slice
        └─► paused ─► other tasks ─► resume ─► … ─► ended

An attempt is an ordinary call, which runs in a greenlet: so the loop can leave it in the middle, where the core says that it may
(`core.state.pauses`), and come back to it. While it is paused, the cache is as if it had not begun. If the cache or one of its pods changes
meanwhile, the attempt starts anew; after RESTARTS times it waits in the lane of costly pods. If it has to start anew RESTARTS more times
there, it gets a quiet time (`quiet`), in which nothing changes. If it is still undecided afterwards, and something changes, it has failed,
and the next attempt gets a longer quiet time. So every decision is made on one state of the cluster, as if it took no time, none is put off
forever, and none holds the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from enum import Enum
from functools import partial
from typing import Final, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

from podwright.core.framework.guarded import CallGuard
from podwright.core.objects.control_flow import ControlFlowError
from podwright.core.objects.pod import PodInfo
from podwright.core.queue import QueuedPod
from podwright.core.state.cache import Cache
from podwright.core.state.pauses import InputsChangedError
from podwright.engine.pauses.quiet import Quiet, quiet_seconds

T = TypeVar("T")

SLICE_SECONDS: Final = 0.02
"""How long an attempt runs before it pauses."""
RARE_SECONDS: Final = 0.06
"""How much longer an attempt runs if it only reaches points at which pauses should be rare."""
HOLD_SECONDS: Final = 0.1
"""How long a slice may hold the loop, including the time to resume and suspend the attempt's transactions, unless these alone take most of
it.
"""
RESTARTS: Final = 3
"""How often an attempt starts anew before it waits in the lane, or in the lane before it gets a quiet time."""
STILL_CHANGING: Final = "the cluster changes faster than this attempt can decide; the next one gets more time"


class Undecided(Enum):
    """Why there is no decision."""

    NOT_NOW = "it is no longer wanted, or its pods have changed, or it may take longer only in the lane"
    STILL_CHANGING = STILL_CHANGING


class _AbandonedError(ControlFlowError, GreenletExit):
    """Ends a greenlet silently. A GreenletExit that a plugin raises does not."""


class _Worker:
    """A greenlet that runs one attempt after another, because starting a greenlet takes many times as long as switching to it. Its frame
    refers to this object alone, so it keeps no engine in memory.
    """

    def __init__(self) -> None:
        self.loop = getcurrent()
        self.attempt: Callable[[], None] | None = None
        """The attempt that has not ended."""


def _work(worker: _Worker) -> None:
    while worker.attempt is not None:
        worker.attempt()
        worker.attempt = None
        worker.loop.switch()


class Slices:
    """See the module. One attempt at a time."""

    def __init__(
        self,
        cache: Cache,
        quiet: Quiet,
        *,
        clock: Callable[[], float],
        cpu: Callable[[], float],
        guard: CallGuard,
    ) -> None:
        """`guard`: knows in which call of a plugin an attempt is."""
        self.quiet = quiet
        self._guard = guard
        self._cache = cache
        cache.pauses.must_end_soon = True
        self._clock = clock
        self._cpu = cpu
        self._worker = _Worker()
        self._greenlet: greenlet | None = None
        self._running = False
        """Whether an attempt runs, and is not paused."""
        self._stands: Callable[[], bool] = _always
        """Whether the decision in progress is still wanted, and its pods have not changed."""
        self._ends = 0.0
        self._cpu_of_others = 0.0
        self._paused_at = 0.0

    def start(self, attempt: Callable[[], None]) -> bool:
        """Begins an attempt. Returns whether it has ended; if not, call `resume`."""
        if self._greenlet is None or self._worker.loop is not getcurrent():
            self._worker = _Worker()
            self._greenlet = greenlet(partial(_work, self._worker))
            self._greenlet.gr_context = copy_context()
        self._worker.attempt = attempt
        return self._run()

    def resume(self) -> bool:
        """Goes on with a paused attempt. Returns whether it has ended."""
        self._cpu_of_others += self._cpu() - self._paused_at
        return self._run()

    def abandon(self) -> None:
        """Ends a paused attempt without a decision. The cache is as if it had not begun."""
        if self._greenlet is not None and self._worker.attempt is not None:
            self._greenlet.throw(_AbandonedError)
        self._greenlet = None

    def point_after_decision(self) -> None:
        """A place in a long loop that carries a decision out. If the slice is over, other work goes on, which may change the cache.

        What carries a decision out is never abandoned: it goes on without pauses then.
        """
        if not self._running or self._clock() < self._ends:
            return
        self._paused_at = self._cpu()
        try:
            self._worker.loop.switch()
        except _AbandonedError:
            return
        self._ends = self._clock() + SLICE_SECONDS

    def cpu(self) -> float:
        """CPU seconds, without those that other tasks took while attempts were paused."""
        return self._cpu() - self._cpu_of_others

    def decide(
        self,
        decide: Callable[[], T],
        *,
        wanted: Callable[[], bool],
        in_lane: bool,
        about: Sequence[QueuedPod] = (),
    ) -> T | Undecided:
        """The result of `decide`, which leaves the cache as it was. An attempt may pause in this call, and in `point_after_decision`.

        If the cache or a pod of `about` changes meanwhile, it starts anew.
        """
        if not self._running:
            return decide()
        for _ in range(RESTARTS):
            try:
                return self._decide(decide, wanted, about)
            except InputsChangedError:
                if not wanted():
                    return Undecided.NOT_NOW
        if not in_lane:
            return Undecided.NOT_NOW
        self.quiet.begin(quiet_seconds(about))
        try:
            return self._decide(decide, wanted, about)
        except InputsChangedError:
            if not wanted():
                return Undecided.NOT_NOW
            for queued in about:
                queued.undecided += 1
            return Undecided.STILL_CHANGING
        finally:
            self.quiet.end()

    # Internals

    def _decide(self, decide: Callable[[], T], wanted: Callable[[], bool], about: Sequence[QueuedPod]) -> T:
        """Raises InputsChangedError if it must start anew."""
        pauses = self._cache.pauses
        pods = [queued.pod for queued in about]
        self._stands = partial(_stands, wanted, about, pods)
        pauses.pause = self._pause
        try:
            decision = decide()
        finally:
            pauses.pause = None
            self._stands = _always
        for queued in about:
            queued.undecided = 0
        return decision

    def _run(self) -> bool:
        assert self._greenlet is not None, "no attempt was started"
        self._ends = self._clock() + SLICE_SECONDS
        self._running = True
        try:
            self._greenlet.switch()
        except BaseException:
            self._greenlet = None
            raise
        finally:
            self._running = False
        return self._worker.attempt is None

    def _pause(self) -> None:
        """Called by the attempt. The next slice is long enough, compared with what it takes to suspend and resume the transactions, that the attempt
        goes on.
        """
        clock, pauses = self._clock, self._cache.pauses
        suspended_at = clock()
        if suspended_at < self._ends + RARE_SECONDS * pauses.rarely:
            return
        pauses.suspend()
        version = self._cache.version
        spent = clock() - suspended_at
        self.quiet.end_if_over()
        self._paused_at = self._cpu()
        pauses.pause = None
        left = self._guard.leave()
        self._worker.loop.switch()
        self._guard.enter_again(left)
        pauses.pause = self._pause
        if self._cache.version != version or not self._stands():
            raise InputsChangedError
        resumed_at = clock()
        pauses.resume()
        now = clock()
        spent += now - resumed_at
        self._ends = now + max(SLICE_SECONDS, spent / 2, min(spent, HOLD_SECONDS - spent))


def _stands(wanted: Callable[[], bool], about: Sequence[QueuedPod], pods: Sequence[PodInfo]) -> bool:
    return all(queued.pod is pod for queued, pod in zip(about, pods, strict=True)) and wanted()


def _always() -> bool:
    return True
