"""Tallies: the terms of one pod, counted together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podwright.core.objects.pod import parse_pod
from podwright.core.state.podindex import PodSelector, pod_columns
from podwright.core.state.podindex.label_rows import LabelRows
from podwright.core.state.podindex.pod_columns import SELECTORS_AT_ONCE
from support.costs.call_counts import calls_of
from support.objects.builders import make_namespace, make_node, make_pod
from support.plugins.kit import make_cache, pending

ZONE = "zone"
NAMESPACES = ("default", "other", "unknown")
SCOPES = (
    {},
    {"namespaces": ["other"]},
    {"namespaceSelector": {}},
    {"namespaceSelector": {"matchLabels": {"team": "x"}}},
    {
        "namespaces": ["unknown"],
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    },
)
SELECTORS = (
    None,
    {},
    {"matchLabels": {"app": "a"}},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "Exists"}, {"key": "app", "operator": "NotIn", "values": ["b"]}]},
)


def cluster(pods):
    cache = make_cache([make_node(f"n{i}", labels={ZONE: f"z{i % 2}"}) for i in range(4)])
    cache.set_object("Namespace", make_namespace("default"))
    cache.set_object("Namespace", make_namespace("other", {"team": "x"}))
    for number, (namespace, labels, node, terminating) in enumerate(pods):
        metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating else {}
        cache.set_pod(
            parse_pod(make_pod(f"p{number}", namespace=namespace, labels=labels, node=f"n{node}", metadata=metadata))
        )
    return cache


def terms_of(choices, key=ZONE):
    terms = [{"topologyKey": key, "labelSelector": s, **scope} for s, scope in choices]
    rules = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": number % 100 + 1, "podAffinityTerm": term} for number, term in enumerate(terms)
        ]
    }
    return pending(spec={"affinity": {"podAffinity": rules}}).pod_affinity.preferred


@given(
    pods=st.lists(
        st.tuples(
            st.sampled_from(NAMESPACES),
            st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"])),
            st.integers(0, 3),
            st.booleans(),
        ),
        max_size=12,
    ),
    choices=st.lists(st.tuples(st.sampled_from(SELECTORS), st.sampled_from(SCOPES)), min_size=1, max_size=40),
)
def test_a_tally_equals_the_sum_over_pods_and_terms(pods, choices):
    cache = cluster(pods)
    index = cache.pods_index
    terms = terms_of(choices)
    placed = [pod for info in cache.nodes.values() for pod in info.pods.values()]

    def weight(pod):
        return sum(
            term.weight for term in terms if term.selector.matches(pod.labels) and index.applies_to(term, pod.namespace)
        )

    tally = index.tally((term, term.weight) for term in terms)
    never_placed = pending(name="new", namespace="other", labels={"tier": "b"})
    assert [tally.of(pod) for pod in (*placed, never_placed)] == [weight(pod) for pod in (*placed, never_placed)]
    ((sums, _),) = index.tallies((term, term.weight) for term in terms).values()
    zones = cache.table.label_values(ZONE)
    expected = dict.fromkeys(zones, 0)
    for info in cache.nodes.values():
        expected[info.present.labels[ZONE]] += sum(map(weight, info.pods.values()))
    assert {zone: int(sums.values[number]) for zone, number in zones.items()} == expected


def test_keys_that_no_node_has_are_left_out():
    cache = cluster([])
    assert cache.pods_index.tallies((term, 1) for term in terms_of([({}, {})], key="nowhere")) == {}


def test_labels_of_namespaces_are_read_again_after_they_change():
    cache = cluster([("default", {"app": "a"}, 0, False)])
    (pod,) = cache.nodes["n0"].pods.values()
    (term,) = terms_of([({}, {"namespaceSelector": {"matchLabels": {"team": "x"}}})])
    assert cache.pods_index.tally([(term, 1)]).of(pod) == 0
    cache.set_object("Namespace", make_namespace("default", {"team": "x"}))
    assert cache.pods_index.tally([(term, 1)]).of(pod) == 1


def test_rows_of_classes_that_nobody_uses_are_dropped(monkeypatch):
    monkeypatch.setattr(pod_columns, "UNUSED_CHANGES", 10)
    built = []
    append = LabelRows.append
    monkeypatch.setattr(LabelRows, "append", lambda rows, labels: built.append(dict(labels)) or append(rows, labels))
    cache = cluster([("default", {"app": "a"}, 0, False)])
    terms = terms_of([({}, {})])
    cache.pods_index.tally((term, 1) for term in terms)
    assert built == [{"app": "a"}, {}]  # the pod's labels and those of its namespace
    built.clear()
    for number in range(100):
        cache.set_pod(parse_pod(make_pod("same", labels={"id": str(number)}, node="n0")))
    assert 0 < len(built) < 20
    cache.pods_index.tally((term, 1) for term in terms)
    (sums, tally) = cache.pods_index.tallies((term, 1) for term in terms)[ZONE]
    assert (sums.total, tally.total) == (2, 1)


@pytest.mark.parametrize("pods", [100, 400])
def test_the_calls_of_a_tally_do_not_depend_on_the_pods(pods):
    cache = cluster([("default", {"app": f"a{i}"}, i % 4, False) for i in range(pods)])
    terms = terms_of(
        [({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"x{n}"]}]}, {}) for n in range(50)]
    )
    cache.pods_index.tally((term, 1) for term in terms)

    def tally(some):
        return calls_of(lambda: cache.pods_index.tally((term, 1) for term in some))

    assert tally(terms) <= 50 * 60
    assert tally(terms) - tally(terms[:25]) <= 25 * 60


def test_an_attempt_may_pause_while_very_many_selectors_are_evaluated():
    cache = cluster([("default", {"app": "a"}, 0, False)])
    terms = terms_of([({"matchLabels": {f"key-{number}": "x"}}, {}) for number in range(4 * SELECTORS_AT_ONCE)])
    cache.pods_index.tally((term, 1) for term in terms)
    paused = []
    cache.deadline.check = lambda: paused.append(1)
    cache.pods_index.tally((term, 1) for term in terms)
    assert len(paused) == 4
    cache.pods_index.counter(tuple(PodSelector.of_term(term) for term in terms))
    assert len(paused) == 8


def test_sums_of_large_weights_do_not_overflow():
    cache = cluster([("default", {"app": "a"}, 0, False)])
    terms = terms_of(
        [({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"x{n}"]}]}, {}) for n in range(50)]
    )
    ((sums, _),) = cache.pods_index.tallies((term, 1 << 30) for term in terms).values()
    assert (sums.total, sums.values.dtype) == (50 << 30, np.int64)
