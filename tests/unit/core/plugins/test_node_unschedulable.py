import pytest

from podwright.core.framework.cluster_events import Hint
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.node_unschedulable import NodeUnschedulable
from support.objects.builders import make_node, make_pod
from support.plugins.kit import build, make_cache, pending, verdicts

KEY = "node.kubernetes.io/unschedulable"
CORDONED = "node(s) were unschedulable"


@pytest.mark.parametrize(
    "toleration, passes",
    [
        pytest.param(None, False, id="a pod without tolerations"),
        pytest.param({"key": KEY, "operator": "Exists"}, True, id="a toleration of the cordon's taint"),
        pytest.param(
            {"key": KEY, "operator": "Exists", "effect": "NoSchedule"}, True, id="a toleration with the taint's effect"
        ),
        pytest.param(
            {"key": KEY, "operator": "Exists", "effect": "NoExecute"}, False, id="a toleration with another effect"
        ),
        pytest.param({"operator": "Exists"}, True, id="a toleration of everything"),
        pytest.param({"key": KEY, "value": "true"}, False, id="a toleration of a value, which the taint does not have"),
        pytest.param({"key": KEY}, True, id="a toleration of the empty value"),
    ],
)
def test_cordoned_nodes(toleration, passes):
    plugin = build(NodeUnschedulable, make_cache([make_node("a", unschedulable=True), make_node("b")]))
    pod = pending(spec={"tolerations": [toleration] if toleration else []})
    assert verdicts(plugin, pod) == {"a": "" if passes else CORDONED, "b": ""}


def test_without_cordoned_nodes_the_filter_computes_nothing():
    cache = make_cache([make_node("a")])
    assert build(NodeUnschedulable, cache).filter_all(None, pending(), cache.table) is None


@pytest.mark.parametrize("end", ["uncordoned", "removed"])
def test_once_no_node_is_cordoned_any_more_the_filter_computes_nothing(end):
    cache = make_cache([make_node("a", unschedulable=True), make_node("b")])
    plugin = build(NodeUnschedulable, cache)
    cache.set_node(parse_node(make_node("a", unschedulable=True)))
    assert plugin.filter_all(None, pending(), cache.table) is not None
    if end == "removed":
        cache.remove_node("a")
    else:
        cache.set_node(parse_node(make_node("a")))
    assert plugin.filter_all(None, pending(), cache.table) is None
    cache.set_node(parse_node(make_node("c", unschedulable=True)))
    assert verdicts(plugin, pending()) == dict.fromkeys("ab" if end == "uncordoned" else "b", "") | {"c": CORDONED}


@pytest.mark.parametrize(
    "before, after, expected",
    [
        pytest.param(None, False, Hint.QUEUE, id="a new schedulable node helps"),
        pytest.param(None, True, Hint.SKIP, id="a new cordoned node does not"),
        pytest.param(True, False, Hint.QUEUE, id="an uncordoned node helps"),
        pytest.param(False, False, Hint.SKIP, id="a node that was schedulable before does not"),
    ],
)
def test_node_hint(before, after, expected):
    hint = build(NodeUnschedulable, make_cache()).hints()[0].function
    old = None if before is None else parse_node(make_node("a", unschedulable=before))
    assert hint(parse_pod(make_pod()), old, parse_node(make_node("a", unschedulable=after))) is expected


@pytest.mark.parametrize(
    "key, expected",
    [
        pytest.param(KEY, Hint.QUEUE, id="a new toleration of the cordon helps"),
        pytest.param("other", Hint.SKIP, id="a new toleration of something else does not"),
    ],
)
def test_pod_hint(key, expected):
    hint = build(NodeUnschedulable, make_cache()).hints()[1].function
    after = parse_pod(make_pod(spec={"tolerations": [{"key": key, "operator": "Exists"}]}))
    assert hint(after, parse_pod(make_pod()), after) is expected
