"""Pods placed since the last sample: which ones count, for how long, and that nothing is counted twice."""

from __future__ import annotations

import random

import pytest

from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.state.signals import SignalDefinition
from podwright.core.state.signals.placed_pods import CHUNK, MAX_AMOUNT
from podwright.core.state.transaction import CacheTransaction
from support.signals.worlds import WALL, cache_with, node, pod, samples

LOAD = SignalDefinition(name="load", resource=CPU, staleness=60.0, lag=30.0)


class Reader:
    """Somebody who reads what was placed."""


@pytest.fixture
def reader():
    return Reader()


def tracked(reader, *definitions, nodes="ab"):
    cache, time = cache_with(*(definitions or (LOAD,)))
    for name in nodes:
        cache.set_node(node(name))
    for definition in definitions or (LOAD,):
        cache.signals.track(definition.name, reader, cache.nodes.values())
    return cache, time


def placed(cache, name="load"):
    column = cache.signals.placed(name).tolist()
    return {cache.table.names[slot]: amount for slot, amount in enumerate(column) if cache.table.names[slot]}


def test_pods_count_from_their_placement_until_a_sample_shows_them(reader):
    cache, time = tracked(reader)
    cache.signals.take("load", samples({"a": 10.0, "b": 10.0}))
    time.now += 1.0
    cache.assume(pod("p", "2"), "a")
    assert placed(cache) == {"a": 2000, "b": 0}
    time.now += 29.0
    cache.signals.take("load", samples({"a": 20.0}))
    assert placed(cache) == {"a": 2000, "b": 0}, "its use may not show within the lag"
    time.now += 2.0
    cache.signals.take("load", samples({"b": 20.0}))
    assert placed(cache) == {"a": 2000, "b": 0}, "that was a sample of another node"
    cache.signals.take("load", samples({"a": 30.0}))
    assert placed(cache) == {"a": 0, "b": 0}


def test_the_time_of_the_sample_counts_not_that_of_the_answer(reader):
    cache, time = tracked(reader)
    cache.assume(pod("p", "2"), "a")
    time.now += 31.0
    cache.signals.take("load", samples({"a": 10.0}, age=2.0))
    assert placed(cache)["a"] == 2000
    cache.signals.take("load", samples({"a": 10.0}, age=0.5))
    assert placed(cache)["a"] == 0


def test_pods_that_were_placed_while_the_source_took_long_to_answer_count(reader):
    cache, time = tracked(reader)
    asked = time.now
    time.now += 5.0
    cache.assume(pod("p", "2"), "a")
    time.now += 40.0
    cache.signals.take("load", samples({"a": 10.0}, age=-1.0), asked)
    assert placed(cache)["a"] == 2000


def test_without_samples_pods_count_for_the_staleness_and_the_lag(reader):
    cache, time = tracked(reader)
    cache.assume(pod("p"), "a")
    time.now += 89.75
    cache.signals.tick()
    assert placed(cache)["a"] == 1000
    time.now += 0.5
    cache.signals.tick()
    assert placed(cache)["a"] == 0


def test_pods_that_leave_no_longer_count(reader):
    cache, _ = tracked(reader)
    for name in "pqr":
        cache.assume(pod(name), "a")
    cache.forget("p")
    cache.set_pod(pod("q", node_name="a"))
    cache.remove_pod("r")
    assert placed(cache) == {"a": 1000, "b": 0}


def test_a_pod_that_the_watch_confirms_counts_from_its_placement_also_if_its_requests_differ(reader):
    cache, time = tracked(reader)
    cache.assume(pod("p", "1"), "a")
    time.now += 20.0
    cache.set_pod(pod("p", "3", node_name="a"))
    assert placed(cache)["a"] == 3000
    time.now += 11.0
    cache.signals.take("load", samples({"a": 10.0}))
    assert placed(cache)["a"] == 0


def test_an_old_pod_that_changes_does_not_count_anew(reader):
    cache, time = tracked(reader)
    cache.assume(pod("p", "1"), "a")
    time.now += 100.0
    cache.signals.tick()
    cache.set_pod(pod("p", "3", node_name="a"))
    assert placed(cache)["a"] == 0
    cache.remove_node("a")
    cache.set_node(node("a"))
    assert placed(cache)["a"] == 0


def test_a_rolled_back_transaction_changes_nothing(reader):
    cache, time = tracked(reader)
    cache.assume(pod("old"), "a")
    time.now += 100.0
    cache.signals.tick()
    cache.assume(pod("new"), "a")
    time.now += 5.0
    with CacheTransaction(cache) as transaction:
        transaction.remove([cache.nodes["a"].pods["old"], cache.nodes["a"].pods["new"]])
        transaction.assume(pod("tried", "4"), "b")
        assert placed(cache) == {"a": 0, "b": 4000}
    assert placed(cache) == {"a": 1000, "b": 0}
    time.now += 26.0
    cache.signals.take("load", samples({"a": 1.0}))
    assert placed(cache) == {"a": 0, "b": 0}, "the pod was not placed again"


def test_pods_that_were_there_before_somebody_asks_count_by_their_start():
    cache, _ = cache_with(LOAD)
    cache.set_node(node("a"))
    assert WALL + 1000.0 == 1_800_001_000.0
    cache.set_pod(pod("recent", node_name="a", start="2027-01-15T08:16:00Z"))  # 40 s ago
    cache.set_pod(pod("ancient", node_name="a", start="2027-01-14T08:16:00Z"))
    cache.assume(pod("assumed", "500m"), "a")
    reader = Reader()
    cache.signals.track("load", reader, cache.nodes.values())
    assert placed(cache) == {"a": 1500}
    cache.signals.take("load", samples({"a": 5.0}))
    assert placed(cache) == {"a": 500}


