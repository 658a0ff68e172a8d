import pytest

from podwright.core.framework.interface import CycleState
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.spread.pod_topology_spread import PodTopologySpread
from podwright.core.plugins.spread.scoring import PAUSE_EVERY
from support.objects.builders import make_pod, make_taint
from support.plugins.kit import build, make_cache, pending
from support.plugins.spread import (
    HOSTNAME,
    NO_LABEL,
    SKEWED,
    SOFT,
    ZONE,
    constraint,
    node,
    running,
    scores,
    spread,
    verdicts,
    zones,
)


@pytest.mark.parametrize(
    "counts, more, passing",
    [
        pytest.param((0, 0), {}, {"n0", "n1"}, id="no pods yet"),
        pytest.param((1, 0), {}, {"n1"}, id="a second pod goes to a domain without pods"),
        pytest.param((1, 0), {"skew": 2}, {"n0", "n1"}, id="a higher maxSkew allows more"),
        pytest.param((2, 1, 1), {}, {"n1", "n2"}, id="only the difference to the domain with the fewest pods matters"),
        pytest.param((1, 1), {"minDomains": 3}, set(), id="with fewer domains than minDomains the minimum is 0"),
        pytest.param((1, 1, 1), {"minDomains": 3}, {"n0", "n1", "n2"}, id="with minDomains domains the minimum counts"),
        pytest.param((0, 1), {"minDomains": 3}, {"n0"}, id="with too few domains, each still takes its first pods"),
        pytest.param((1, 0), {"selector": {"matchLabels": {"app": "y"}}}, {"n0", "n1"}, id="pods that do not match"),
        pytest.param((5, 0), {"selector": {}}, {"n0", "n1"}, id="an empty selector counts no pod"),
        pytest.param(
            (5, 0),
            {"selector": {"matchExpressions": []}},
            {"n0", "n1"},
            id="an empty list of expressions counts no pod",
        ),
    ],
)
def test_skew(counts, more, passing):
    plugin = build(PodTopologySpread, zones(*counts))
    found = verdicts(plugin, pending(labels={"app": "x"}, spec=spread(constraint(**more))))
    assert {name for name, reason in found.items() if not reason} == passing
    assert {reason for reason in found.values() if reason} <= {SKEWED}


def test_a_pod_that_does_not_match_its_own_selector_does_not_count():
    plugin = build(PodTopologySpread, zones(1, 0))
    assert verdicts(plugin, pending(labels={"app": "y"}, spec=spread(constraint()))) == {"n0": "", "n1": ""}


def test_a_nil_selector_matches_nothing():
    plugin = build(PodTopologySpread, zones(3, 0))
    rule = {key: value for key, value in constraint().items() if key != "labelSelector"}
    assert verdicts(plugin, pending(labels={"app": "x"}, spec=spread(rule))) == {"n0": "", "n1": ""}


def test_an_empty_selector_matches_the_pod_itself():
    # Nobody is counted, but with too few domains for minDomains the pod itself is one more than 0.
    plugin = build(PodTopologySpread, zones(0, 0))
    rule = constraint(selector={}, minDomains=3)
    assert verdicts(plugin, pending(spec=spread(rule))) == {"n0": "", "n1": ""}
    state = CycleState()
    pod = pending(spec=spread(rule))
    plugin.pre_filter(state, pod)
    plugin.add_pod(state, pod, pending(name="other"), plugin.handle.cache.nodes["n0"])
    assert verdicts(plugin, pod, state) == {"n0": SKEWED, "n1": ""}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"namespace": "other"}, id="in another namespace"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, id="terminating"),
        pytest.param({"app": "y"}, id="with other labels"),
    ],
)
def test_pods_that_do_not_count(other):
    cache = make_cache([node("n0", "z0"), node("n1", "z1")], running(2, "n0", **other))
    plugin = build(PodTopologySpread, cache)
    assert verdicts(plugin, pending(labels={"app": "x"}, spec=spread(constraint()))) == {"n0": "", "n1": ""}


