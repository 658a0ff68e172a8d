import pytest

from podwright.core.framework.interface import CycleState
from podwright.core.framework.status import SKIP, Code
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.affinity.inter_pod_affinity import InterPodAffinity
from support.objects.builders import make_namespace
from support.plugins.kit import build, make_cache, pending
from support.plugins.pod_affinity import HOSTNAME, NODES, ZONE, away, near, rules, running, term

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


def verdicts(plugin, pod, state=None):
    """Reasons by node name, after checking that the per-node and the vectorised filter agree. None for Skip."""
    cache, state = plugin.handle.cache, state or CycleState()
    if "PreFilterInterPodAffinity" not in state.data and plugin.pre_filter(state, pod) is SKIP:
        return None
    result = plugin.filter_all(state, pod, cache.table)
    found = {}
    for name, info in cache.nodes.items():
        status = plugin.filter(state, pod, info)
        if result is None or result.ok[info.slot]:
            assert status is None
        else:
            codes, statuses = result.explain()
            assert statuses[codes[info.slot]] == status
            assert (status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE) == (status.message == AFFINITY)
        found[name] = "" if status is None else status.message
    return found


def passing(found):
    return {name for name, reason in found.items() if not reason}


@pytest.mark.parametrize(
    "placed, spec, fits",
    [
        pytest.param([("p", "a1")], near(term()), {"a1", "a2"}, id="the zone of a matching pod"),
        pytest.param([("p", "a1")], near(term(HOSTNAME)), {"a1"}, id="the node of a matching pod"),
        pytest.param([("p", "a1"), ("q", "b1")], near(term()), {"a1", "a2", "b1"}, id="each zone with a matching pod"),
        pytest.param([("p", "a1", "y")], near(term()), set(), id="no pod matches"),
        pytest.param([("p", "none")], near(term()), set(), id="a matching pod where the node has no zone"),
        pytest.param([("p", "a1", "x", "other")], near(term()), set(), id="a matching pod in another namespace"),
        pytest.param(
            [("p", "a1", "x", "other")], near(term(namespaces=["other"])), {"a1", "a2"}, id="a namespace that is listed"
        ),
        pytest.param(
            [("p", "a1")], near(term(namespaces=["other"])), set(), id="its own namespace no longer counts then"
        ),
        pytest.param(
            [("p", "a1"), ("q", "b1", "y")], near(term(), term(app="y")), set(), id="one pod must match all terms"
        ),
        pytest.param([("p", "a1")], near(term(), term(HOSTNAME)), {"a1"}, id="several keys, one pod"),
        pytest.param(
            [("p", "a1"), ("q", "a2")],
            near(term(), term(HOSTNAME)),
            {"a1", "a2"},
            id="several keys, matched by different pods",
        ),
    ],
)
def test_required_affinity(placed, spec, fits):
    plugin = build(InterPodAffinity, make_cache(NODES, [running(*each) for each in placed]))
    found = verdicts(plugin, pending(spec=spec))
    assert passing(found) == fits
    assert {reason for reason in found.values() if reason} == {AFFINITY}


@pytest.mark.parametrize(
    "placed, labels, spec, fits",
    [
        pytest.param([], {"app": "x"}, near(term()), {"a1", "a2", "b1"}, id="the first pod fits nodes with the key"),
        pytest.param([], {"app": "y"}, near(term()), set(), id="a pod that does not match its own terms"),
        pytest.param([], {"app": "x"}, near(term(), term(app="y")), set(), id="it must match all of them"),
        pytest.param(
            [("p", "a1")],
            {"app": "x"},
            near(term()),
            {"a1", "a2"},
            id="it is not the first, so it must go to the others",
        ),
        pytest.param(
            [("p", "none")],
            {"app": "x"},
            near(term()),
            {"a1", "a2", "b1"},
            id="the others are in no domain, so it is the first",
        ),
        pytest.param(
            [], {"app": "x"}, near(term(namespaces=["other"])), set(), id="its terms exclude its own namespace"
        ),
    ],
)
def test_the_first_pod_of_a_group(placed, labels, spec, fits):
    plugin = build(InterPodAffinity, make_cache(NODES, [running(*each) for each in placed]))
    assert passing(verdicts(plugin, pending(labels=labels, spec=spec))) == fits


@pytest.mark.parametrize(
    "placed, spec, fits",
    [
        pytest.param([("p", "a1")], away(term()), {"b1", "none"}, id="not the zone of a matching pod"),
        pytest.param([("p", "a1")], away(term(HOSTNAME)), {"a2", "b1", "none"}, id="not its node"),
        pytest.param(
            [("p", "a1"), ("q", "b1", "y")], away(term(), term(app="y")), {"none"}, id="each term rejects nodes"
        ),
        pytest.param(
            [("p", "a1"), ("q", "b1", "y")],
            away(term(HOSTNAME), term(HOSTNAME, "y")),
            {"a2", "none"},
            id="two terms with one key",
        ),
        pytest.param([("p", "none")], away(term()), {"a1", "a2", "b1", "none"}, id="a matching pod in no zone"),
    ],
)
def test_required_anti_affinity(placed, spec, fits):
    plugin = build(InterPodAffinity, make_cache(NODES, [running(*each) for each in placed]))
    found = verdicts(plugin, pending(spec=spec))
    assert passing(found) == fits
    assert {reason for reason in found.values() if reason} <= {ANTI_AFFINITY}


