"""Default constraints of PodTopologySpread, its args, and its hints."""

import pytest

from podwright.core.framework.args import ArgsError, decode_args
from podwright.core.framework.cluster_events import Hint
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.spread.pod_topology_spread import PodTopologySpread, PodTopologySpreadArgs
from support.objects.builders import make_node, make_pod, make_taint
from support.plugins.kit import build, make_cache, pending
from support.plugins.spread import (
    HARD,
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

SERVICE = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "x"}}}


def owner(kind, api_version="apps/v1", *, controller=True):
    reference = {"apiVersion": api_version, "kind": kind, "name": "r", "uid": "u", "controller": controller}
    return {"ownerReferences": [reference]}


def controller(selector):
    return {"metadata": {"name": "r", "namespace": "default"}, "spec": {"selector": selector}}


@pytest.mark.parametrize(
    "objects, metadata, expected",
    [
        pytest.param([], {}, False, id="no Service and no controller"),
        pytest.param([("Service", SERVICE)], {}, True, id="a Service that selects the pod"),
        pytest.param(
            [("Service", {**SERVICE, "spec": {"selector": {"app": "y"}}})],
            {},
            False,
            id="a Service that selects others",
        ),
        pytest.param([("Service", {**SERVICE, "spec": {}})], {}, False, id="a Service without a selector"),
        pytest.param(
            [("Service", {**SERVICE, "spec": {"selector": {}}})], {}, False, id="a Service with an empty selector"
        ),
        pytest.param(
            [("Service", {**SERVICE, "metadata": {"name": "s", "namespace": "other"}})],
            {},
            False,
            id="a Service of another namespace",
        ),
        pytest.param(
            [("ReplicaSet", controller({"matchLabels": {"app": "x"}}))], owner("ReplicaSet"), True, id="a ReplicaSet"
        ),
        pytest.param(
            [("StatefulSet", controller({"matchLabels": {"app": "x"}}))], owner("StatefulSet"), True, id="a StatefulSet"
        ),
        pytest.param(
            [("ReplicationController", controller({"app": "x"}))],
            owner("ReplicationController", "v1"),
            True,
            id="a ReplicationController",
        ),
        pytest.param([], owner("ReplicaSet"), False, id="an unknown controller"),
        pytest.param(
            [("ReplicaSet", controller({"matchLabels": {"app": "x"}}))],
            owner("ReplicaSet", controller=False),
            False,
            id="an owner that is not the controller",
        ),
        pytest.param(
            [("ReplicaSet", controller({"matchLabels": {"app": "x"}}))],
            owner("ReplicaSet", "example.com/v1"),
            False,
            id="a kind of the same name in another group",
        ),
        pytest.param(
            [("ReplicaSet", controller(None))], owner("ReplicaSet"), False, id="a ReplicaSet without a selector"
        ),
        pytest.param(
            [("ReplicaSet", controller({"matchExpressions": [{"key": "app", "operator": "Is"}]}))],
            owner("ReplicaSet"),
            False,
            id="a ReplicaSet with an invalid selector",
        ),
        pytest.param(
            [("Service", SERVICE), ("ReplicaSet", controller({"matchLabels": {"hash": "h"}}))],
            owner("ReplicaSet"),
            False,
            id="selectors are combined, and no pod matches both",
        ),
    ],
)
def test_system_defaults_apply_to_pods_of_services_and_controllers(objects, metadata, expected):
    cache = zones(10, 0)
    for kind, raw in objects:
        cache.set_object(kind, raw)
    plugin = build(PodTopologySpread, cache)
    pod = pending(labels={"app": "x"}, metadata={"labels": {"app": "x"}, **metadata})
    found = scores(plugin, pod)
    assert verdicts(plugin, pod) is None
    assert (found is not None and found["n0"] < found["n1"]) is expected


def test_defaults_follow_services_that_are_added_and_removed():
    cache = zones(5, 0)
    plugin = build(PodTopologySpread, cache)
    pod = pending(labels={"app": "x"})
    assert scores(plugin, pod) is None
    cache.set_object("Service", SERVICE)
    assert scores(plugin, pod) is not None
    cache.remove_object("Service", "s", "default")
    assert scores(plugin, pod) is None


