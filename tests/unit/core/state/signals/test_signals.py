"""Signals: what a sample, the lack of one, and the passing of time make of the columns."""

from __future__ import annotations

import math

import pytest

from podwright.core.state.signals import SignalDefinition
from podwright.core.state.signals.signals import Sample, Taken
from support.signals.worlds import cache_with, node, samples

LOAD = SignalDefinition(name="load", default=50.0, staleness=60.0)


def of(cache, name="load"):
    """The values by node, and the same from the per-node lookup."""
    column = cache.signals.column(name).tolist()
    found = {node: column[slot] for slot, node in enumerate(cache.table.names) if node}
    assert found == {node: cache.signals.value(name, node) for node in found}
    return found


def test_a_node_has_the_default_until_a_source_says_something_about_it():
    cache, _ = cache_with(LOAD)
    cache.set_node(node("a"))
    cache.set_node(node("b"))
    assert of(cache) == {"a": 50.0, "b": 50.0}
    assert cache.signals.take("load", samples({"a": 7.5})) == Taken(new=1)
    assert of(cache) == {"a": 7.5, "b": 50.0}


def test_a_sample_becomes_the_default_when_it_is_too_old_and_only_at_a_tick():
    cache, time = cache_with(LOAD)
    cache.set_node(node("a"))
    cache.signals.take("load", samples({"a": 7.5}, age=20.0))
    time.now += 40.0
    cache.signals.tick()
    assert of(cache) == {"a": 7.5}
    time.now += 0.5
    assert of(cache) == {"a": 7.5}
    cache.signals.tick()
    assert of(cache) == {"a": 50.0}


def test_a_sample_that_was_too_old_from_the_beginning_is_none():
    cache, _ = cache_with(LOAD)
    cache.set_node(node("a"))
    assert cache.signals.take("load", samples({"a": 7.5}, age=61.0)) == Taken(new=1, old=1)
    assert of(cache) == {"a": 50.0}


@pytest.mark.parametrize("lie", [math.nan, math.inf, -math.inf, -1.0, 100.5])
def test_a_number_out_of_bounds_leaves_the_last_sample(lie):
    cache, _ = cache_with(SignalDefinition(name="load", default=50.0, greatest=100.0))
    cache.set_node(node("a"))
    cache.signals.take("load", samples({"a": 7.5}))
    assert cache.signals.take("load", samples({"a": lie})) == Taken(wrong=1)
    assert of(cache) == {"a": 7.5}


def test_a_sample_from_the_future_counts_as_new_and_one_without_an_age_as_wrong():
    cache, time = cache_with(LOAD)
    cache.set_node(node("a"))
    cache.signals.take("load", {"a": Sample(3.0, -1e9)})
    time.now += 61.0
    cache.signals.tick()
    assert of(cache) == {"a": 50.0}
    assert cache.signals.take("load", {"a": Sample(3.0, math.nan)}) == Taken(wrong=1)


def test_samples_of_unknown_nodes_leave_nothing():
    cache, _ = cache_with(LOAD)
    cache.set_node(node("a"))
    assert cache.signals.take("load", samples({"b": 1.0, "": 2.0})) == Taken(unknown=2)
    cache.set_node(node("b"))
    assert of(cache) == {"a": 50.0, "b": 50.0}


def test_an_older_sample_does_not_replace_a_newer_one():
    cache, _ = cache_with(LOAD)
    cache.set_node(node("a"))
    cache.signals.take("load", samples({"a": 7.5}, age=5.0))
    cache.signals.take("load", samples({"a": 9.5}, age=6.0))
    assert of(cache) == {"a": 7.5}


def test_a_removed_node_takes_its_sample_along():
    cache, _ = cache_with(LOAD)
    cache.set_node(node("a"))
    cache.signals.take("load", samples({"a": 7.5}))
    cache.remove_node("a")
    cache.set_node(node("b"))
    assert of(cache) == {"b": 50.0}


def test_only_rows_whose_value_changes_are_logged():
    cache, time = cache_with(LOAD)
    for name in "abc":
        cache.set_node(node(name))
    cache.signals.take("load", samples({"a": 1.0, "b": 2.0, "c": 50.0}))
    seq, version = cache.signals.changes.seq, cache.version
    cache.signals.take("load", samples({"a": 1.0, "b": 3.0, "c": 50.0}))
    assert list(cache.signals.changes.since(seq)) == [cache.table.slot_of("b")]
    assert cache.version != version
    version = cache.version
    time.now += 1.0
    cache.signals.take("load", samples({"a": 1.0, "b": 3.0, "c": 50.0}))
    assert cache.version == version