def test_a_node_without_the_key_does_not_count_and_never_fits():
    cache = make_cache([node("n0", "z0"), node("n1", "z1"), node("n2")], running(1, "n0") + running(9, "n2"))
    plugin = build(PodTopologySpread, cache)
    found = verdicts(plugin, pending(labels={"app": "x"}, spec=spread(constraint())))
    assert found == {"n0": SKEWED, "n1": "", "n2": NO_LABEL}


def test_a_node_without_one_key_counts_for_no_constraint():
    cache = make_cache([node("n0", "z0"), node("n1", "z0", labels={"rack": "r"})], running(5, "n0"))
    plugin = build(PodTopologySpread, cache)
    rules = spread(constraint(skew=2), constraint("rack", skew=2))
    assert verdicts(plugin, pending(labels={"app": "x"}, spec=rules)) == {"n0": NO_LABEL, "n1": ""}


@pytest.mark.parametrize(
    "keys, reason",
    [
        pytest.param((ZONE, "rack"), SKEWED, id="first too many pods in the zone, then no rack"),
        pytest.param(("rack", ZONE), NO_LABEL, id="first no rack, then too many pods in the zone"),
    ],
)
def test_the_first_violated_constraint_gives_the_reason(keys, reason):
    nodes = [node("n0", "z0"), node("n1", "z0", labels={"rack": "r"}), node("n2", "z1", labels={"rack": "s"})]
    plugin = build(PodTopologySpread, make_cache(nodes, running(2, "n1")))
    pod = pending(labels={"app": "x"}, spec=spread(*map(constraint, keys)))
    assert verdicts(plugin, pod) == {"n0": reason, "n1": SKEWED, "n2": ""}


@pytest.mark.parametrize(
    "more, passing",
    [
        pytest.param({}, {"n0", "n2"}, id="by default nodes outside the pod's node affinity are left out"),
        pytest.param({"nodeAffinityPolicy": "Honor"}, {"n0", "n2"}, id="node affinity is honoured"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, {"n2"}, id="node affinity is ignored"),
    ],
)
def test_node_affinity_policy(more, passing):
    nodes = [node("n0", "z0", labels={"disk": "ssd"}), node("n1", "z1", labels={"disk": "ssd"}), node("n2", "z2")]
    cache = make_cache(nodes, running(1, "n0") + running(2, "n1"))
    plugin = build(PodTopologySpread, cache)
    pod = pending(labels={"app": "x"}, spec=spread(constraint(**more), nodeSelector={"disk": "ssd"}))
    found = verdicts(plugin, pod)
    assert {name for name, reason in found.items() if not reason} == passing


@pytest.mark.parametrize(
    "more, gates, tolerations, least",
    [
        pytest.param({}, {}, [], 0, id="by default tainted nodes count"),
        pytest.param({"nodeTaintsPolicy": "Ignore"}, {}, [], 0, id="taints are ignored"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, {}, [], 1, id="tainted nodes are left out"),
        pytest.param(
            {"nodeTaintsPolicy": "Honor"},
            {},
            [{"operator": "Exists"}],
            0,
            id="tolerated taints do not matter",
        ),
        pytest.param(
            {"nodeTaintsPolicy": "Honor"},
            {"NodeInclusionPolicyInPodTopologySpread": False},
            [],
            0,
            id="without the feature gate taints are ignored",
        ),
    ],
)
def test_node_taints_policy(more, gates, tolerations, least):
    cache = make_cache([node("n0", "z0"), node("n1", "z1", taints=[make_taint("k")])], running(1, "n0"))
    plugin = build(PodTopologySpread, cache, gates=gates)
    found = verdicts(plugin, pending(labels={"app": "x"}, spec=spread(constraint(**more), tolerations=tolerations)))
    assert found["n0"] == ("" if least else SKEWED)


