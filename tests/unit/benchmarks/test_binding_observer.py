"""`settle` decides when a run is over."""

import asyncio

import pytest
from benchmarks import binding_observer
from benchmarks.binding_observer import settle


@pytest.fixture
def clock(monkeypatch):
    """Virtual time, which advances only during sleeps."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

        async def sleep(self, seconds):
            self.now += seconds

    made = Clock()
    monkeypatch.setattr(binding_observer.time, "monotonic", made.monotonic)
    monkeypatch.setattr(binding_observer.asyncio, "sleep", made.sleep)
    return made


def settled(clock, count, complete):
    """When `settle` returned, and the last change that it reported. `count` and `complete` are functions of the time."""
    changes = []

    async def counted():
        return count(clock.now)

    async def completed():
        return complete(clock.now)

    asyncio.run(settle(counted, completed, lambda: changes.append(clock.now), 1.5))
    return clock.now, changes[-1]


def test_a_complete_run_ends_soon_after_the_last_event(clock):
    ended, changed = settled(clock, lambda now: min(now, 2.0), lambda now: now >= 2.0)
    assert changed == pytest.approx(2.0, abs=0.11)
    assert ended == pytest.approx(2.5, abs=0.2)


def test_an_incomplete_run_ends_when_the_patience_passes_without_a_change(clock):
    ended, changed = settled(clock, lambda now: min(now, 2.0), lambda now: False)
    assert changed == pytest.approx(2.0, abs=0.11)
    assert ended == pytest.approx(3.5, abs=0.2)


def test_a_run_with_endless_events_ends_when_it_is_complete(clock):
    ended, _ = settled(clock, lambda now: now, lambda now: now >= 2.0)
    assert 2.0 <= ended <= 2.0 + 1.5 + 0.2


def test_an_incomplete_run_with_endless_events_ends_after_ten_times_the_patience(clock):
    ended, _ = settled(clock, lambda now: now, lambda now: False)
    assert ended == pytest.approx(15.0, abs=0.2)
