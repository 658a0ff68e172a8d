import pytest

from podwright.core.framework.cluster_events import Hint
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.taint_toleration import TaintToleration
from support.objects.builders import make_node, make_pod, make_taint
from support.plugins.kit import build, make_cache, pending, scores, verdicts

UNTOLERATED = "node(s) had untolerated taint(s)"
DEDICATED = make_taint("dedicated", "gpu")


def tolerating(*tolerations):
    return pending(spec={"tolerations": list(tolerations)})


@pytest.mark.parametrize(
    "taint, toleration, passes",
    [
        pytest.param(DEDICATED, None, False, id="a NoSchedule taint rejects a pod without tolerations"),
        pytest.param(make_taint("k", "v", "NoExecute"), None, False, id="a NoExecute taint rejects it, too"),
        pytest.param(
            make_taint("k", "v", "PreferNoSchedule"), None, True, id="a PreferNoSchedule taint rejects no pod"
        ),
        pytest.param(DEDICATED, {"key": "dedicated", "value": "gpu"}, True, id="no operator means Equal"),
        pytest.param(
            DEDICATED, {"key": "dedicated", "value": "cpu"}, False, id="Equal with another value does not tolerate"
        ),
        pytest.param(
            DEDICATED, {"key": "dedicated"}, False, id="Equal without a value does not tolerate a taint with one"
        ),
        pytest.param(DEDICATED, {"key": "dedicated", "operator": "Exists"}, True, id="Exists tolerates every value"),
        pytest.param(DEDICATED, {"operator": "Exists"}, True, id="Exists without a key tolerates every taint"),
        pytest.param(
            DEDICATED,
            {"operator": "Exists", "effect": "NoExecute"},
            False,
            id="a toleration of another effect does not tolerate",
        ),
        pytest.param(
            DEDICATED,
            {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
            True,
            id="a toleration of the same effect tolerates",
        ),
        pytest.param(
            make_taint("mem", "5"),
            {"key": "mem", "operator": "Gt", "value": "3"},
            False,
            id="without its gate Gt tolerates nothing",
        ),
    ],
)
def test_filter(taint, toleration, passes):
    plugin = build(TaintToleration, make_cache([make_node("a", taints=[taint]), make_node("b")]))
    pod = tolerating(*([toleration] if toleration else []))
    assert verdicts(plugin, pod) == {"a": "" if passes else UNTOLERATED, "b": ""}


@pytest.mark.parametrize(
    "operator, value, passes",
    [
        pytest.param("Gt", "3", True, id="Gt tolerates taints with a greater value"),
        pytest.param("Gt", "5", False, id="Gt does not tolerate an equal value"),
        pytest.param("Lt", "7", True, id="Lt tolerates taints with a lower value"),
        pytest.param("Lt", "x", False, id="a value that is not a number tolerates nothing"),
    ],
)
def test_comparison_operators_with_their_gate(operator, value, passes):
    cache = make_cache([make_node("a", taints=[make_taint("mem", "5")])])
    plugin = build(TaintToleration, cache, gates={"TaintTolerationComparisonOperators": True})
    pod = tolerating({"key": "mem", "operator": operator, "value": value})
    assert verdicts(plugin, pod) == {"a": "" if passes else UNTOLERATED}


def test_every_taint_must_be_tolerated():
    plugin = build(TaintToleration, make_cache([make_node("a", taints=[DEDICATED, make_taint("other")])]))
    assert verdicts(plugin, tolerating({"key": "dedicated", "operator": "Exists"})) == {"a": UNTOLERATED}


def test_no_column_is_computed_if_all_taints_are_tolerated():
    cache = make_cache([make_node("a"), make_node("b", taints=[DEDICATED])])
    plugin = build(TaintToleration, cache)
    assert plugin.filter_all(None, tolerating({"operator": "Exists"}), cache.table) is None
    assert plugin.filter_all(None, tolerating(), cache.table) is not None


def test_a_taint_that_is_added_later_counts():
    cache = make_cache([make_node("a")])
    plugin = build(TaintToleration, cache)
    assert verdicts(plugin, tolerating()) == {"a": ""}
    cache.set_node(parse_node(make_node("a", taints=[DEDICATED])))
    assert verdicts(plugin, tolerating()) == {"a": UNTOLERATED}


@pytest.mark.parametrize(
    "disliked, expected",
    [
        pytest.param([0, 0], [100, 100], id="without untolerated taints every node scores 100"),
        pytest.param([0, 1], [100, 0], id="the only tainted node scores 0"),
        pytest.param([1, 3], [67, 0], id="scores are proportional, and 100 · 1 / 3 is truncated before subtracting"),
        pytest.param([2, 2], [0, 0], id="equally tainted nodes score 0"),
    ],
)
def test_scores(disliked, expected):
    nodes = [
        make_node(name, taints=[make_taint(f"t{i}", "", "PreferNoSchedule") for i in range(count)])
        for name, count in zip("ab", disliked, strict=True)
    ]
    plugin = build(TaintToleration, make_cache(nodes))
    assert scores(plugin, tolerating()) == dict(zip("ab", expected, strict=True))


def test_tolerated_preferences_do_not_count():
    node = make_node("a", taints=[make_taint("t", "", "PreferNoSchedule"), make_taint("u", "", "PreferNoSchedule")])
    plugin = build(
        TaintToleration, make_cache([node, make_node("b", taints=[make_taint("u", "", "PreferNoSchedule")])])
    )
    pod = tolerating({"key": "t", "operator": "Exists"})
    assert scores(plugin, pod) == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    "before, after, expected",
    [
        pytest.param(None, [], Hint.QUEUE, id="a new node without taints helps"),
        pytest.param(None, [DEDICATED], Hint.SKIP, id="a new node with the taint does not"),
        pytest.param([DEDICATED], [], Hint.QUEUE, id="removing a taint helps"),
        pytest.param([], [], Hint.SKIP, id="a node that was tolerated before does not"),
        pytest.param([DEDICATED], [DEDICATED, make_taint("x")], Hint.SKIP, id="adding another taint does not"),
    ],
)
def test_node_hint(before, after, expected):
    plugin = build(TaintToleration, make_cache())
    hint = plugin.hints()[0].function
    old = None if before is None else parse_node(make_node("a", taints=before))
    assert hint(parse_pod(make_pod()), old, parse_node(make_node("a", taints=after))) is expected
