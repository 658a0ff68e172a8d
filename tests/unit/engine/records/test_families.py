"""Families are exposed as prometheus_client exposes its own metrics, with the bounds of buckets as Go's client library
writes them.
"""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from podwright.engine.records import families
from support.steps import run_steps


def exposition(registry):
    lines = generate_latest(registry).decode().splitlines()
    return [re.sub(r'le="(\d+)\.0"', r'le="\1"', line) for line in lines if "_created" not in line]


class Shown:
    """The collector of one family."""

    def __init__(self, family):
        self.family = family

    def collect(self):
        return self.family.snapshot()()


def test_a_histogram_is_exposed_with_cumulative_buckets():
    registry, expected = CollectorRegistry(), CollectorRegistry()
    ours = families.HistogramFamily(families.Histogram("seconds", "What was seen.", ("of",), (1.0, 2.0, 4.0)))
    registry.register(Shown(ours))
    theirs = Histogram("seconds", "What was seen.", ["of"], buckets=[1.0, 2.0, 4.0], registry=expected)
    for value in [0.0, 0.5, 1.0, 1.5, 4.0, 4.1, 100.0]:
        ours.of("it").observe(value)
        theirs.labels("it").observe(value)
    assert exposition(registry) == exposition(expected)


def test_a_counter_is_exposed_with_the_suffix_total():
    registry, expected = CollectorRegistry(), CollectorRegistry()
    ours = families.CounterFamily(families.Counter("seen", "What was seen.", ("by", "of")))
    registry.register(Shown(ours))
    theirs = Counter("seen", "What was seen.", ["by", "of"], registry=expected)
    for number, labels in enumerate([("a", "b"), ("a", "c"), ("a", "b")], 1):
        ours.of(*labels)[0] += number
        theirs.labels(*labels).inc(number)
    assert exposition(registry) == exposition(expected)


def test_a_metric_without_labels_is_exposed_from_the_start():
    registry, expected = CollectorRegistry(), CollectorRegistry()
    registry.register(Shown(families.CounterFamily(families.Counter("seen", "What was seen."))))
    Counter("seen", "What was seen.", registry=expected)
    assert exposition(registry) == exposition(expected)


def test_a_gauge_is_computed_at_each_scrape():
    family = families.GaugeFamily(families.Gauge("size", "How big it is.", ("of",)))
    sizes = {("a",): 1}
    family.computed_by(lambda: sizes)
    registry = CollectorRegistry()
    registry.register(Shown(family))
    assert registry.get_sample_value("size", {"of": "a"}) == 1
    sizes[("b",)] = 2
    assert registry.get_sample_value("size", {"of": "b"}) == 2


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(families.CounterFamily(families.Counter("seen", "", ("by", "of"))), id="counter"),
        pytest.param(families.HistogramFamily(families.Histogram("seen", "", ("by", "of"), (1.0,))), id="histogram"),
    ],
)
def test_a_series_needs_a_value_for_each_label(family):
    with pytest.raises(ValueError, match=r"seen has the labels \('by', 'of'\), got the values \('a',\)"):
        family.of("a")


def test_profiles_beyond_the_most_share_their_series():
    profiles = families.Profiles(most=2)
    counter = families.CounterFamily(families.Counter("attempts", "", ("result", "profile")), profiles)
    histogram = families.HistogramFamily(families.Histogram("seconds", "", ("profile",), (1.0,)), profiles)
    gauge = families.GaugeFamily(families.Gauge("waiting", "", ("profile",)), profiles)
    names = [f"profile-{number}" for number in range(5)]
    for name in names:
        counter.of("scheduled", name)[0] += 1
        histogram.of(name).observe(0.5)
    gauge.computed_by(lambda: dict.fromkeys(((name,) for name in names), 1))

    def shown(family, sample):
        return {
            each.labels["profile"]: each.value
            for metric in family.snapshot()()
            for each in metric.samples
            if each.name == sample
        }

    for family, sample in ((counter, "attempts_total"), (histogram, "seconds_count"), (gauge, "waiting")):
        assert shown(family, sample) == {"profile-0": 1, "profile-1": 1, "other": 3}
    for each in (counter, histogram):
        each.keep_only("profile", {"profile-1"})
    profiles.keep_only({"profile-1"})
    counter.of("scheduled", "profile-4")[0] += 1
    assert shown(counter, "attempts_total") == {"profile-1": 1, "profile-4": 1}


def test_series_of_profiles_that_are_gone_are_dropped():
    counter = families.CounterFamily(families.Counter("attempts", "", ("result", "profile")))
    histogram = families.HistogramFamily(families.Histogram("seconds", "", ("profile",), (1.0,)))
    other = families.CounterFamily(families.Counter("others", "", ("plugin",)))
    for number in range(100):
        counter.of("scheduled", f"profile-{number}")[0] += number
        histogram.of(f"profile-{number}").observe(1.0)
        other.of(f"plugin-{number}")

    def labels(family):
        return {sample.labels.get("profile", "") for each in family.snapshot()() for sample in each.samples}

    for family in (counter, histogram, other):
        family.keep_only("profile", {"profile-7"})
    assert labels(counter) == labels(histogram) == {"profile-7"}
    assert counter.of("scheduled", "profile-7")[0] == 7
    assert sum(len(each.samples) for each in other.snapshot()()) == 100


def test_a_gauge_may_be_computed_in_steps():
    gauge = families.GaugeFamily(families.Gauge("waiting", "What waits.", ("by",)))

    def read():
        yield
        yield
        return {("a",): 3, ("zero",): 0, ("b",): 5}

    gauge.computed_by(read)
    found, steps = run_steps(gauge.snapshot_in_steps())
    assert steps == 2
    for snapshot in (found, gauge.snapshot()):
        (family,) = snapshot()
        assert {sample.labels["by"]: sample.value for sample in family.samples} == {"a": 3, "zero": 0, "b": 5}


@pytest.mark.parametrize(
    ("bound", "text"),
    [(1.0, "1"), (16.0, "16"), (0.005, "0.005"), (1e-05, "1e-05"), (2.2500000000000005e-05, "2.2500000000000005e-05")],
)
def test_bounds_of_buckets_are_written_as_gos_client_library_writes_them(bound, text):
    assert families.bound_text(bound) == text


def test_exponential_bounds_are_multiplied_step_by_step_as_in_go():
    assert families.exponential(0.00001, 1.5, 3) == (1e-05, 1.5000000000000002e-05, 2.2500000000000005e-05)
