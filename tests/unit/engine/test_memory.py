"""Memory goes back when nothing is to do, and only then is there a pause for it."""

from __future__ import annotations

import gc
import weakref

import pytest

from podwright.engine import memory as tuning
from podwright.engine.memory import REST, MemoryReclaimer, memory_in_use


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.me = self


def old_garbage() -> weakref.ref[Knot]:
    """A cycle that has survived looks at the young."""
    knot = Knot()
    gc.collect(1)
    gc.collect(1)
    return weakref.ref(knot)


@pytest.fixture
def clock():
    times = [0.0]
    gc.disable()
    yield times
    gc.enable()


@pytest.fixture
def thrift(clock):
    def tick() -> float:
        clock[0] += 0.01
        return clock[0]

    return MemoryReclaimer(tick)


def test_all_garbage_goes_once_no_work_was_done_for_a_while(thrift):
    thrift.give_back(7)
    lost = old_garbage()
    thrift.give_back(8)
    assert lost() is not None
    thrift.give_back(8)
    assert lost() is None


def test_a_pause_is_followed_by_a_rest_that_is_many_times_as_long(thrift, clock):
    for _ in range(2):
        thrift.give_back(7)
    lost = old_garbage()
    thrift.give_back(7)
    assert lost() is not None
    clock[0] += 0.01 * REST
    thrift.give_back(7)
    assert lost() is None


def test_memory_in_use_counts_what_is_held_and_not_what_was_given_back():
    before = memory_in_use()
    held = bytearray(64 << 20)
    assert memory_in_use() - before >= 64 << 20
    del held
    assert memory_in_use() - before < 1 << 20


def test_caches_that_are_complete_are_not_looked_at_again():
    before = gc.get_freeze_count()
    held = [[number] for number in range(1_000)]
    tuning.settle()
    try:
        assert gc.get_freeze_count() >= before + len(held)
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("works", [True, False], ids=["while there is work", "when nothing is to do"])
def test_free_memory_goes_back_to_the_system(thrift, monkeypatch, works):
    given_back = []
    monkeypatch.setattr(tuning, "_trim", given_back.append)
    thrift.give_back(7)
    thrift.give_back(8 if works else 7)
    assert given_back == [0, 0]


def test_lookups_are_forgotten_when_nothing_is_to_do(thrift, monkeypatch):
    forgotten = []
    monkeypatch.setattr(tuning, "_forget_lookups", lambda: forgotten.append(True))
    thrift.give_back(7)
    thrift.give_back(8)
    assert forgotten == []
    thrift.give_back(8)
    assert forgotten == [True]
