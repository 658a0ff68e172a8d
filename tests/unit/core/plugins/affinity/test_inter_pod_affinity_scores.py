"""The scores of InterPodAffinity."""

import numpy as np
import pytest

from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.framework.status import SKIP
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.plugins.affinity.inter_pod_affinity import InterPodAffinity
from support.plugins.kit import build, make_cache, pending
from support.plugins.pod_affinity import HOSTNAME, NODES, away, near, rules, running, term


def scores(plugin, pod, only=None):
    """Normalised scores by node name; None for Skip."""
    cache, state = plugin.handle.cache, CycleState()
    slots = [info.slot for name, info in cache.nodes.items() if only is None or name in only]
    feasible = Feasible(cache.table, np.array(slots, np.intp))
    if plugin.pre_score(state, pod, feasible) is SKIP:
        return None
    raw = plugin.score_all(state, pod, feasible)
    assert raw.tolist() == [plugin.score(state, pod, cache.node_at(slot)) for slot in slots]
    normal = np.broadcast_to(plugin.normalize(state, pod, raw, feasible), len(slots)).tolist()
    return {cache.table.names[slot]: score for slot, score in zip(slots, normal, strict=True)}


@pytest.mark.parametrize(
    "placed, spec, args, expected",
    [
        pytest.param(
            [running("p", "a1")],
            near(term(), weight=10),
            None,
            {"a1": 100, "a2": 100, "b1": 0, "none": 0},
            id="its preference for a zone",
        ),
        pytest.param(
            [running("p", "a1")],
            away(term(HOSTNAME), weight=10),
            None,
            {"a1": 0, "a2": 100, "b1": 100, "none": 100},
            id="its preference against a node",
        ),
        pytest.param(
            [running("p", "a1"), running("q", "a2"), running("r", "b1")],
            near(term(), weight=10),
            None,
            {"a1": 100, "a2": 100, "b1": 50, "none": 0},
            id="each matching pod counts",
        ),
        pytest.param(
            [running("p", "a1"), running("q", "b1", "y"), running("r", "b1", "y"), running("s", "none", "y")],
            {"affinity": {"podAffinity": rules([term()], 6), "podAntiAffinity": rules([term(HOSTNAME, "y")], 1)}},
            None,
            {"a1": 100, "a2": 100, "b1": 0, "none": 12},
            id="preferences for and against are summed, and the result is truncated",
        ),
        pytest.param(
            [running("p", "a1", "y", spec=near(term(), weight=10))],
            {},
            None,
            {"a1": 100, "a2": 100, "b1": 0, "none": 0},
            id="a placed pod's preference for it",
        ),
        pytest.param(
            [running("p", "a1", "y", spec=away(term(), weight=10))],
            {},
            None,
            {"a1": 0, "a2": 0, "b1": 100, "none": 100},
            id="a placed pod's preference against it",
        ),
        pytest.param(
            [running("p", "a1", "y", spec=near(term()))],
            {},
            None,
            {"a1": 100, "a2": 100, "b1": 0, "none": 0},
            id="the required affinity of a placed pod weighs 1",
        ),
        pytest.param(
            [running("p", "a1", "y", spec=near(term())), running("q", "b1", "y", spec=near(term(), weight=10))],
            {},
            {"hardPodAffinityWeight": 5},
            {"a1": 50, "a2": 50, "b1": 100, "none": 0},
            id="required affinity of a placed pod weighs hardPodAffinityWeight",
        ),
        pytest.param(
            [running("p", "a1", "y", spec=near(term()))],
            {},
            {"hardPodAffinityWeight": 0},
            None,
            id="required affinity of a placed pod can weigh nothing",
        ),
        pytest.param(
            [running("p", "a1", "y", spec=away(term(app="z")))],
            {},
            None,
            None,
            id="required anti-affinity does not score",
        ),
        pytest.param([running("p", "none")], near(term(), weight=1), None, None, id="a matching pod in no zone"),
        pytest.param(
            [running("p", "a1", "y", spec=near(term(), weight=10))],
            {},
            {"ignorePreferredTermsOfExistingPods": True},
            None,
            id="preferences of placed pods are ignored",
        ),
        pytest.param(
            [running("p", "a1", "y", spec=near(term(), weight=10))],
            near(term(app="nobody"), weight=1),
            {"ignorePreferredTermsOfExistingPods": True},
            {"a1": 100, "a2": 100, "b1": 0, "none": 0},
            id="preferences of placed pods count for a pod with own preferences",
        ),
        pytest.param(
            [running("p", "a1"), running("q", "a2", "y", spec=away(term(), weight=10))],
            near(term(), weight=10),
            None,
            {"a1": 0, "a2": 0, "b1": 0, "none": 0},
            id="preferences that cancel out do not skip the plugin",
        ),
    ],
)
def test_scores(placed, spec, args, expected):
    plugin = build(InterPodAffinity, make_cache(NODES, placed), args)
    assert scores(plugin, pending(labels={"app": "x"}, spec=spec)) == expected


def test_the_score_skips_a_plain_pod_among_plain_pods():
    plugin = build(InterPodAffinity, make_cache(NODES, [running("p", "a1")]))
    assert scores(plugin, pending(labels={"app": "x"})) is None


def test_scores_are_normalised_over_feasible_nodes():
    placed = [running("p", "a1"), running("q", "b1"), running("r", "b1")]
    plugin = build(InterPodAffinity, make_cache(NODES, placed))
    pod = pending(spec=near(term(), weight=10))
    assert scores(plugin, pod) == {"a1": 50, "a2": 50, "b1": 100, "none": 0}
    assert scores(plugin, pod, {"a1", "b1"}) == {"a1": 0, "b1": 100}
    assert scores(plugin, pod, {"a1", "a2"}) == {"a1": 0, "a2": 0}


def test_the_weights_of_many_pods_may_sum_beyond_32_bits():
    # An object of 1.5 MiB has room for 25,000 short terms, so 860 such pods in a domain are enough.
    placed = [
        running("p", "a1", "y", spec=near(term(), weight=100)),
        running("q", "b1", "y", spec=near(term(), weight=1)),
    ]
    plugin = build(InterPodAffinity, make_cache(NODES, placed))
    ((group,),) = [
        groups for groups in plugin.handle.cache.pods_index.matching_terms(pending(labels={"app": "x"})) if groups
    ]
    group.add(plugin.handle.cache.nodes["a1"].slot, 860 * 25_000 * 100)
    assert scores(plugin, pending(labels={"app": "x"})) == {"a1": 100, "a2": 100, "b1": 0, "none": 0}


@pytest.mark.parametrize("weight", [0, 101, True, "1"])
def test_a_term_whose_weight_is_out_of_range_is_refused(weight):
    with pytest.raises(InvalidObjectError, match=r"preferred.*\[0\]\.weight: must be a whole number from 1 to 100"):
        pending(spec=near(term(), weight=weight))
