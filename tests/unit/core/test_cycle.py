"""The scheduling cycle, told by a recorder that takes part in every extension point. Read it beside core/cycle.py."""

import numpy as np
import pytest

from podwright.core.cycle import NO_NODES, Fault, Placement, Rejection, schedule, select_host
from podwright.core.framework import interface as fw
from podwright.core.framework.framework import Framework
from podwright.core.framework.profile import Enabled, PluginSet, Profile
from podwright.core.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod

SUCCESS = Status(Code.SUCCESS)
VICTIM = parse_pod(make_pod("victim", node="a"))


class Cycle:
    """A cycle over the nodes a, b and c. `scores`, `rejects` and the others say what the recorder answers; `calls` is
    what it was asked.
    """

    def __init__(
        self, nodes="abc", *, scores=None, rejects="", pre_filter=None, pre_score=None, post_filter=None, fails=""
    ):
        calls = self.calls = []

        class Recorder(
            fw.Plugin, fw.PreFilterPlugin, fw.FilterPlugin, fw.PostFilterPlugin, fw.PreScorePlugin, fw.ScorePlugin
        ):
            name = "Recorder"

            def pre_filter(self, _state, _pod):
                calls.append("PreFilter")
                return pre_filter

            def filter(self, _state, _pod, node):
                calls.append(f"Filter {node.name}")
                if node.name in fails:
                    raise RuntimeError("out of order")
                return unschedulable("rejected") if node.name in rejects else None

            def post_filter(self, _state, _pod, _diagnosis):
                calls.append("PostFilter")
                return post_filter or (None, unschedulable("no victims"))

            def pre_score(self, _state, _pod, feasible):
                calls.append(f"PreScore of {len(feasible)}")
                return pre_score

            def score(self, _state, _pod, node):
                calls.append(f"Score {node.name}")
                return (scores or {}).get(node.name, 0)

        world = World()
        world.fill({"nodes": [make_node(name) for name in nodes]})
        classes = {name: PLUGINS[name] for name in ("PrioritySort", "DefaultBinder")} | {"Recorder": Recorder}
        profile = Profile("podwright", {"multiPoint": PluginSet(tuple(Enabled(name, 1) for name in classes))}, {})
        self.framework = Framework(profile, classes, world)
        self.cache = world.cache

    def decide(self, *, below=lambda _count: 0, **options):
        pod = parse_pod(make_pod("p", **({"status": options.pop("status")} if "status" in options else {})))
        return schedule(self.framework, self.cache, pod, below, **options)


def test_filters_see_every_node_and_scores_only_the_feasible_ones():
    cycle = Cycle(rejects="b", scores={"a": 10, "c": 70})
    decision = cycle.decide()
    assert cycle.calls == ["PreFilter", "Filter a", "Filter b", "Filter c", "PreScore of 2", "Score a", "Score c"]
    assert isinstance(decision, Placement)
    assert (decision.node_name, decision.score, decision.runner_up) == ("c", 70, ("a", 10))
    assert (decision.evaluated, decision.feasible, decision.rejected) == (3, 2, {"Recorder": 1})


def test_a_single_feasible_node_is_taken_without_scores():
    cycle = Cycle(rejects="ac")
    decision = cycle.decide()
    assert cycle.calls == ["PreFilter", "Filter a", "Filter b", "Filter c"]
    assert (decision.node_name, decision.score, decision.runner_up) == ("b", None, None)


def test_without_a_feasible_node_post_filter_may_find_victims():
    cycle = Cycle(rejects="abc", post_filter=(fw.PostFilterResult("a", (VICTIM,)), SUCCESS))
    decision = cycle.decide()
    assert cycle.calls[-1] == "PostFilter"
    assert isinstance(decision, Rejection)
    assert (decision.nominated_node, decision.victims) == ("a", (VICTIM,))


def test_a_rejection_has_the_reasons_and_what_post_filter_says():
    decision = Cycle(rejects="abc").decide()
    assert decision.filter_message == "0/3 nodes are available: 3 rejected."
    assert decision.message == "0/3 nodes are available: 3 rejected. no victims"
    assert (decision.nominated_node, decision.victims) == (None, ())
    assert decision.status_plugins == {"Recorder"}, "their queueing hints say which events may help"


