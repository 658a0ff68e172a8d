"""Counts the operations of a decision: calls, passes over arrays and memory. Unlike times, they do not depend on the
machine or its load.
"""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
from benchmarks.core.decisions import filled

import podwright
from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Placement, schedule
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.costs.call_counts import profiled

MakePod = Callable[[int, str], dict[str, Any]]
PLACED = 400
WARM_UP = 40
_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")
_MAKERS = ("empty", "zeros", "ones", "full", "arange", "array", "asarray", "fromiter", "empty_like", "zeros_like")


@dataclass(frozen=True)
class Operations:
    """Averages for one decision.

    `calls` of Python functions, `c_calls` of C functions, `passes` over an array with a value for each node, the median
    peak of temporary memory, and the number of memory blocks that stay allocated, which include the pod's entry in the
    cache.
    """

    calls: float
    c_calls: float
    passes: float
    temporary_bytes: float
    blocks: float


def count(placed: MakePod, pending: MakePod, nodes: int, decisions: int = 20) -> Operations:
    """Counts the operations of decisions on a cluster with `PLACED` pods, after `WARM_UP` decisions that are not
    counted.
    """
    _calls(_decider(placed, pending, nodes), decisions)  # methods of data classes are compiled when first called
    decide = _decider(placed, pending, nodes)
    calls = _calls(decide, decisions)
    blocks = _blocks(decide, decisions)
    memory = _temporary(decide, decisions)
    with counted_arrays(nodes) as passes:
        decide = _decider(placed, pending, nodes)
        passes.clear()
        for _ in range(decisions):
            decide()
    return Operations(calls[0], calls[1], len(passes) / decisions, memory, blocks)


def count_passes(
    placed: MakePod, pending: MakePod, nodes: int, before_each: Callable[[World, int], object], decisions: int = 20
) -> float:
    """Counts the passes of one decision, as `count` does. `before_each` changes the world before the decision with this
    number.
    """
    worlds: list[World] = []
    with counted_arrays(nodes) as passes:
        decide = _decider(placed, pending, nodes, worlds.append)
        for number in range(decisions + 3):
            if number == 3:  # the first of them prepare for changes
                passes.clear()
            before_each(worlds[0], number)
            decide()
    return len(passes) / decisions


def count_calls(
    placed: MakePod, pending: MakePod, nodes: int, change: Callable[[World], object], decisions: int = 20
) -> tuple[float, float]:
    """Counts the calls of Python and of C functions for one decision, as `count` does, in a world that was changed."""
    return _calls(_decider(placed, pending, nodes, change), decisions)


def _decider(
    placed: MakePod, pending: MakePod, nodes: int, change: Callable[[World], object] = lambda _world: None
) -> Callable[[], None]:
    """A function that schedules the next pod. Pods are parsed in advance, because parsing is not part of a decision."""
    world = filled(nodes, PLACED, placed)
    change(world)
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    below = random.Random(7).randrange
    pods: Iterator[PodInfo] = iter([parse_pod(pending(number, "pending")) for number in range(WARM_UP + 100)])

    def decide() -> None:
        pod = next(pods)
        decision = schedule(framework, world.cache, pod, below)
        assert isinstance(decision, Placement), decision
        world.cache.assume(pod, decision.node_name)

    for _ in range(WARM_UP):
        decide()
    return decide


@contextmanager
def own_calls() -> Iterator[Counter[str]]:
    """Counts the calls of Podwright's own Python functions within the block, by name."""
    own, calls = str(Path(podwright.__file__).parent), Counter[str]()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(own):
            calls[frame.f_code.co_qualname] += 1

    with profiled(profile):
        yield calls


def _calls(decide: Callable[[], None], decisions: int) -> tuple[float, float]:
    seen = {"call": 0, "c_call": 0}

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        # Comprehensions are calls before 3.12 only.
        if event in seen and not (event == "call" and frame.f_code.co_name in _COMPREHENSIONS):
            seen[event] += 1

    with profiled(profile):
        for _ in range(decisions):
            decide()
    return seen["call"] / decisions, seen["c_call"] / decisions


def _blocks(decide: Callable[[], None], decisions: int) -> float:
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(decisions):
        decide()
    gc.collect()
    return (sys.getallocatedblocks() - before) / decisions


def _temporary(decide: Callable[[], None], decisions: int) -> float:
    """The median peak of memory during a decision, in bytes above that before it."""
    peaks = []
    tracemalloc.start()
    try:
        for _ in range(decisions):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            decide()
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return sorted(peaks)[decisions // 2]


@contextmanager
def counted_arrays(least: int) -> Iterator[list[str]]:
    """Collects the operations over at least `least` elements of arrays that are created in the block."""
    passes: list[str] = []

    def note(what: str, elements: int) -> None:
        if elements >= least:
            passes.append(what)

    with _counting(_counted(least, note)):
        yield passes


@contextmanager
def counted_elements() -> Iterator[list[int]]:
    """Collects the number of elements of each operation on arrays that are created in the block."""
    elements: list[int] = []
    with _counting(_counted(1, lambda _what, count: elements.append(count))):
        yield elements


@contextmanager
def _counting(kind: type[np.ndarray]) -> Iterator[None]:
    """Within the block, NumPy creates arrays of this kind."""

    def counting(make: Callable[..., Any]) -> Callable[..., Any]:
        def create(*arguments: Any, **options: Any) -> Any:
            return _wrap(make(*_plain(arguments), **options), kind)

        return create

    with mock.patch.multiple(np, **{name: counting(getattr(np, name)) for name in _MAKERS}):
        yield


def _counted(least: int, note: Callable[[str, int], None]) -> type[np.ndarray]:
    class Counted(np.ndarray):
        """An array that counts the operations on it. The results of operations count, too."""

        def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
            _note(f"{ufunc.__name__}.{method}", inputs)
            out = options.get("out")
            if out is not None:
                options["out"] = _plain(out)
            answer = getattr(ufunc, method)(*_plain(inputs), **options)
            return out[0] if out is not None and len(out) == 1 else _wrap(answer, Counted)

        def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
            _note(function.__name__, arguments)
            return _wrap(function(*_plain(arguments), **{k: _plain((v,))[0] for k, v in options.items()}), Counted)

        def __getitem__(self, key: Any) -> Any:
            answer = super().__getitem__(key)
            if isinstance(answer, np.ndarray) and not np.may_share_memory(
                answer.view(np.ndarray), self.view(np.ndarray)
            ):
                _note("take", (self if _size(answer) * 2 >= least else answer,))
            return answer

        def __setitem__(self, key: Any, value: Any) -> None:
            if isinstance(key, slice) or (isinstance(key, np.ndarray) and key.dtype == bool):
                _note("put", (self,))
            super().__setitem__(key, value)

    def _note(what: str, inputs: Sequence[Any]) -> None:
        note(what, max((_size(item) for item in inputs), default=0))

    return Counted


def _size(value: Any) -> int:
    if isinstance(value, tuple | list):
        return sum(_size(item) for item in value)
    return value.size if isinstance(value, np.ndarray) else 0


def _plain(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values with plain arrays, also in tuples and lists: NumPy looks for arrays there, too."""
    return tuple(_plain_value(value) for value in values)


def _plain_value(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_plain(value))
    return value.view(np.ndarray) if isinstance(value, np.ndarray) else value


def _wrap(answer: Any, kind: type[np.ndarray]) -> Any:
    if isinstance(answer, tuple):
        return tuple(_wrap(item, kind) for item in answer)
    return answer.view(kind) if type(answer) is np.ndarray else answer