def test_with_system_defaults_nodes_without_a_zone_are_scored_by_hostname():
    # hostname: 4 nodes, weight ln 6; zones: z0, z1 and none, weight ln 5.
    nodes = [node("n0", "z0"), node("n1", "z1"), node("n2"), make_node("n3")]
    cache = make_cache(nodes, running(4, "n0") + running(2, "n2") + running(1, "n3"))
    cache.set_object("Service", SERVICE)
    found = scores(build(PodTopologySpread, cache), pending(labels={"app": "x"}))
    # n0: 4 ln 6 + 2 + 4 ln 5 + 4 = 19.6; n1: 6; n2: 2 ln 6 + 2 = 5.6; n3 has no key at all: 0.
    assert found == {"n0": 0, "n1": 70, "n2": 70, "n3": 100}


def test_with_system_defaults_nodes_without_a_zone_belong_to_the_empty_zone():
    cache = make_cache([node("n0", ""), node("n1", "z1"), node("n2")], running(3, "n2"))
    cache.set_object("Service", SERVICE)
    found = scores(build(PodTopologySpread, cache), pending(labels={"app": "x"}))
    # zones "" and z1: weight ln 4; n0: 2 + 3 ln 4 + 4 = 10.2, n1: 6, n2: 3 ln 5 + 2 = 6.8.
    assert found == {"n0": 60, "n1": 100, "n2": 90}