def test_requests_are_those_of_scoring_and_bounded(reader):
    cache, _ = tracked(reader, LOAD, SignalDefinition(name="mem", resource=MEMORY, staleness=60.0))
    cache.assume(pod("best-effort", "0"), "a")
    assert placed(cache, "mem")["a"] == 200 * 2**20
    cache.set_pod(pod("huge", "9000000000000", node_name="a"))
    cache.set_pod(pod("huger", "9000000000000", node_name="a"))
    assert placed(cache)["a"] == 2 * MAX_AMOUNT
    cache.remove_pod("huge")
    cache.remove_pod("huger")
    assert placed(cache)["a"] == 0


def test_when_nobody_reads_any_more_nothing_is_kept():
    cache, _ = cache_with(LOAD)
    cache.set_node(node("a"))
    reader = Reader()
    cache.signals.track("load", reader, cache.nodes.values())
    cache.assume(pod("p"), "a")
    assert cache.signals.tracked == 1
    del reader
    cache.signals.tick()
    assert cache.signals.tracked == 0
    cache.assume(pod("q"), "a")
    assert cache.signals.tracked == 0


def test_dry_runs_take_no_memory(reader):
    """Pods are taken off and put back, and others are tried out."""
    cache, time = tracked(reader)
    pods = [pod(f"p{number}", "1m") for number in range(200)]
    for each in pods:
        cache.assume(each, "a")
    for attempt in range(100):
        with CacheTransaction(cache) as transaction:
            transaction.remove(pods)
            for number in range(100):
                transaction.assume(pod(f"tried{number}"), "b")
        assert cache.signals.tracked_rows <= 300
        time.now += 0.5
        if attempt % 10 == 9:
            cache.signals.tick()
            assert cache.signals.tracked_rows == 200
    assert placed(cache) == {"a": 200, "b": 0}


def test_rows_of_pods_that_are_gone_are_dropped_once_none_follows_that_is_not(reader):
    cache, _ = tracked(reader)
    for number in range(2 * CHUNK + 10):
        cache.assume(pod(f"p{number}", "1m"), "a")
    for number in range(5, 2 * CHUNK + 5):
        cache.forget(f"p{number}")
    cache.signals.tick()
    assert cache.signals.tracked_rows == 2 * CHUNK + 10
    for number in range(2 * CHUNK + 5, 2 * CHUNK + 10):
        cache.forget(f"p{number}")
    cache.signals.tick()
    assert cache.signals.tracked_rows == 5
    cache.assume(pod("next", "1m"), "b")
    assert placed(cache) == {"a": 5, "b": 1}


def test_a_pod_that_comes_back_with_other_requests_on_another_node_counts_there_from_its_placement(reader):
    cache, time = tracked(reader)
    cache.assume(pod("p", "1"), "a")
    time.now += 20.0
    cache.forget("p")
    cache.assume(pod("p", "3"), "b")
    assert placed(cache) == {"a": 0, "b": 3000}
    assert cache.signals.tracked_rows == 1
    time.now += 11.0
    cache.signals.take("load", samples({"b": 10.0}))
    assert placed(cache) == {"a": 0, "b": 0}


def test_memory_comes_back_after_a_burst(reader):
    cache, time = tracked(reader)
    for number in range(3 * CHUNK):
        cache.assume(pod(f"p{number}", "1m"), "ab"[number % 2])
    assert cache.signals.tracked == 3 * CHUNK
    assert placed(cache) == {"a": 3 * CHUNK // 2, "b": 3 * CHUNK // 2}
    time.now += 91.0
    cache.signals.tick()
    assert cache.signals.tracked == 0
    for number in range(3 * CHUNK):
        cache.forget(f"p{number}")
    assert placed(cache) == {"a": 0, "b": 0}


@pytest.mark.parametrize("seed", range(5))
def test_what_is_counted_equals_what_is_counted_anew(reader, seed):
    source = random.Random(seed)
    cache, time = tracked(reader, nodes="abc")
    known = {}
    cutoffs = dict.fromkeys("abc", time.now - 90.0)
    for number in range(400):
        kind = source.randrange(8)
        name = source.choice("abc")
        if kind < 4:
            known[f"p{number}"] = (name, time.now, source.randrange(1, 4))
            cache.assume(pod(f"p{number}", str(known[f"p{number}"][2])), name)
        elif kind == 4 and known:
            cache.remove_pod(gone := source.choice([*known]))
            del known[gone]
        elif kind == 5:
            cache.signals.take("load", samples({name: 1.0}))
            cutoffs[name] = time.now - 30.0
        elif kind == 6:
            with CacheTransaction(cache) as transaction:
                on = cache.nodes.get(name)
                if on is not None and on.pods:
                    transaction.remove(source.sample([*on.pods.values()], 1))
                transaction.assume(pod("tried"), source.choice("abc"))
        else:
            time.now += source.choice((0.5, 5.0, 20.0))
            cache.signals.tick()
        cutoffs = {each: max(cutoff, time.now - 90.0) for each, cutoff in cutoffs.items()}
        if kind > 4:
            cache.signals.tick()
        assert placed(cache) == {
            each: sum(1000 * cpu for on, at, cpu in known.values() if on == each and at > cutoffs[each])
            for each in "abc"
        }
