"""Measures attempts at hostile pods with the whole engine on fakes: intake, policy, decision, and what follows a
rejection.

`HostileCluster.attempt` returns what became of the pod and the CPU time, which is printed only. `work` counts the
operations of the same attempt: tests compare these.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Final

from podwright.core.objects import compaction
from podwright.core.objects.interning import WeakValues
from podwright.core.objects.pod import SPEC_CACHE
from podwright.engine.process.memory import THRESHOLDS
from support.costs.call_counts import profiled
from support.costs.operation_counts import counted_elements
from support.engine.kit import Rig, on_node, ours, settle
from support.hostile.subjects import DONE, Row, Subject, node, node_name

NODES: Final = 5_000
PLACED: Final = 10_000
FAILED: Final = "FailedScheduling"
PREEMPTS: Final = "preemption: found a potential placement"
TIMED_OUT: Final = "timed out trying to allocate devices"
MOST_TIMEOUTS: Final = 4
ELEMENTS: Final = 64
"""Operations on this many elements of arrays count as one line of Python."""


@dataclass(frozen=True)
class Attempt:
    """`outcome`: "bound", "preempts", or the text of the event. CPU time in ms: from the watch event to the
    decision.
    """

    outcome: str
    milliseconds: float


class HostileCluster:
    """A cluster with evenly placed pods on nine tenths of its nodes, for one subject."""

    def __init__(self, subject: Subject, nodes: int = NODES, placed: int = PLACED) -> None:
        _forget_parsed()
        self.rig = Rig()
        self.subject = subject
        self._number = 0
        engine = self.rig.engine
        for index in range(nodes):
            engine.nodes.put(node(index))
        filled = [index for index in range(nodes) if index % 10]
        for number in range(placed):
            raw = ours(
                f"placed-{number}",
                labels={"app": f"app-{number % 20}"},
                requests={"cpu": "100m"},
                status={"phase": "Running"},
            )
            engine.assigned.put(on_node(raw, node_name(filled[number % len(filled)])))
        if subject.prepare is not None:
            subject.prepare(self.rig, nodes)

    async def attempt(self, measured: Callable[[Callable[[], None]], Any] | None = None) -> Attempt:
        """An attempt at the next pod of the subject. The pod is removed afterwards. `measured` calls the attempt."""
        rig, number = self.rig, self._number
        self._number += 1
        if self.subject.change is not None:
            self.subject.change(rig, number)
        if self.subject.act is not None:
            return Attempt(DONE, self._measure(partial(self.subject.act, rig, number), measured))
        name = f"hostile-{number}"
        raw = ours(name, labels=dict(self.subject.labels(number)), spec=self.subject.spec(number))
        uid = raw["metadata"]["uid"]
        events = len(rig.recorder.events)

        def decide() -> None:
            rig.engine.pending.put(raw)
            queued = rig.engine.queue.pop()
            assert queued is not None, rig.recorder.events[events:]
            queued.cost = None  # decided here, not in a child process
            rig.engine.pod_attempts.schedule_one(queued)

        milliseconds = self._measure(decide, measured)
        if chosen := rig.placed_on(name):
            await settle()
            rig.confirm(raw, chosen)
            rig.engine.assigned.drop(uid, None)
            return Attempt("bound", milliseconds)
        notes = [note for pod, reason, note in rig.recorder.events[events:] if (pod, reason) == (name, FAILED)]
        rig.engine.pending.drop(uid, raw)
        return Attempt("preempts" if PREEMPTS in notes[-1] else notes[-1], milliseconds)

    def _measure(self, run: Callable[[], None], measured: Callable[[Callable[[], None]], Any] | None) -> float:
        """Runs it, and returns the CPU time in ms. `measured` runs it."""
        started = time.process_time()
        if measured is None:
            run()
        else:
            measured(run)
        return 1000 * (time.process_time() - started)


async def work(subject: Subject, nodes: int, placed: int, *, warm: bool = False) -> float:
    """The operations of the first attempt, or with `warm` of the second one: lines of Python, calls of C functions, and
    array elements.

    A search for devices that took its share of an attempt goes on in the next one: these count together.
    """
    with counted_elements() as elements:
        cluster = HostileCluster(subject, nodes, placed)
        if warm:
            await cluster.attempt()
        lines = 0
        elements.clear()

        def count(decide: Callable[[], None]) -> None:
            nonlocal lines
            lines += _lines(decide)

        attempt = await cluster.attempt(count)
        for _ in range(MOST_TIMEOUTS):
            if TIMED_OUT not in attempt.outcome:
                break
            attempt = await cluster.attempt(count)
        assert attempt.outcome.startswith(subject.expected), attempt
        return lines + sum(elements) / ELEMENTS


def _forget_parsed() -> None:
    """So that no attempt finds its spec parsed, or its labels and selectors interned, by a former cluster: garbage that
    another test froze keeps them.
    """
    SPEC_CACHE.clear()
    gc.collect()
    for structure in [*compaction._structures]:  # noqa: SLF001 -- only tests forget what is still interned
        if isinstance(structure, WeakValues):
            structure._objects.clear()  # noqa: SLF001 -- as above
    compaction.compact_all()


def _lines(run: Callable[[], None]) -> int:
    """The lines of Python that `run` executes, each round of a loop again, and its calls of C functions."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "c_call"

    tracing = sys.gettrace()
    with profiled(profile):
        sys.settrace(trace)
        try:
            run()
        finally:
            sys.settrace(tracing)
    return count


async def measure(row: Row, nodes: int = NODES, placed: int = PLACED) -> tuple[Attempt, Attempt]:
    """The first attempt at a pod of this row, and one at another pod of it."""
    cluster = HostileCluster(row.subject, nodes, placed)
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    # Instead of the operator's `freeze_objects`, which could be undone only together with what this process froze
    # before.
    gc.collect()
    try:
        return await cluster.attempt(), await cluster.attempt()
    finally:
        gc.set_threshold(*before)