def test_a_thousand_nodes_grow_the_columns():
    cache, _ = cache_with(LOAD)
    for number in range(1000):
        cache.set_node(node(f"n{number}"))
        cache.signals.take("load", samples({f"n{number}": float(number % 50)}))
    assert of(cache) == {f"n{number}": float(number % 50) for number in range(1000)}


# Annotations


def test_an_annotation_of_the_node_is_its_sample():
    cache, _ = cache_with(SignalDefinition(name="load", default=50.0, annotation="load"))
    cache.set_node(node("a", load="12.5"))
    assert of(cache) == {"a": 12.5}
    cache.set_node(node("a", load="1e1"))
    assert of(cache) == {"a": 10.0}
    cache.set_node(node("a"))
    assert of(cache) == {"a": 50.0}


@pytest.mark.parametrize(
    "text", ["", "many", "nan", "inf", "-1", "1_0", "0x10", "9" * 65, "1 2", "\N{ARABIC-INDIC DIGIT ONE}x"]
)
def test_an_annotation_that_is_no_number_is_no_sample_and_counts(text):
    cache, _ = cache_with(SignalDefinition(name="load", default=50.0, annotation="load"))
    cache.set_node(node("a", load="12.5"))
    cache.set_node(node("a", load=text))
    assert of(cache) == {"a": 50.0}
    assert cache.signals.coverage("load").malformed == 1
    cache.set_node(node("a", load=text, other="x"))
    assert cache.signals.coverage("load").malformed == 1


def test_an_annotation_with_a_time_grows_old():
    definition = SignalDefinition(name="load", default=50.0, staleness=60.0, annotation="load", time_annotation="at")
    cache, time = cache_with(definition)
    cache.set_node(node("a", load="12.5", at="2027-01-15T08:16:10Z"))  # 30 s ago
    assert of(cache) == {"a": 12.5}
    time.now += 31.0
    cache.signals.tick()
    assert of(cache) == {"a": 50.0}
    cache.set_node(node("a", load="12.5", at="2027-01-15T08:17:11Z"))
    assert of(cache) == {"a": 12.5}
    cache.set_node(node("a", load="12.5", at="soon"))
    assert of(cache) == {"a": 50.0}


def test_fixed_values_are_samples_that_never_grow_old():
    cache, time = cache_with(SignalDefinition(name="load", default=50.0, fixed={"a": 1.5}))
    cache.set_node(node("a"))
    cache.set_node(node("b"))
    time.now += 1e6
    cache.signals.tick()
    assert of(cache) == {"a": 1.5, "b": 50.0}


# Units


@pytest.mark.parametrize(
    ("resource", "unit", "sample", "value"),
    [
        ("cpu", "Percent", 2.5, 25.0),
        ("cpu", "Fraction", 2.5, 0.25),
        ("cpu", "Amount", 2.5, 2.5),
        ("memory", "Percent", 25.0 * 2**30, 25.0),
        ("memory", "Amount", 25.0 * 2**30, 25.0 * 2**30),
    ],
)
def test_amounts_are_converted_to_the_unit_of_the_signal(resource, unit, sample, value):
    definition = SignalDefinition(name="load", resource=resource, unit=unit, amounts=True)
    cache, _ = cache_with(definition)
    cache.set_node(node("a", cpu="10", memory="100Gi"))
    cache.signals.take("load", samples({"a": sample}))
    assert of(cache) == {"a": pytest.approx(value)}


def test_a_share_follows_what_the_node_has_allocatable():
    cache, _ = cache_with(SignalDefinition(name="load", default=50.0, resource="cpu", amounts=True))
    cache.set_node(node("a", cpu="10"))
    cache.signals.take("load", samples({"a": 2.0}))
    cache.set_node(node("a", cpu="4"))
    assert of(cache) == {"a": 50.0}
    cache.set_node(node("a", cpu="0"))
    assert of(cache) == {"a": 50.0}


def test_coverage_is_the_age_of_the_newest_sample_and_the_nodes_that_have_one():
    cache, time = cache_with(LOAD)
    cache.set_node(node("a"))
    cache.set_node(node("b"))
    assert cache.signals.coverage("load")[:2] == (math.inf, 0)
    cache.signals.take("load", samples({"a": 1.0}, age=5.0))
    time.now += 2.0
    assert cache.signals.coverage("load")[:2] == (7.0, 1)
