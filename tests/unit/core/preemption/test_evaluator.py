import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Placement, Rejection, schedule
from podwright.core.framework.args import ArgsError, decode_args
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS, default_preemption
from podwright.core.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from podwright.core.preemption.budgets import BudgetRules
from podwright.core.preemption.evaluator import Candidate, acceptable
from podwright.core.preemption.units import Unit, split_by_budget
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod
from support.plugins.kit import NOW, build, make_cache, pending


def decide(nodes, pods, pending, budgets=(), nominated=()):
    world = World(clock=lambda: NOW)
    world.fill({"nodes": nodes, "pods": [*pods, *nominated], "podDisruptionBudgets": list(budgets)})
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    return schedule(framework, world.cache, parse_pod(pending, keep_raw=True), lambda _n: 0)


def small(name):
    return make_node(name, allocatable={"cpu": "2"})


def placed(name, node, priority=0, cpu="1", start="2023-01-01T00:00:00Z", **more):
    status = {"phase": "Running", **({"startTime": start} if start else {})}
    return make_pod(name, node=node, priority=priority, requests={"cpu": cpu}, status=status, **more)


def urgent(cpu="2", **more):
    return make_pod("urgent", priority=100, requests={"cpu": cpu}, **more)


def victims(decision):
    assert isinstance(decision, Rejection)
    return decision.nominated_node, {victim.name for victim in decision.victims}


def test_only_as_many_pods_as_needed_are_victims():
    pods = [placed("low", "a", 1), placed("lower", "a", 0)]
    assert victims(decide([small("a")], pods, urgent("1"))) == ("a", {"lower"})


def test_pods_of_equal_priority_are_no_victims():
    decision = decide([small("a")], [placed("equal", "a", 100, "2")], urgent())
    assert victims(decision) == ("", set())
    assert decision.message.endswith(
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_no_node_is_searched_for_victims_if_no_placed_pod_is_of_lower_priority(monkeypatch):
    searched = []
    monkeypatch.setattr(default_preemption, "select_victims", lambda *given: searched.append(given[3].name))
    decision = decide([small(name) for name in "ab"], [placed(f"on-{name}", name, 100, "2") for name in "ab"], urgent())
    assert decision.message.endswith(
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )
    assert searched == []


def test_a_node_that_is_too_small_when_empty_is_not_considered():
    decision = decide([small("a")], [placed("low", "a", 0)], urgent("3"))
    assert decision.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    )


def budget(name, allowed, labels, **status):
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed, **status},
    }


def test_a_node_without_budget_violations_is_preferred():
    pods = [placed("guarded", "a", 0, "2", labels={"app": "db"}), placed("free", "b", 50, "2")]
    decision = decide([small("a"), small("b")], pods, urgent(), [budget("db", 0, {"app": "db"})])
    assert victims(decision) == ("b", {"free"})


def test_pods_under_a_budget_are_reprieved_first():
    pods = [placed("guarded", "a", 0, labels={"app": "db"}), placed("free", "a", 50)]
    decision = decide([small("a")], pods, urgent("1"), [budget("db", 0, {"app": "db"})])
    assert victims(decision) == ("a", {"free"})


@pytest.mark.parametrize(
    "left, right",
    [
        pytest.param([("x", 5)], [("y", 1), ("z", 1)], id="the lower highest priority wins, even with more victims"),
        pytest.param([("w", 3), ("x", 3)], [("y", 3), ("z", 1)], id="then the lower sum of priorities"),
        pytest.param([("w", -5), ("x", -5), ("v", -5)], [("y", -5), ("z", -5)], id="fewer victims mean a lower sum"),
    ],
)
def test_the_cheaper_node_is_chosen(left, right):
    def candidate(name, pods):
        parsed = [parse_pod(placed(pod, name, priority)) for pod, priority in pods]
        return Candidate(name, tuple(parsed), 0)

    assert [c.node_name for c in acceptable([candidate("left", left), candidate("right", right)], NOW)] == ["right"]


def test_the_node_whose_victims_started_last_is_chosen_and_unstarted_pods_count_as_started_now():
    pods = [placed("old", "a", 0, "2"), placed("young", "b", 0, "2", "2023-06-01T00:00:00Z")]
    assert victims(decide([small("a"), small("b")], pods, urgent()))[0] == "b"
    pods[0] = placed("unstarted", "a", 0, "2", start=None)
    assert victims(decide([small("a"), small("b")], pods, urgent()))[0] == "a"


