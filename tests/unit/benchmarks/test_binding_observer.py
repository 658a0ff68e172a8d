"""`settle` decides when a run is over."""

import asyncio

import pytest
from benchmarks import binding_observer
from benchmarks.binding_observer import BindingObserver, settle


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
    """When `settle` returned, and the last change that it reported. `count` and `complete` are functions of the
    time.
    """
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


def test_an_incomplete_run_with_endless_events_ends_after_forty_times_the_patience(clock):
    ended, _ = settled(clock, lambda now: now, lambda now: False)
    assert ended == pytest.approx(60.0, abs=0.2)


def observed(events, expected, **options):
    """The observer after these events of pods."""

    class FakeApi:
        async def get(self, _path):
            return {"metadata": {"resourceVersion": "1"}}

        async def watch(self, path, _version):
            self.path = path
            for kind, raw in events:
                yield {"type": kind, "object": raw}

    observer = BindingObserver(FakeApi(), expected, lambda: None, **options)
    asyncio.run(observer.watch(asyncio.Event()))
    return observer


def test_pods_are_bound_when_the_watch_of_assigned_pods_first_has_them():
    a, other = ({"metadata": {"name": name}, "spec": {"nodeName": "n"}} for name in ("measured-a", "other"))
    found = observed([("ADDED", other), ("ADDED", a), ("MODIFIED", a)], 1)
    assert found.node_of == {"measured-a": "n"}
    assert found.done.is_set()


def test_pods_may_have_to_be_unschedulable_instead():
    def told(name, **condition):
        return {"metadata": {"name": name}, "spec": {}, "status": {"conditions": [condition] * bool(condition)}}

    gated = told("measured-a", type="PodScheduled", reason="SchedulingGated")
    events = [("ADDED", told("measured-a")), ("MODIFIED", gated)]
    assert not observed(events, 1, unschedulable=True).done.is_set()
    events.append(("MODIFIED", told("measured-a", type="PodScheduled", reason="Unschedulable")))
    assert observed(events, 1, unschedulable=True).done.is_set()