def test_without_the_inclusion_gate_node_affinity_is_always_honoured():
    nodes = [node("n0", "z0", labels={"disk": "ssd"}), node("n1", "z1")]
    cache = make_cache(nodes, running(1, "n0"))
    gates = {"NodeInclusionPolicyInPodTopologySpread": False}
    plugin = build(PodTopologySpread, cache, gates=gates)
    rules = spread(constraint(nodeAffinityPolicy="Ignore"), nodeSelector={"disk": "ssd"})
    assert verdicts(plugin, pending(labels={"app": "x"}, spec=rules))["n0"] == ""


@pytest.mark.parametrize(
    "gate, passes",
    [pytest.param(True, True, id="the gate is on"), pytest.param(False, False, id="the gate is off")],
)
def test_match_label_keys_narrow_the_selector(gate, passes):
    cache = make_cache([node("n0", "z0"), node("n1", "z1")], running(1, "n0", app="x", hash="old"))
    plugin = build(PodTopologySpread, cache, gates={"MatchLabelKeysInPodTopologySpread": gate})
    rule = constraint(matchLabelKeys=["hash", "absent"])
    found = verdicts(plugin, pending(labels={"app": "x", "hash": "new"}, spec=spread(rule)))
    assert (found["n0"] == "") is passes


def test_match_label_keys_make_an_empty_selector_count():
    cache = make_cache([node("n0", "z0"), node("n1", "z1")], running(1, "n0", hash="h"))
    plugin = build(PodTopologySpread, cache)
    rule = constraint(selector={}, matchLabelKeys=["hash"])
    assert verdicts(plugin, pending(labels={"hash": "h"}, spec=spread(rule))) == {"n0": SKEWED, "n1": ""}


def test_labels_that_the_api_server_has_already_merged_share_the_counter():
    cache = make_cache([node("n0", "z0")])
    plugin = build(PodTopologySpread, cache)
    merged = {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "hash", "operator": "In", "values": ["h"]}]}
    for keys in (["hash"], []):
        rule = constraint(selector=merged, matchLabelKeys=keys)
        verdicts(plugin, pending(labels={"app": "x", "hash": "h"}, spec=spread(rule)))
    assert len(cache.pods_index.matches) == 1


def test_soft_constraints_do_not_filter_and_hard_ones_do_not_score():
    plugin = build(PodTopologySpread, zones(3, 0))
    assert verdicts(plugin, pending(labels={"app": "x"}, spec=spread(constraint(action=SOFT)))) is None
    assert scores(plugin, pending(labels={"app": "x"}, spec=spread(constraint()))) is None
    assert verdicts(plugin, pending()) is None
    assert scores(plugin, pending()) is None


def test_the_filter_sees_dry_runs_and_the_original_state_does_not_change():
    cache = zones(2, 1, 1)
    plugin, state = build(PodTopologySpread, cache), CycleState()
    pod = pending(labels={"app": "x"}, spec=spread(constraint()))
    plugin.pre_filter(state, pod)
    dry = state.clone()
    for name in ("n1", "n2"):
        (victim,) = cache.nodes[name].pods.values()
        plugin.remove_pod(dry, pod, victim, cache.nodes[name])
    assert verdicts(plugin, pod, dry) == {"n0": SKEWED, "n1": "", "n2": ""}
    victim = next(iter(cache.nodes["n0"].pods.values()))
    further = dry.clone()
    plugin.remove_pod(further, pod, victim, cache.nodes["n0"])
    assert verdicts(plugin, pod, further) == {"n0": SKEWED, "n1": "", "n2": ""}
    plugin.add_pod(further, pod, parse_pod(make_pod("more", labels={"app": "x"})), cache.nodes["n1"])
    plugin.add_pod(further, pod, parse_pod(make_pod("else", labels={"app": "x"}, namespace="other")), cache.nodes["n2"])
    assert verdicts(plugin, pod, further) == {"n0": SKEWED, "n1": SKEWED, "n2": ""}
    assert verdicts(plugin, pod, dry) == {"n0": SKEWED, "n1": "", "n2": ""}
    assert verdicts(plugin, pod, state) == {"n0": SKEWED, "n1": "", "n2": ""}


