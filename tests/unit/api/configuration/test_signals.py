"""Signals that the options define: what a file says, and what is wrong with it."""

from __future__ import annotations

from math import inf

import pytest

from podwright.api.configuration.signals import load_signals
from podwright.core.framework.profile import ProfileError
from podwright.core.state.signals import SignalDefinition

FILE = b"""
signals:
- name: load
  resource: cpu
  default: 50
  interval: 5s
  staleness: 1m30s
  metricsAPI: {}
- name: ioWait
  unit: Fraction
  minimum: -1
  maximum: 1
  lag: 0s
  timeout: 2s
  prometheus:
    url: https://prometheus.monitoring:9090/path
    query: avg by (node) (rate(node_cpu_seconds_total{mode="iowait"}[1m]))
    nodeLabel: instance
    caFile: /ca.crt
    bearerTokenFile: /token
- name: heat
  annotation: {key: example.com/heat, timeKey: example.com/heat-time}
- name: rank
  annotation: {key: example.com/rank}
- name: fixed
  values: {a: 1, b: 2.5}
"""


def test_a_file_defines_signals():
    found = load_signals(FILE)
    assert found["load"].definition == SignalDefinition(
        name="load", default=50.0, staleness=90.0, lag=60.0, resource="cpu", amounts=True
    )
    assert (found["load"].interval, found["load"].timeout) == (5.0, 10.0)
    wait = found["ioWait"]
    assert wait.definition == SignalDefinition(
        name="ioWait", staleness=120.0, lag=0.0, unit="Fraction", least=-1.0, greatest=1.0
    )
    assert (wait.interval, wait.timeout, wait.prometheus.node_label) == (15.0, 2.0, "instance")
    heat = found["heat"].definition
    assert (heat.annotation, heat.time_annotation, heat.staleness) == (
        "example.com/heat",
        "example.com/heat-time",
        120.0,
    )
    assert found["rank"].definition.staleness == inf
    assert found["fixed"].definition.fixed == {"a": 1.0, "b": 2.5}


@pytest.mark.parametrize(
    ("fields", "mean", "default"),
    [
        ("resource: cpu", True, 0.0),
        ("resource: cpu, default: 0", False, 0.0),
        ("resource: cpu, default: 80", False, 80.0),
        ("unit: Percent", False, 0.0),
    ],
)
def test_nodes_without_a_number_count_as_the_mean_of_the_others_unless_there_is_a_default(fields, mean, default):
    found = load_signals(f"signals: [{{name: load, annotation: {{key: example.com/load}}, {fields}}}]".encode())
    assert (found["load"].definition.mean_if_unknown, found["load"].definition.default) == (mean, default)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("name: a", "signals[0]: needs exactly one of metricsAPI, prometheus, annotation and values"),
        ("name: a, values: {}, annotation: {key: b}", "signals[0]: needs exactly one of"),
        ("values: {}", "signals[0].name: a value is required"),
        ("name: io-wait, values: {}", "signals[0].name: "),
        ("name: in, values: {}", "signals[0].name: 'in' is a reserved word of CEL"),
        ("name: a, metricsAPI: {}", "signals[0].resource: is required with metricsAPI"),
        ("name: a, metricsAPI: {}, resource: nvidia.com/gpu", "signals[0].resource: must be cpu or memory"),
        ("name: a, values: {}, unit: Parts", "signals[0].unit"),
        ("name: a, values: {}, default: .nan", "signals[0].default"),
        ("name: a, values: {}, minimum: 2, maximum: 1", "signals[0].maximum: is less than the minimum"),
        ("name: a, values: {}, interval: 5s", "signals[0].interval: is only for metricsAPI and prometheus"),
        ("name: a, annotation: {key: b}, staleness: 5s", "signals[0].staleness: needs a source that says"),
        ("name: a, annotation: {}", "signals[0].annotation.key"),
        ("name: a, metricsAPI: {}, resource: cpu, interval: 10ms", "signals[0].interval: must be from 1s to 1h"),
        ("name: a, metricsAPI: {}, resource: cpu, staleness: 2h", "signals[0].staleness: must be from 1s to 1h"),
        ("name: a, metricsAPI: {}, resource: cpu, lag: soon", "signals[0].lag: expected a duration"),
        ("name: a, prometheus: {query: up}", "signals[0].prometheus.url: a value is required"),
        ("name: a, prometheus: {url: 'http://p'}", "signals[0].prometheus.query: a value is required"),
        ("name: a, prometheus: {url: 'ftp://p', query: up}", "signals[0].prometheus.url: expected a URL"),
        ("name: a, prometheus: {url: 'http://p:x', query: up}", "signals[0].prometheus.url: expected a URL"),
        ("name: a, prometheus: {url: 'https://u:pw@p', query: up}", "signals[0].prometheus.url: must not have a user"),
        ("name: a, prometheus: {url: 'https://p/?a=b', query: up}", "signals[0].prometheus.url: must have no query"),
        ("name: a, prometheus: {url: 'http://p', query: up, bearerTokenFile: /t}", "bearerTokenFile: is only sent over https"),
        ("name: a, prometheus: {url: 'http://p', query: up, caFile: /t}", "caFile: is only used with https"),
        ("name: a, values: {}, query: up", "signals[0].query"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_path(entry, problem):
    with pytest.raises(ProfileError) as raised:
        load_signals(f"signals: [{{{entry}}}]".encode())
    assert problem in str(raised.value)


def test_a_name_is_given_once_and_there_are_not_too_many():
    with pytest.raises(ProfileError, match=r"signals\[1\].name: 'a' is given twice"):
        load_signals(b"signals: [{name: a, values: {}}, {name: a, values: {}}]")
    many = ", ".join(f"{{name: a{i}, values: {{}}}}" for i in range(33))
    with pytest.raises(ProfileError, match="signals"):
        load_signals(f"signals: [{many}]".encode())