@pytest.mark.parametrize(
    "spec, app, fits",
    [
        pytest.param(away(term()), "x", {"b1", "none"}, id="a placed pod keeps it out of its zone"),
        pytest.param(away(term(HOSTNAME)), "x", {"a2", "b1", "none"}, id="a placed pod keeps it off its node"),
        pytest.param(away(term(), term(HOSTNAME)), "x", {"b1", "none"}, id="two terms of one pod"),
        pytest.param(away(term()), "y", None, id="a term that does not match the pod"),
        pytest.param(away(term(), weight=100), "x", None, id="preferred terms do not filter"),
        pytest.param(near(term(app="z")), "x", None, id="affinity of placed pods does not filter"),
        pytest.param(away(term("rack")), "x", None, id="a key that no node has"),
        pytest.param(away(term(namespaces=["other"])), "x", None, id="a term for another namespace"),
    ],
)
def test_anti_affinity_of_placed_pods(spec, app, fits):
    plugin = build(InterPodAffinity, make_cache(NODES, [running("p", "a1", "any", spec=spec)]))
    found = verdicts(plugin, pending(labels={"app": app}))
    assert found is None if fits is None else passing(found) == fits
    assert found is None or {reason for reason in found.values() if reason} == {EXISTING}


def test_affinity_is_reported_before_anti_affinity_and_anti_affinity_of_placed_pods_last():
    placed = [running("p", "a1", spec=away(term(HOSTNAME, "me"))), running("q", "b1", "y", spec=away(term(app="me")))]
    plugin = build(InterPodAffinity, make_cache(NODES, placed))
    spec = {"affinity": {"podAffinity": rules([term()]), "podAntiAffinity": rules([term(HOSTNAME)])}}
    found = verdicts(plugin, pending(labels={"app": "me"}, spec=spec))
    assert found == {"a1": ANTI_AFFINITY, "a2": "", "b1": AFFINITY, "none": AFFINITY}
    cache = plugin.handle.cache
    cache.remove_pod("default/p")
    cache.set_pod(parse_pod(running("r", "a2", "z", spec=away(term(HOSTNAME, "me")))))
    spec = away(term(HOSTNAME))
    assert verdicts(plugin, pending(labels={"app": "me"}, spec=spec)) == {
        "a1": "",
        "a2": EXISTING,
        "b1": EXISTING,
        "none": "",
    }


TEAM = {"namespaceSelector": {"matchLabels": {"team": "t"}}}
NO_TEAM = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}


@pytest.mark.parametrize(
    "more, namespace, labels, meant",
    [
        pytest.param(TEAM, "other", {"team": "t"}, True, id="a namespace by its labels"),
        pytest.param(TEAM, "other", {"team": "u"}, False, id="a namespace with other labels"),
        pytest.param(
            TEAM, "default", None, False, id="with a selector, the pod's own namespace is not included automatically"
        ),
        pytest.param(
            {"namespaceSelector": {}}, "other", None, True, id="the empty selector means all namespaces, known or not"
        ),
        pytest.param({"namespaceSelector": None}, "other", None, False, id="no selector means the pod's own namespace"),
        pytest.param(
            {**TEAM, "namespaces": ["other"]}, "other", None, True, id="names or selector: one match is enough"
        ),
        pytest.param(NO_TEAM, "other", {}, True, id="a namespace without the label"),
    ],
)
def test_namespaces_of_terms_of_both_sides(more, namespace, labels, meant):
    cache = make_cache(NODES, [running("p", "a1", namespace=namespace)])
    if labels is not None:
        cache.set_object("Namespace", make_namespace(namespace, labels))
    plugin = build(InterPodAffinity, cache)
    assert passing(verdicts(plugin, pending(spec=away(term(**more))))) == (
        {"b1", "none"} if meant else set(cache.nodes)
    )
    carrier = make_cache(NODES, [running("p", "a1", "any", spec=away(term(**more)))])
    if labels is not None:
        carrier.set_object("Namespace", make_namespace(namespace, labels))
    found = verdicts(build(InterPodAffinity, carrier), pending(namespace=namespace, labels={"app": "x"}))
    assert (found is not None) is meant


def test_the_labels_of_an_unknown_namespace_match_no_selector_of_placed_or_pending_pods():
    carrier = make_cache(NODES, [running("p", "a1", "any", spec=away(term(**NO_TEAM)))])
    assert verdicts(build(InterPodAffinity, carrier), pending(namespace="other", labels={"app": "x"})) is not None
    plugin = build(InterPodAffinity, make_cache(NODES, [running("p", "a1", namespace="other")]))
    assert passing(verdicts(plugin, pending(spec=away(term(**NO_TEAM))))) == {"a1", "a2", "b1", "none"}