def test_each_step_of_a_dry_run_updates_the_minimum():
    cache = zones(2, 1)
    plugin, state = build(PodTopologySpread, cache), CycleState()
    pod = pending(labels={"app": "x"}, spec=spread(constraint(skew=2)))
    plugin.pre_filter(state, pod)
    assert verdicts(plugin, pod, state) == {"n0": "", "n1": ""}
    (victim,) = cache.nodes["n1"].pods.values()
    plugin.remove_pod(state, pod, victim, cache.nodes["n1"])
    assert verdicts(plugin, pod, state) == {"n0": SKEWED, "n1": ""}
    plugin.add_pod(state, pod, victim, cache.nodes["n1"])
    assert verdicts(plugin, pod, state) == {"n0": "", "n1": ""}


@pytest.mark.parametrize(
    "counts, more, expected",
    [
        pytest.param((0, 0), {}, {"n0": 100, "n1": 100}, id="nothing counted"),
        pytest.param(
            (2, 1, 0),
            {},
            {"n0": 0, "n1": 33, "n2": 100},
            id="fewer pods score higher: 3, 2 and 0, each pod weighs ln 5",
        ),
        pytest.param((3, 3), {}, {"n0": 100, "n1": 100}, id="equal numbers"),
        pytest.param((4, 0), {"skew": 5}, {"n0": 40, "n1": 100}, id="a high maxSkew reduces differences"),
        pytest.param((4, 0), {"selector": {}}, {"n0": 100, "n1": 100}, id="an empty selector counts no pod"),
    ],
)
def test_scores(counts, more, expected):
    plugin = build(PodTopologySpread, zones(*counts))
    assert scores(plugin, pending(labels={"app": "x"}, spec=spread(constraint(action=SOFT, **more)))) == expected


def test_a_node_without_a_key_is_ignored_and_scores_0():
    cache = make_cache([node("n0", "z0"), node("n1", "z1"), node("n2")], running(2, "n0") + running(9, "n2"))
    plugin = build(PodTopologySpread, cache)
    rules = spread(constraint(action=SOFT), constraint(HOSTNAME, action=SOFT))
    assert scores(plugin, pending(labels={"app": "x"}, spec=rules)) == {"n0": 0, "n1": 100, "n2": 0}
    assert scores(plugin, pending(labels={"app": "x"}, spec=rules), {"n2"}) == {"n2": 0}


def test_only_domains_of_feasible_nodes_count_for_the_weight():
    # Of two domains 15 and 5, by ln 4 a pod; of three 17, 6 and 1, by ln 5.
    cache = zones(10, 3, 0)
    plugin = build(PodTopologySpread, cache)
    pod = pending(labels={"app": "x"}, spec=spread(constraint(action=SOFT, skew=2)))
    assert scores(plugin, pod, {"n0", "n1"}) == {"n0": 33, "n1": 100}
    assert scores(plugin, pod) == {"n0": 5, "n1": 70, "n2": 100}


def test_scores_by_many_constraints_pause():
    cache = zones(2, 0)
    plugin, pauses = build(PodTopologySpread, cache), []

    def scored(count):
        pauses.clear()
        rules = [constraint(action=SOFT, selector={"matchLabels": {"app": f"x{i}"}}) for i in range(count)]
        return scores(plugin, pending(labels={"app": "x"}, spec=spread(*rules, constraint(action=SOFT))))

    whole = scored(100)
    assert whole["n0"] < whole["n1"]
    cache.deadline.check = lambda: pauses.append(True)
    assert scored(100) == whole
    assert len(pauses) == 101 // PAUSE_EVERY
    scored(1)
    assert not pauses