def default(**more):
    return {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": HARD, **more}


def test_listed_defaults_filter_and_need_all_keys():
    cache = make_cache([node("n0", "z0"), node("n1", "z1"), node("n2")], running(1, "n0"))
    cache.set_object("Service", SERVICE)
    args = {"defaultingType": "List", "defaultConstraints": [default(), default(whenUnsatisfiable=SOFT, maxSkew=2)]}
    plugin = build(PodTopologySpread, cache, args)
    pod = pending(labels={"app": "x"})
    assert verdicts(plugin, pod) == {"n0": SKEWED, "n1": "", "n2": NO_LABEL}
    assert scores(plugin, pod) == {"n0": 50, "n1": 100, "n2": 0}
    own = pending(labels={"app": "x"}, spec=spread(constraint(HOSTNAME, skew=5)))
    assert verdicts(plugin, own) == {"n0": "", "n1": "", "n2": ""}
    assert scores(plugin, own) is None


def test_an_empty_list_of_defaults_applies_to_no_pod():
    cache = zones(5, 0)
    cache.set_object("Service", SERVICE)
    plugin = build(PodTopologySpread, cache, {"defaultingType": "List"})
    assert scores(plugin, pending(labels={"app": "x"})) is None


def test_an_empty_defaulting_type_is_the_default():
    assert decode_args(PodTopologySpreadArgs, {"defaultingType": ""}, "args") == PodTopologySpreadArgs()


@pytest.mark.parametrize(
    "args, where, problem",
    [
        pytest.param(
            {"defaultingType": "List", "defaultConstraints": [default(maxSkew=2**31)]},
            "[0].maxSkew",
            "2147483648 is greater than 2147483647",
            id="a skew of more than 32 bits",
        ),
        pytest.param(
            {"defaultingType": "List", "defaultConstraints": [default(minDomains=2**31)]},
            "[0].minDomains",
            "2147483648 is greater than 2147483647",
            id="more domains than fit into 32 bits",
        ),
        pytest.param(
            {"defaultingType": "None"},
            "args.defaultingType",
            'Unsupported value: "None"',
            id="an unknown defaulting type",
        ),
        pytest.param(
            {"defaultConstraints": [default()]},
            "args.defaultingType",
            'Invalid value: "System": when .defaultConstraints are not empty',
            id="type System with a list of constraints",
        ),
        *(
            pytest.param({"defaultingType": "List", "defaultConstraints": constraints}, where, problem, id=words)
            for constraints, where, problem, words in [
                ([default(maxSkew=0)], "[0].maxSkew", "Invalid value: 0: not in valid range (0, inf)", "no skew"),
                ([default(topologyKey="")], "[0].topologyKey", "Required value: can not be empty", "an empty key"),
                ([default(topologyKey="a b")], "[0].topologyKey", "not a qualified name", "a key that is no label"),
                (
                    [default(topologyKey="A_/b")],
                    "[0].topologyKey",
                    "not a qualified name",
                    "a prefix that is no domain",
                ),
                ([default(whenUnsatisfiable="Never")], "[0].whenUnsatisfiable", "not one of", "an unknown action"),
                ([default(labelSelector={})], "[0].labelSelector", "Forbidden: constraint must not", "a selector"),
                ([default(), default()], "[1]", f'Duplicate value: "{{{ZONE}, {HARD}}}"', "the same pair twice"),
            ]
        ),
    ],
)
def test_invalid_args_are_refused(args, where, problem):
    with pytest.raises(ArgsError) as caught:
        decode_args(PodTopologySpreadArgs, args, "args")
    ((found_where, found_problem),) = caught.value.problems
    assert found_where == (where if where.startswith("args") else f"args.defaultConstraints{where}")
    assert problem in found_problem


def hint_of(plugin, index):
    return plugin.hints()[index].function


@pytest.mark.parametrize(
    "before, after, hint",
    [
        pytest.param(None, {"labels": {"app": "x"}, "node": "n"}, Hint.QUEUE, id="a matching pod came"),
        pytest.param({"labels": {"app": "x"}, "node": "n"}, None, Hint.QUEUE, id="a matching pod left"),
        pytest.param(None, {"labels": {"app": "y"}, "node": "n"}, Hint.SKIP, id="another pod came"),
        pytest.param({"labels": {"app": "y"}, "node": "n"}, None, Hint.SKIP, id="another pod left"),
        pytest.param(None, {"labels": {"app": "x"}}, Hint.SKIP, id="a pod without a node"),
        pytest.param(None, {"labels": {"app": "x"}, "namespace": "o", "node": "n"}, Hint.SKIP, id="another namespace"),
        pytest.param(
            {"labels": {"app": "x"}, "node": "n"},
            {"labels": {"app": "y"}, "node": "n"},
            Hint.QUEUE,
            id="a pod ceased to match",
        ),
        pytest.param(
            {"labels": {"app": "x"}, "node": "n"},
            {"labels": {"app": "x", "b": "c"}, "node": "n"},
            Hint.SKIP,
            id="a pod still matches",
        ),
    ],
)
def test_hint_on_assigned_pods(before, after, hint):
    plugin = build(PodTopologySpread, zones(0))
    waiting = pending(labels={"app": "x"}, spec=spread(constraint()))
    pods = [None if raw is None else parse_pod(make_pod("other", **raw)) for raw in (before, after)]
    assert hint_of(plugin, 0)(waiting, *pods) is hint


@pytest.mark.parametrize(
    "policy, before, after, hint",
    [
        pytest.param(
            "Honor", {}, {"spec": {"tolerations": [{"operator": "Exists"}]}}, Hint.QUEUE, id="a new toleration"
        ),
        pytest.param(
            "Ignore",
            {},
            {"spec": {"tolerations": [{"operator": "Exists"}]}},
            Hint.SKIP,
            id="a new toleration that does not matter",
        ),
        pytest.param("Ignore", {}, {"labels": {"app": "x"}}, Hint.QUEUE, id="it started to match its own selector"),
        pytest.param("Ignore", {}, {"labels": {"b": "c"}}, Hint.SKIP, id="another label"),
        pytest.param("Honor", {}, {}, Hint.SKIP, id="an irrelevant change"),
    ],
)
def test_hint_on_the_pod_itself(policy, before, after, hint):
    plugin = build(PodTopologySpread, zones(0))
    waiting = pending(spec=spread(constraint(nodeTaintsPolicy=policy)))
    assert hint_of(plugin, 1)(waiting, pending(**before), pending(**after)) is hint


@pytest.mark.parametrize(
    "before, after, hint",
    [
        pytest.param(None, node("n", "z"), Hint.QUEUE, id="a node with the key was added"),
        pytest.param(None, node("n"), Hint.SKIP, id="a node without the key was added"),
        pytest.param(node("n", "z"), None, Hint.QUEUE, id="a node with the key was removed"),
        pytest.param(node("n"), None, Hint.SKIP, id="a node without the key was removed"),
        pytest.param(node("n"), node("n", "z"), Hint.QUEUE, id="a node got the key"),
        pytest.param(node("n", "z"), node("n"), Hint.QUEUE, id="a node lost the key"),
        pytest.param(node("n", "z"), node("n", "y"), Hint.QUEUE, id="a node moved to another zone"),
        pytest.param(
            node("n", "z"), node("n", "z", taints=[make_taint("k")]), Hint.QUEUE, id="a node has other taints"
        ),
        pytest.param(node("n", "z"), node("n", "z", labels={"b": "c"}), Hint.SKIP, id="another label"),
        pytest.param(
            node("n"), node("n", taints=[make_taint("k")]), Hint.SKIP, id="other taints of a node that does not count"
        ),
    ],
)
def test_hint_on_nodes(before, after, hint):
    plugin = build(PodTopologySpread, zones(0))
    nodes = [None if raw is None else parse_node(raw) for raw in (before, after)]
    assert hint_of(plugin, 2)(pending(spec=spread(constraint())), *nodes) is hint
