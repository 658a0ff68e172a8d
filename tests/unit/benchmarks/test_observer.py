"""When a run counts as over."""

import asyncio

import pytest
from benchmarks import observer
from benchmarks.observer import settle


@pytest.fixture
def clock(monkeypatch):
    """Virtual time: sleeping is all that takes any."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

        async def sleep(self, seconds):
            self.now += seconds

    made = Clock()
    monkeypatch.setattr(observer.time, "monotonic", made.monotonic)
    monkeypatch.setattr(observer.asyncio, "sleep", made.sleep)
    return made


def settled(clock, count, complete):
    """When it was over and when it last moved; `count` and `complete` are functions of the time."""
    moves = []

    async def counted():
        return count(clock.now)

    async def completed():
        return complete(clock.now)

    asyncio.run(settle(counted, completed, lambda: moves.append(clock.now), 1.5))
    return clock.now, moves[-1]


def test_what_is_complete_is_over_soon_after_its_last_event(clock):
    over, moved = settled(clock, lambda now: min(now, 2.0), lambda now: now >= 2.0)
    assert moved == pytest.approx(2.0, abs=0.11)
    assert over == pytest.approx(2.5, abs=0.2)


def test_what_is_never_complete_is_over_when_nothing_has_moved_for_the_patience(clock):
    over, moved = settled(clock, lambda now: min(now, 2.0), lambda now: False)
    assert moved == pytest.approx(2.0, abs=0.11)
    assert over == pytest.approx(3.5, abs=0.2)


def test_what_always_moves_is_over_when_it_is_complete(clock):
    over, _ = settled(clock, lambda now: now, lambda now: now >= 2.0)
    assert 2.0 <= over <= 2.0 + 1.5 + 0.2


def test_what_always_moves_and_is_never_complete_is_over_in_the_end(clock):
    over, _ = settled(clock, lambda now: now, lambda now: False)
    assert over == pytest.approx(15.0, abs=0.2)