def test_a_member_of_a_pod_group_does_not_preempt_alone():
    cycle = Cycle(rejects="abc")
    assert cycle.decide(preempt=False).message == "0/3 nodes are available: 3 rejected."
    assert "PostFilter" not in cycle.calls


def test_pre_filter_may_reject_the_pod_before_any_node_is_looked_at():
    cycle = Cycle(pre_filter=unresolvable("the claim is gone"))
    decision = cycle.decide()
    assert cycle.calls == ["PreFilter", "PostFilter"]
    assert decision.filter_message == "0/3 nodes are available: the claim is gone."


def test_pre_filter_may_skip_its_filter():
    cycle = Cycle(pre_filter=SKIP, rejects="abc", pre_score=SKIP)
    assert isinstance(cycle.decide(), Placement)
    assert cycle.calls == ["PreFilter", "PreScore of 3"], "PreScore has skipped Score"


def test_pre_filter_may_name_the_only_nodes_that_can_be_feasible():
    cycle = Cycle(pre_filter=fw.PreFilterResult(frozenset("b")), rejects="b")
    decision = cycle.decide()
    assert cycle.calls == ["PreFilter", "Filter b", "PostFilter"]
    assert decision.filter_message == (
        "0/3 nodes are available: 1 rejected, 2 node(s) didn't satisfy plugin(s) [Recorder]."
    )


def test_a_feasible_nominated_node_is_taken_without_a_look_at_the_others():
    cycle = Cycle(scores={"a": 100})
    decision = cycle.decide(status={"nominatedNodeName": "b"})
    assert cycle.calls == ["PreFilter", "Filter b"]
    assert (decision.node_name, decision.evaluated) == ("b", 1)


@pytest.mark.parametrize("nominated", ["b", "gone"])
def test_a_nominated_node_that_is_not_feasible_leaves_the_choice_among_all(nominated):
    cycle = Cycle(rejects="b", scores={"c": 100})
    assert cycle.decide(status={"nominatedNodeName": nominated}).node_name == "c"


def test_within_restricts_the_nodes_that_may_be_taken():
    cycle = Cycle(scores={"a": 100})
    only_b = np.array([name == "b" for name in cycle.cache.table.names[: cycle.cache.table.size]])
    assert cycle.decide(within=only_b).node_name == "b"


def test_a_plugin_that_raises_makes_a_fault_and_no_rejection():
    decision = Cycle(fails="b").decide()
    assert isinstance(decision, Fault)
    assert decision.plugin == "Recorder"
    assert "out of order" in decision.message


def test_a_cluster_without_nodes_rejects_every_pod_and_asks_no_plugin():
    cycle = Cycle(nodes="")
    assert cycle.decide().message == NO_NODES
    assert cycle.calls == []


@pytest.mark.parametrize(
    ("total", "drawn", "expected"),
    [
        pytest.param([7], 0, (0, None), id="one node has no runner-up"),
        pytest.param([1, 9, 5], 0, (1, 2), id="the greatest total wins, the second greatest is the runner-up"),
        pytest.param([5, 9, 5], 0, (1, 0), id="of equal runners-up the first is named"),
        pytest.param([9, 1, 9, 9], 0, (0, 3), id="equals are drawn: the first"),
        pytest.param([9, 1, 9, 9], 2, (3, 2), id="equals are drawn: the last, and the one before is the runner-up"),
    ],
)
def test_the_host_with_the_greatest_total_is_selected(total, drawn, expected):
    counts = []
    assert select_host(np.array(total), lambda count: counts.append(count) or drawn) == expected
    assert counts in ([], [total.count(max(total))])


def test_a_cycle_changes_nothing():
    cycle = Cycle(scores={"a": 1})
    before = {name: (info.requested.copy(), dict(info.pods)) for name, info in cycle.cache.nodes.items()}
    cycle.decide()
    assert {name: (info.requested, dict(info.pods)) for name, info in cycle.cache.nodes.items()} == before