def test_a_pod_whose_victim_is_still_terminating_does_not_preempt_again():
    terminating = placed("terminating", "a", 0, "2", metadata={"deletionTimestamp": "2023-01-01T00:00:00Z"})
    terminating["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    ]
    decision = decide([small("a")], [terminating], urgent(status={"nominatedNodeName": "a"}))
    assert decision.nominated_node is None
    assert decision.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")


def test_resources_for_a_nominated_pod_of_equal_or_higher_priority_are_not_taken():
    nominated = make_pod("nominated", priority=200, requests={"cpu": "2"}, status={"nominatedNodeName": "a"})
    decision = decide([small("a")], [], urgent("1"), nominated=[nominated])
    assert isinstance(decision, Rejection)
    nominated["spec"]["priority"] = 50
    assert isinstance(decide([small("a")], [], urgent("1"), nominated=[nominated]), Placement)


def test_affinity_is_counted_again_without_the_victims():
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "noisy"}}}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    node = make_node("a", labels={"kubernetes.io/hostname": "a"})
    noisy = placed("noisy", "a", 0, "100m", labels={"app": "noisy"})
    quiet = placed("quiet", "a", 0, "100m")
    assert victims(decide([node], [noisy, quiet], urgent("1", spec=apart))) == ("a", {"noisy"})


@pytest.mark.parametrize(
    "budgets, violating",
    [
        pytest.param([budget("b", 1, {"app": "x"})], ["two"], id="a budget is used up in the order given"),
        pytest.param([budget("b", 2, {"app": "x"})], [], id="a budget that allows both evictions"),
        pytest.param([budget("b", 0, {})], [], id="an empty selector selects no pod"),
        pytest.param([budget("b", 1, {"app": "x"}, disruptedPods={"one": "now"})], [], id="a pod that the budget already counts as disrupted"),
        pytest.param([{**budget("b", 0, {"app": "x"}), "metadata": {"name": "b", "namespace": "other"}}], [], id="another namespace"),
        pytest.param([{"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}], [], id="a selector that is not valid"),
    ],
)  # fmt: skip
def test_budget_violations(budgets, violating):
    pods = [parse_pod(placed(name, "a", labels={"app": "x"})) for name in ("one", "two")]
    bare = parse_pod(placed("bare", "a"))
    found, others = split_by_budget([Unit((pod,), 0) for pod in (*pods, bare)], BudgetRules(budgets))
    assert [(unit.pods[0].name, count) for unit, count in found] == [(name, 1) for name in violating]
    assert len(found) + len(others) == 3


@pytest.mark.parametrize(
    "args, field",
    [
        pytest.param(DefaultPreemptionArgs(101, 1), "args.minCandidateNodesPercentage", id="more than 100 percent"),
        pytest.param(DefaultPreemptionArgs(10, -1), "args.minCandidateNodesAbsolute", id="a negative number"),
        pytest.param(DefaultPreemptionArgs(0, 0), "args", id="both are 0"),
    ],
)
def test_args_out_of_range_are_rejected_with_the_name_of_the_field(args, field):
    assert [where for where, _ in args.validate("args")] == [field]
    assert not list(DefaultPreemptionArgs().validate("args"))


def test_numbers_of_candidates_are_limited_to_32_bits():
    with pytest.raises(ArgsError, match="minCandidateNodesAbsolute: 1099511627776 is greater than 2147483647"):
        decode_args(DefaultPreemptionArgs, {"minCandidateNodesAbsolute": 2**40}, "args")


@pytest.mark.parametrize("gate", [True, False], ids=["asynchronously", "at once"])
def test_only_asynchronous_preemption_holds_the_preemptor(gate):
    plugin = build(DefaultPreemption, make_cache(), gates={"SchedulerAsyncPreemption": gate})
    pod = pending()
    plugin.started(pod.uid)
    assert (plugin.pre_enqueue(pod) is not None) is gate


def test_a_port_is_free_in_the_dry_run_once_any_of_its_users_is_removed():
    port = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}}
    pods = [make_pod("low", node="a", priority=1, **port), make_pod("high", node="a", priority=200, **port)]
    assert victims(decide([small("a")], pods, make_pod("urgent", priority=100, **port))) == ("a", {"low"})
