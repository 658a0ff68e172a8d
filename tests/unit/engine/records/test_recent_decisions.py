from podwright.core.cycle import Fault, Placement
from podwright.core.framework.interface import CycleState
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.engine.records.recent_decisions import (
    LATEST,
    LONGEST,
    MOST_PODS,
    MOST_VICTIMS,
    OF_A_POD,
    RecentDecisions,
)
from support.engine.kit import Rig, deciding
from support.objects.builders import in_group, make_pod, make_pod_group


def placement(name="web", node="a"):
    return Placement(
        pod=parse_pod(make_pod(name)),
        node_name=node,
        state=CycleState(),
        score=10,
        runner_up=("b", 9),
        evaluated=2,
        feasible=2,
        rejected={"TaintToleration": 1},
    )


def test_a_placement_keeps_what_the_annotation_says():
    decisions = RecentDecisions(lambda: 7.0)
    decisions.add(placement(), "batch@2")
    (found,) = decisions.of("default/web")
    assert (found.outcome, found.at, found.policy, found.node) == ("Placed", 7.0, "batch@2", "a")
    assert (found.score, found.runner_up, found.evaluated, found.rejected) == (10, ("b", 9), 2, {"TaintToleration": 1})


def test_the_newest_decision_about_a_pod_comes_first_and_the_oldest_goes():
    decisions = RecentDecisions(lambda: 0.0)
    for number in range(OF_A_POD + 2):
        decisions.add(placement(node=f"n{number}"), "p@1")
    assert [each.node for each in decisions.of("default/web")] == ["n4", "n3", "n2"]


def test_the_pods_decided_about_longest_ago_go_first():
    decisions = RecentDecisions(lambda: 0.0)
    for number in range(MOST_PODS + 5):
        decisions.add(placement(f"p{number}"), "p@1")
        decisions.add(placement("again"), "p@1")
    assert len(decisions) == MOST_PODS
    assert decisions.of("default/again")
    assert not decisions.of("default/p0")


def test_long_messages_are_cut():
    decisions = RecentDecisions(lambda: 0.0)
    decisions.add(Fault(parse_pod(make_pod("web")), "Plugin", "x" * 10_000), "p@1")
    assert len(decisions.of("default/web")[0].message) == LONGEST


async def test_victims_and_reasons_of_a_rejection_are_kept_up_to_a_bound():
    rig = Rig()
    rig.node("a", allocatable={"pods": "100", "cpu": "1"})
    for number in range(MOST_VICTIMS + 5):
        rig.engine.assigned.put(make_pod(f"low-{number}", node="a", requests={"cpu": "60m"}))
    rig.pod("web", priority=10, requests={"cpu": "1"})
    async with deciding(rig):
        (found,) = rig.engine.decisions.of("default/web")
    assert (found.outcome, found.nominated, len(found.victims)) == ("Rejected", "a", MOST_VICTIMS)
    assert found.victim_count == MOST_VICTIMS + 5
    assert found.reasons == {"NodeResourcesFit": {"Insufficient cpu": 1}}


async def test_decisions_of_a_running_engine_are_kept():
    rig = Rig()
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        (found,) = rig.engine.decisions.of("default/web")
        assert (found.outcome, found.node, found.policy) == ("Placed", "a", "built-in-default@0")


async def test_a_rejected_group_records_a_decision_for_each_member():
    rig = Rig()
    rig.engine.cache.groups.serve(WORKLOAD_API)
    rig.node("a", allocatable={"cpu": "1"})
    rig.engine.objects(KIND).put(make_pod_group(min_count=2))
    for name in ("one", "two"):
        rig.pod(name, spec=in_group(), requests={"cpu": "1"})
    async with deciding(rig):
        for name in ("one", "two"):
            assert "minCount (2)" in rig.engine.decisions.of(f"default/{name}")[0].message


async def test_decisions_about_pods_that_are_gone_are_forgotten():
    rig = Rig()
    rig.node("a", allocatable={"pods": "1", "cpu": "1"})
    placed, waits = rig.pod("placed"), rig.pod("waits", requests={"cpu": "2"})
    async with deciding(rig):
        assert len(rig.engine.decisions) == 2
        rig.engine.pending.drop(waits["metadata"]["uid"], None)
        assert rig.engine.decisions.of("default/waits") == []
        rig.engine.pending.drop(placed["metadata"]["uid"], None)
        assert rig.engine.decisions.of("default/placed") != [], "it is on its node"
        rig.engine.assigned.drop(placed["metadata"]["uid"], None)
        assert len(rig.engine.decisions) == 0


def test_the_latest_decisions_about_all_pods_are_kept_in_their_order():
    decisions = RecentDecisions(lambda: 0.0)
    for number in range(LATEST + 5):
        decisions.add(placement(f"p{number}"), "p@1")
    assert decisions.count == LATEST + 5
    assert [key for key, _ in decisions.since(LATEST + 3)] == [f"default/p{LATEST + 3}", f"default/p{LATEST + 4}"]
    assert len(decisions.since(0)) == LATEST
    assert decisions.since(decisions.count) == []
    assert decisions.since(decisions.count + 1) == []
