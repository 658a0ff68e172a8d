"""Which cluster events make a pod that a rule rejected worth another attempt."""

from __future__ import annotations

import pytest

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, POD, Action, ClusterEvent, Hint
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.rules.hints import MAX_ASKED
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod
from support.rules.running import NAMESPACE, plugin_of, policy_of


def hints(*filters, **spec):
    return plugin_of(World(), policy_of(filters, **spec)).hints()


def registered(found, resource, action):
    return any(hint.event.matches(ClusterEvent(resource, action)) for hint in found)


def answer(found, resource, action, pod, before, after):
    (hint,) = [each for each in found if each.event.matches(ClusterEvent(resource, action))]
    return Hint.QUEUE if hint.function is None else hint.function(pod, before, after)


def pod(name="p", **labels):
    return parse_pod(make_pod(name, labels=labels), keep_raw=True)


def node(name="n", **labels):
    return parse_node(make_node(name, labels=labels))


@pytest.mark.parametrize(
    ("expression", "resource", "action"),
    [
        ("node.labels.a == 'b'", NODE, Action.UPDATE_NODE_LABEL),
        ("node.annotations.a == 'b'", NODE, Action.UPDATE_NODE_ANNOTATION),
        ("'busybox' in node.images", NODE, Action.UPDATE_NODE_IMAGES),
        ("node.taints.size() == 0", NODE, Action.UPDATE_NODE_TAINT),
        ("!node.unschedulable", NODE, Action.UPDATE_NODE_TAINT),
        ("node.conditions.Ready == 'True'", NODE, Action.UPDATE_NODE_CONDITION),
        ("node.allocatable.cpu > 1", NODE, Action.UPDATE_NODE_ALLOCATABLE),
        ("node.free.cpu > 1", NODE, Action.UPDATE_NODE_ALLOCATABLE),
        ("node.free.cpu > 1", ASSIGNED_POD, Action.DELETE),
        ("node.free.cpu > 1", ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN),
        ("node.podCount > 1", ASSIGNED_POD, Action.ADD),
        ("podsOnNode('a=b') > 1", ASSIGNED_POD, Action.UPDATE_POD_LABEL),
        ("podsInDomain('z', 'a=b') > 1", ASSIGNED_POD, Action.ADD),
        ("podsInDomain('z', 'a=b') > 1", NODE, Action.DELETE),
        ("namespaceObject.labels.a == 'b'", "Namespace", Action.UPDATE_OTHER),
        ("node.name == 'b'", POD, Action.UPDATE_POD_LABEL),
        ("node.name == 'b'", NODE, Action.ADD),
    ],
)
def test_a_change_of_what_a_filter_reads_may_help(expression, resource, action):
    assert registered(hints(expression), resource, action)


@pytest.mark.parametrize(
    ("expression", "resource", "action"),
    [
        ("node.labels.a == 'b'", NODE, Action.UPDATE_NODE_TAINT),
        ("node.labels.a == 'b'", ASSIGNED_POD, Action.DELETE),
        ("node.labels.a == 'b'", "Namespace", Action.UPDATE_OTHER),
        ("node.labels.a == 'b'", "ConfigMap", Action.UPDATE_OTHER),
        ("node.free.cpu > 1", NODE, Action.UPDATE_NODE_LABEL),
    ],
)
def test_a_change_of_something_else_does_not_help(expression, resource, action):
    assert not registered(hints(expression), resource, action)


def test_what_only_scores_read_does_not_help():
    found = plugin_of(World(), policy_of(["node.name == 'n'"], ["node.free.cpu"])).hints()
    assert not registered(found, ASSIGNED_POD, Action.DELETE)


def test_a_changed_node_helps_only_pods_that_it_passes():
    found = hints("node.labels.tier == pod.labels.tier")
    after = node(tier="gold")
    given = (found, NODE, Action.UPDATE_NODE_LABEL)
    assert answer(*given, pod(tier="gold"), node(), after) is Hint.QUEUE
    assert answer(*given, pod(tier="silver"), node(), after) is Hint.SKIP
    assert answer(*given, pod(), node(), after) is Hint.SKIP
    assert answer(*given, pod(tier="gold"), after, node(tier="silver")) is Hint.SKIP


def test_a_filter_that_reads_free_resources_is_not_asked_about_a_changed_node():
    found = hints("node.free.cpu > 1000000")
    assert answer(found, NODE, Action.ADD, pod(), None, node()) is Hint.QUEUE


def test_a_bounded_number_of_different_pods_is_compared_with_one_change():
    found = hints("node.labels.tier == pod.labels.tier")
    after = node(tier="gold")
    answers = [answer(found, NODE, Action.ADD, pod(f"p{i}", tier=f"t{i}"), None, after) for i in range(2 * MAX_ASKED)]
    assert answers.count(Hint.SKIP) == MAX_ASKED


def test_only_the_config_map_of_the_params_helps():
    found = hints("params.a == 'b'", paramsFrom={"configMapRef": {"name": "tiers"}})

    def event(name, namespace=NAMESPACE):
        raw = {"metadata": {"name": name, "namespace": namespace}, "data": {}}
        return answer(found, "ConfigMap", Action.UPDATE_OTHER, pod(), raw, raw)

    assert (event("tiers"), event("other"), event("tiers", "elsewhere")) == (Hint.QUEUE, Hint.SKIP, Hint.SKIP)
