"""Entries of answers about nodes, valid and malformed."""

from __future__ import annotations

import math

import pytest

from podwright.core.state.signals.signals import Sample
from podwright.kube.node_signals.answers import Said, SourceAnswer, metrics_reader, prometheus_reader

NOW = 1_800_000_000.0


def series(value="1.5", time=NOW - 3.0, **labels):
    return {"metric": {"node": "a", **labels}, "value": [time, value]}


def usage(name="a", timestamp="2027-01-15T07:59:57Z", **amounts):
    return {"metadata": {"name": name}, "timestamp": timestamp, "window": "20s", "usage": amounts}


def test_a_series_says_something_about_the_node_in_its_label():
    assert prometheus_reader("node")(series(), NOW) == Said("a", Sample(1.5, 3.0))
    assert prometheus_reader("instance")(series(instance="b"), NOW) == Said("b", Sample(1.5, 3.0))
    assert math.isnan(prometheus_reader("node")(series("NaN"), NOW).sample.value)
    assert prometheus_reader("node")(series("+Inf"), NOW).sample.value == math.inf


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"metric": [], "value": [1, "1"]},
        {"metric": {"node": 1}, "value": [1, "1"]},
        {"metric": {"other": "a"}, "value": [1, "1"]},
        {"metric": {"node": "a"}, "values": [[1, "1"]]},
        {"metric": {"node": "a"}, "value": [1]},
        {"metric": {"node": "a"}, "value": [True, "1"]},
        {"metric": {"node": "a"}, "value": ["1", "1"]},
        {"metric": {"node": "a"}, "value": [1, 1]},
        {"metric": {"node": "a"}, "value": [1, "many"]},
        {"metric": {"node": "a"}, "value": "1"},
    ],
)
def test_a_series_without_a_node_a_number_or_a_time_makes_no_sense(entry):
    assert prometheus_reader("node")(entry, NOW) is None


def test_node_metrics_are_cores_and_bytes():
    assert metrics_reader("cpu")(usage(cpu="2500m"), NOW) == Said("a", Sample(2.5, 3.0))
    assert metrics_reader("cpu")(usage(cpu="123456789n"), NOW) == Said("a", Sample(0.123456789, 3.0))
    assert metrics_reader("memory")(usage(memory="2Ki"), NOW) == Said("a", Sample(2048.0, 3.0))


@pytest.mark.parametrize(
    "entry",
    [
        {},
        usage(),
        usage(cpu="many"),
        usage(cpu={}),
        usage(cpu="1", timestamp=None),
        usage(cpu="1", timestamp="soon"),
        usage(cpu="1", timestamp=5),
        usage(name=None, cpu="1"),
        {**usage(cpu="1"), "usage": []},
        {**usage(cpu="1"), "metadata": "a"},
    ],
)
def test_node_metrics_without_a_node_an_amount_or_a_time_make_no_sense(entry):
    assert metrics_reader("cpu")(entry, NOW) is None


def test_a_node_that_is_there_twice_counts_with_neither():
    answer = SourceAnswer()
    for name in ("a", "b", "a", "a"):
        answer.add(Said(name, Sample(1.0)))
    answer.add(None)
    assert (answer.samples, answer.twice) == ({"b": Sample(1.0)}, {"a"})
    assert (answer.entries, answer.malformed) == (5, 1)
