"""Free memory is returned to the system, and full collections wait for idle times."""

from __future__ import annotations

import gc
import weakref

import pytest

from podwright.engine.process import memory
from podwright.engine.process.memory import FULL_COLLECTION_REST, MemoryReclaimer, memory_in_use


class SelfReference:
    """A reference cycle: only the garbage collector frees it."""

    def __init__(self) -> None:
        self.me = self


def old_garbage() -> weakref.ref[SelfReference]:
    """A reference cycle in the oldest generation."""
    cycle = SelfReference()
    gc.collect(1)
    gc.collect(1)
    return weakref.ref(cycle)


@pytest.fixture
def clock():
    times = [0.0]
    gc.disable()
    yield times
    gc.enable()


@pytest.fixture
def reclaimer(clock):
    def tick() -> float:
        clock[0] += 0.01
        return clock[0]

    return MemoryReclaimer(tick)


def test_all_garbage_is_collected_once_no_work_was_done_between_two_calls(reclaimer):
    reclaimer.reclaim(7)
    lost = old_garbage()
    reclaimer.reclaim(8)
    assert lost() is not None
    reclaimer.reclaim(8)
    assert lost() is None


def test_the_next_full_collection_waits_many_times_the_duration_of_the_last(reclaimer, clock):
    for _ in range(2):
        reclaimer.reclaim(7)
    lost = old_garbage()
    reclaimer.reclaim(7)
    assert lost() is not None
    clock[0] += 0.01 * FULL_COLLECTION_REST
    reclaimer.reclaim(7)
    assert lost() is None


@pytest.mark.parametrize("grown", [True, False])
def test_under_constant_load_all_garbage_is_collected_once_memory_has_grown(reclaimer, monkeypatch, grown):
    in_use = [100]
    monkeypatch.setattr(memory, "memory_in_use", lambda: in_use[0])
    reclaimer.reclaim(7)
    lost = old_garbage()
    in_use[0] = 126 if grown else 125
    reclaimer.reclaim(8)
    assert (lost() is None) is grown
    lost = old_garbage()
    reclaimer.reclaim(9)
    assert lost() is not None, "no more memory is in use than after the last full collection, or not much more"


def test_memory_in_use_counts_allocated_memory_and_not_freed_memory():
    before = memory_in_use()
    held = bytearray(64 << 20)
    assert memory_in_use() - before >= 64 << 20
    del held
    assert memory_in_use() - before < 1 << 20


def test_frozen_objects_are_not_collected_again():
    before = gc.get_freeze_count()
    held = [[number] for number in range(1_000)]
    memory.freeze_objects()
    assert gc.get_freeze_count() >= before + len(held)


@pytest.mark.parametrize("works", [True, False], ids=["while there is work", "when idle"])
def test_free_memory_is_returned_to_the_system(reclaimer, monkeypatch, works):
    trimmed = []
    monkeypatch.setattr(memory, "malloc_trim", trimmed.append)
    reclaimer.reclaim(7)
    reclaimer.reclaim(8 if works else 7)
    assert trimmed == [0, 0]


def test_lookup_caches_are_cleared_when_idle(reclaimer, monkeypatch):
    cleared = []
    monkeypatch.setattr(memory, "clear_lookup_caches", lambda: cleared.append(True))
    reclaimer.reclaim(7)
    reclaimer.reclaim(8)
    assert cleared == []
    reclaimer.reclaim(8)
    assert cleared == [True]


@pytest.mark.parametrize(
    "between", [0, 20_000], ids=["within a minute", "slowly, while memory is returned again and again"]
)
def test_no_automatic_collection_examines_more_objects_than_it_can_in_some_milliseconds(between):
    """A million pods may come and stay. `between`: how many objects between two calls of the reclaimer; 0: no calls."""
    examined, kept = [], []
    reclaimer = MemoryReclaimer(lambda: 0.0)

    def note(phase, info):
        if phase == "start":
            generation = info["generation"]
            examined.append((generation, sum(len(gc.get_objects(i)) for i in range(generation + 1))))

    before = gc.get_threshold()
    gc.callbacks.append(note)
    gc.freeze()
    try:
        gc.set_threshold(*memory.THRESHOLDS)
        for number in range(700_000):
            kept.append([])
            if between and number < 600_000 and number % between == 0:
                reclaimer.reclaim(number)
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
        gc.unfreeze()
    assert len(kept) == 700_000
    assert {generation for generation, _ in examined} == {0, 1}
    assert max(count for _, count in examined) < 400_000