def test_verdicts_follow_the_labels_of_namespaces():
    cache = make_cache(NODES, [running("p", "a1", namespace="other", spec=away(term(**TEAM)))])
    plugin = build(InterPodAffinity, cache)
    near_team, plain = pending(spec=near(term(**TEAM))), pending(labels={"app": "x"})
    assert passing(verdicts(plugin, near_team)) == set()
    assert verdicts(plugin, plain) is None
    cache.set_object("Namespace", make_namespace("other", {"team": "t"}))
    cache.set_object("Namespace", make_namespace("default", {"team": "t"}))
    assert passing(verdicts(plugin, near_team)) == {"a1", "a2"}
    assert passing(verdicts(plugin, plain)) == {"b1", "none"}
    cache.remove_object("Namespace", "other")
    cache.remove_object("Namespace", "default")
    assert passing(verdicts(plugin, near_team)) == set()
    assert verdicts(plugin, plain) is None


def test_a_nil_selector_means_no_pod():
    nothing = {"topologyKey": ZONE}
    plugin = build(InterPodAffinity, make_cache(NODES, [running("p", "a1", spec=away(nothing))]))
    assert verdicts(plugin, pending(labels={"app": "x"})) is None
    assert passing(verdicts(plugin, pending(spec=away(nothing)))) == {"a1", "a2", "b1", "none"}
    assert passing(verdicts(plugin, pending(spec=near(nothing)))) == set()


def test_terminating_pods_still_count():
    dying = {"deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "x"}}
    plugin = build(InterPodAffinity, make_cache(NODES, [running("p", "a1", metadata=dying)]))
    assert passing(verdicts(plugin, pending(spec=near(term())))) == {"a1", "a2"}


def test_the_filter_skips_a_plain_pod_among_plain_pods():
    plugin = build(InterPodAffinity, make_cache(NODES, [running("p", "a1")]))
    assert verdicts(plugin, pending(labels={"app": "x"})) is None


def test_the_filter_sees_dry_runs_and_the_original_state_does_not_change():
    placed = [running("p", "a1"), running("q", "b1", "y", spec=away(term(app="me")))]
    cache = make_cache(NODES, placed)
    plugin, state = build(InterPodAffinity, cache), CycleState()
    pod = pending(labels={"app": "me"}, spec=away(term()))
    plugin.pre_filter(state, pod)
    dry = state.clone()
    for name in ("a1", "b1"):
        (victim,) = cache.nodes[name].pods.values()
        plugin.remove_pod(dry, pod, victim, cache.nodes[name])
    assert passing(verdicts(plugin, pod, dry)) == {"a1", "a2", "b1", "none"}
    further = dry.clone()
    plugin.add_pod(further, pod, parse_pod(running("r", "a2")), cache.nodes["a2"])
    plugin.add_pod(further, pod, parse_pod(running("s", "none", spec=away(term(HOSTNAME, "me")))), cache.nodes["none"])
    assert verdicts(plugin, pod, further) == {"a1": ANTI_AFFINITY, "a2": ANTI_AFFINITY, "b1": "", "none": EXISTING}
    assert passing(verdicts(plugin, pod, dry)) == {"a1", "a2", "b1", "none"}
    assert verdicts(plugin, pod, state) == {"a1": ANTI_AFFINITY, "a2": ANTI_AFFINITY, "b1": EXISTING, "none": ""}


def test_a_dry_run_without_the_only_matching_pod_makes_the_pod_the_first_of_its_group():
    cache = make_cache(NODES, [running("p", "a1")])
    plugin, state = build(InterPodAffinity, cache), CycleState()
    pod = pending(labels={"app": "x"}, spec=near(term(), term(HOSTNAME)))
    plugin.pre_filter(state, pod)
    assert passing(verdicts(plugin, pod, state)) == {"a1"}
    (victim,) = cache.nodes["a1"].pods.values()
    plugin.remove_pod(state, pod, victim, cache.nodes["a1"])
    assert passing(verdicts(plugin, pod, state)) == {"a1", "a2", "b1"}
    plugin.add_pod(state, pod, victim, cache.nodes["b1"])
    assert passing(verdicts(plugin, pod, state)) == {"b1"}


def test_a_dry_run_removes_a_pod_once_if_two_terms_share_a_key():
    cache = make_cache(NODES, [running("p", "a1"), running("q", "a2")])
    plugin = build(InterPodAffinity, cache)
    state, pod = CycleState(), pending(labels={"app": "x"}, spec=near(term(), term(ZONE, "x", namespaces=["default"])))
    plugin.pre_filter(state, pod)
    plugin.remove_pod(state, pod, cache.nodes["a1"].pods["default/p"], cache.nodes["a1"])
    assert verdicts(plugin, pod, state) == {"a1": "", "a2": "", "b1": AFFINITY, "none": AFFINITY}
    plugin.remove_pod(state, pod, cache.nodes["a2"].pods["default/q"], cache.nodes["a2"])
    assert verdicts(plugin, pod, state) == {"a1": "", "a2": "", "b1": "", "none": AFFINITY}
