"""Plans of rebalancing: what moves, what stays, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podwright.core.gangs.simulation import Simulation
from podwright.core.objects.node import parse_node
from podwright.core.plugins.spread.pod_topology_spread import PodTopologySpread
from podwright.core.rebalance import planner
from podwright.core.rebalance.planner import RebalancePlanner
from podwright.simulator.rebalance import view_of
from support.gangs.highs import by_highs
from support.objects.builders import make_policy
from support.rebalance.kit import (
    GPU,
    HOSTNAME,
    ZONE,
    budget,
    carry_out,
    gang,
    item,
    loaded,
    node,
    old,
    plan_of,
    policy,
    rules,
    sharing,
)
from support.simulator.kit import copy_of, pod

GROUP = "podwright.dev/v1alpha1"


def three_nodes(*more, **spec):
    """n0 has 2 of 4 CPUs free, n1 has 3, n2 has 3."""
    return loaded(
        *(node(name) for name in ("n0", "n1", "n2")),
        old("a", "n0"),
        old("b", "n0"),
        old("c", "n1", **spec),
        old("d", "n2"),
        *more,
    )


def moves(plan):
    return [(move.pod, move.source, move.target) for move in plan.moves]


def reasons(plan):
    return [str(each) for each in plan.held_back]


def test_nodes_with_the_fewest_pods_are_emptied_onto_the_fullest():
    cluster = three_nodes()
    before = copy_of(cluster)
    plan = plan_of(cluster, rules())
    assert moves(plan) == [("default/c", "n1", "n0"), ("default/d", "n2", "n0")]
    assert plan.gain == 2
    assert [step.empties for step in plan.steps] == [["n1"], ["n2"]]
    assert copy_of(cluster) == before


def test_only_so_many_nodes_are_kept_whole_and_free():
    plan = plan_of(three_nodes(), rules(goals=[{"type": "EmptyNodes", "count": 1}]))
    assert [step.empties for step in plan.steps] == [["n1"]]
    free = node("n3")
    assert not plan_of(three_nodes(free), rules(goals=[{"type": "EmptyNodes", "count": 1}])).steps


def test_only_nodes_that_offer_enough_are_kept_free():
    gpus = node("n2")
    gpus["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    cluster = loaded(node("n0"), node("n1"), gpus, old("a", "n0"), old("b", "n0"), old("c", "n1"), old("d", "n2"))
    goal = {"type": "EmptyNodes", "count": 2, "requests": {"nvidia.com/gpu": "8"}}
    assert [step.empties for step in plan_of(cluster, rules(goals=[goal])).steps] == [["n2"]]


def with_gpus(name, cpu="8"):
    made = node(name, cpu=cpu)
    made["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    return made


GPUS = {"type": "EmptyNodes", "requests": {"nvidia.com/gpu": "8"}}


def test_nodes_that_do_not_count_are_not_emptied_by_filling_one_that_does():
    small = [each for name in ("s0", "s1") for each in (node(name, cpu="3"), old(name, name, "2"))]
    for solve in (None, by_highs):
        assert not plan_of(loaded(*small, with_gpus("g0")), rules(goals=[GPUS]), solve=solve).steps


@pytest.mark.parametrize("count", [{}, {"count": 2}])
@pytest.mark.parametrize("solve", [None, by_highs])
def test_a_node_that_does_not_count_is_filled_for_one_that_does(count, solve):
    cluster = loaded(with_gpus("g0"), with_gpus("g1"), node("s0", cpu="3"), old("a", "g0", "2"))
    plan = plan_of(cluster, rules(goals=[{**GPUS, **count}]), solve=solve)
    assert [(step.empties, step.gain) for step in plan.steps] == [(["g0"], 1)]
    assert moves(plan) == [("default/a", "g0", "s0")], "g1 counts, too"


def test_several_small_nodes_are_emptied_by_filling_a_large_one():
    """n0 to n3 have 3 of 4 CPUs in use, so none of them takes the pod of another."""
    small = [each for i in range(4) for each in (node(f"n{i}"), old(f"p{i}", f"n{i}", "3"))]
    cluster = loaded(*small, node("large", cpu="9"), node("middle", cpu="6"))
    plan = plan_of(cluster, rules())
    assert [(step.empties, step.gain) for step in plan.steps] == [(["n0", "n1", "n2"], 2)]
    assert {move.target for move in plan.moves} == {"large"}
    assert plan.steps[0].why == "empties nodes n0, n1 and n2"
    assert not plan_of(cluster, rules(maxMoves=1)).steps
    assert not plan_of(cluster, rules(minGain="700m")).steps
    carry_out(cluster, plan, rules())
    assert not plan_of(cluster, rules(cooldown="0s")).steps


def test_a_full_cluster_has_no_plan():
    cluster = loaded(node("n0"), node("n1"), old("a", "n0", "3"), old("b", "n1", "3"))
    plan = plan_of(cluster, rules())
    assert not plan.steps
    assert reasons(plan) == ["2 nodes: no other node takes all of its pods"]


def test_no_node_is_emptied_by_filling_an_empty_one():
    cluster = loaded(node("n0"), node("n1"), old("a", "n0"))
    assert reasons(plan_of(cluster, rules())) == ["1 node: the gain is too small"]


def with_shares(*strategy):
    """Of three nodes with a GPU each, n0 has 700 of 1000 in use, n1 300, and n2 both."""
    shares = {"a": ("n0", 700), "b": ("n1", 300), "c": ("n2", 700), "d": ("n2", 300)}
    nodes, pods = [node(name) for name in ("n0", "n1", "n2")], [old(name, on) for name, (on, _) in shares.items()]
    for each in nodes:
        each["status"]["allocatable"][GPU] = "1000"
    for each, (_, milli) in zip(pods, shares.values(), strict=True):
        each["spec"]["containers"][0]["resources"]["requests"][GPU] = str(milli)
    return loaded(*nodes, *pods, *map(sharing, strategy))


def test_pods_move_for_fewer_fragments_of_devices():
    goals = [{"type": "FewestFragments", "weight": 10}]
    cluster = with_shares("LeastFragmentation")
    before = copy_of(cluster)
    plan = plan_of(cluster, rules(goals=goals))
    assert moves(plan) == [("default/a", "n0", "n1")], "a share of 700 fits beside one of 300"
    assert plan.gain == 1, "that 300 of n0 are of no use to half of the pods is worth 1.5"
    assert plan.steps[0].why == "leaves fewer fragments of devices on node n0"
    assert copy_of(cluster) == before
    assert RebalancePlanner(cluster.cache, rules(goals=goals), view_of(cluster)).prove(plan.steps[0]) == ""
    assert not plan_of(cluster, rules(goals=[{"type": "FewestFragments"}])).steps, "less than a device"


@pytest.mark.parametrize("strategy", [(), ("BestFit",)], ids=["no such policy", "a policy that does not count them"])
def test_fragments_are_those_that_a_policy_counts(strategy):
    assert not plan_of(with_shares(*strategy), rules(goals=[{"type": "FewestFragments", "weight": 100}])).steps


@pytest.mark.parametrize(
    ("change", "spec", "reason"),
    [
        pytest.param({"owner": ""}, {}, "has a pod that has no controller", id="a bare pod"),
        pytest.param({"kind": "Job"}, {}, "has a pod that has no controller of the given kinds", id="a pod of a Job"),
        pytest.param({"namespace": "kube-system"}, {}, "belongs to the system", id="a namespace of the system"),
        pytest.param({"priority": 2_000_000_000}, {}, "belongs to the system", id="a critical pod"),
        pytest.param({"namespace": "podwright-system"}, {}, "belongs to the system", id="the operator's own namespace"),
        pytest.param({"labels": {"app": "db"}}, {"match": {"podSelector": {"matchLabels": {"app": "web"}}}}, "is not selected", id="not selected"),
        pytest.param({"metadata": {"creationTimestamp": "2023-11-14T22:00:00Z"}}, {}, "is younger than the cooldown", id="a young pod"),
        pytest.param({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}, {}, "forbids autoscalers to move it", id="do-not-disrupt"),
        pytest.param({"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}}, {}, "forbids autoscalers to move it", id="not safe to evict"),
        pytest.param({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}, {}, "has an emptyDir or hostPath volume", id="a pod with an emptyDir"),
        pytest.param({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/data"}}]}}, {}, "has an emptyDir or hostPath volume", id="a pod with a hostPath"),
        pytest.param({"spec": {"schedulerName": "other"}}, {}, "is of another scheduler", id="another scheduler's pod"),
        pytest.param({"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}}, {}, "is a member of a pod group", id="a member of a gang"),
        pytest.param({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}}, {}, "has resource claims", id="a pod with devices"),
        pytest.param({"spec": {"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]}}, {}, "has host ports", id="a pod with a host port"),
    ],
)  # fmt: skip
def test_what_must_not_move_keeps_its_node(change, spec, reason):
    cluster = loaded(node("n0"), node("n1"), old("a", "n0"), old("b", "n0"), old("c", "n1", **change))
    plan = plan_of(cluster, rules(**spec))
    assert all(move.pod != "default/c" for move in plan.moves)
    assert any(reason in each for each in reasons(plan)), reasons(plan)


@pytest.mark.parametrize(
    ("delegated", "reason"), [(True, "is exempted by a LocalSchedulerPolicy"), (False, "is of another scheduler")]
)
def test_a_namespace_exempts_its_pods_if_that_is_delegated(delegated, reason):
    """Otherwise the local policy is refused, so a new pod would wait."""
    whole = item(
        "SchedulerPolicy", {"metadata": {"name": "gold"}, "spec": {"delegation": {"rebalancing": delegated}}}, GROUP
    )
    metadata = {"name": "still", "namespace": "default"}
    spec = {"rebalancing": "Never", "match": {"podSelector": {"matchLabels": {"app": "db"}}}}
    cluster = three_nodes(whole, item("LocalSchedulerPolicy", {"metadata": metadata, "spec": spec}, GROUP))
    cluster.cache.set_pod(_parsed(old("c", "n1", labels={"app": "db"})))
    plan = plan_of(cluster, rules())
    assert [move.pod for move in plan.moves] == ["default/d"]
    assert reason in str(reasons(plan))


def test_pods_with_local_storage_move_with_consent_only():
    cluster = three_nodes(spec={"volumes": [{"name": "scratch", "emptyDir": {}}]})
    assert moves(plan_of(cluster, rules())) == [("default/d", "n2", "n0")]
    assert len(plan_of(cluster, rules(moveLocalStorage=True)).moves) == 2


def test_a_pod_stays_with_its_local_volume():
    on_n1 = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n1"]}]}
    claim = {"name": "data", "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    cluster = three_nodes(
        item(
            "PersistentVolumeClaim", {"metadata": claim, "spec": {"volumeName": "disk"}, "status": {"phase": "Bound"}}
        ),
        item(
            "PersistentVolume",
            {
                "metadata": {"name": "disk"},
                "spec": {
                    "local": {"path": "/disk"},
                    "claimRef": {"name": "data", "namespace": "default"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [on_n1]}},
                },
            },
        ),
        spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
    )
    plan = plan_of(cluster, rules())
    assert moves(plan) == [("default/d", "n2", "n0")]


def test_pods_of_daemon_sets_keep_no_node_from_being_emptied():
    cluster = three_nodes(old("agent", "n1", owner="agent", kind="DaemonSet"))
    assert sorted(name for step in plan_of(cluster, rules()).steps for name in step.empties) == ["n1", "n2"]


@pytest.mark.parametrize("allowed", [1, 2])
def test_budgets_bound_the_moves(allowed):
    plan = plan_of(three_nodes(budget(allowed)), rules())
    assert len(plan.moves) == allowed
    if allowed < 2:
        assert "1 node: a PodDisruptionBudget allows no disruption" in reasons(plan)
    assert "4 pods" not in str(reasons(plan))


@pytest.mark.parametrize(
    "goal",
    [
        {"type": "EmptyNodes"},
        {"type": "MakeRoom", "requests": {"cpu": "4"}, "count": 3},
        {"type": "RepairViolations"},
    ],
    ids=lambda goal: goal["type"],
)
def test_a_budget_of_nothing_is_told_with_the_pods_that_it_holds_back(goal):
    cluster = three_nodes(budget(0), node("n3", "b"), spec={"nodeSelector": {ZONE: "b"}})
    plan = plan_of(cluster, rules(goals=[goal]))
    assert not plan.steps
    held = 1 if goal["type"] == "RepairViolations" else 3 if goal["type"] == "EmptyNodes" else 4
    pods = f"{held} pod{'s' * (held > 1)}: considered, but selected by a PodDisruptionBudget that allows no disruption"
    assert pods in reasons(plan)[:2]


@pytest.mark.parametrize("more", [{}, {"kind": "DaemonSet"}], ids=["a pod", "a pod of a DaemonSet"])
def test_a_pod_on_a_node_that_is_gone_changes_no_plan(more):
    plan = plan_of(three_nodes(old("lost", "gone", **more)), rules(goals=[{"type": "EmptyNodes", "count": 2}]))
    assert moves(plan) == moves(plan_of(three_nodes(), rules(goals=[{"type": "EmptyNodes", "count": 2}]))) != []


def test_pods_of_the_system_that_a_policy_selects_are_told_and_stay():
    system = [old("dns", "n0", namespace="kube-system"), old("critical", "n2", priority=2_000_000_000)]
    agent = old("proxy", "n1", namespace="kube-system", owner="proxy", kind="DaemonSet")
    cluster = three_nodes(*system, agent)
    selected = rules(match={"podSelector": {"matchLabels": {"app": "web"}}}, goals=[{"type": "RepairViolations"}])
    told = "2 pods: selected by `match`, but of the system, whose pods never move"
    assert reasons(plan_of(cluster, selected)) == [told]
    assert told not in reasons(plan_of(cluster, rules())), "which says nothing about pods"
    plan = plan_of(cluster, replace(selected, weights=rules().weights))
    assert moves(plan) == [("default/c", "n1", "n0")]
    assert reasons(plan)[0] == told


def test_a_pod_of_two_budgets_stays():
    plan = plan_of(three_nodes(budget(5), budget(5, name="second")), rules())
    assert not plan.steps
    assert "several PodDisruptionBudgets" in reasons(plan)[0]


def test_moves_are_bounded():
    plan = plan_of(three_nodes(), rules(maxMoves=1))
    assert moves(plan) == [("default/c", "n1", "n0")]


@pytest.mark.parametrize(
    ("goal", "reason", "moved"),
    [
        ({"type": "MakeRoom", "requests": {"cpu": "5"}, "count": 2}, "2 pods: asked for by goal MakeRoom, but no node is as large", 0),
        ({"type": "MakeRoom", "requests": {"cpu": "4"}, "count": 3}, "1 pod: asked for by goal MakeRoom, but no moves make room", 2),
        ({"type": "EmptyNodes", "count": 9}, "6 nodes: asked for by goal EmptyNodes, but no other node offers as much", 2),
        ({"type": "EmptyNodes", "count": 1, "requests": {"gpu": 1}}, "1 node: asked for by goal EmptyNodes, but no other node offers as much", 0),
    ],
    ids=["larger than any node", "too many", "more nodes than there are", "nodes of no such kind"],
)  # fmt: skip
def test_a_goal_that_cannot_be_reached_says_so_and_is_reached_as_far_as_possible(goal, reason, moved):
    plan = plan_of(three_nodes(), rules(goals=[goal]))
    assert reason in reasons(plan)
    assert len(moves(plan)) == moved


def test_a_goal_that_needs_more_moves_than_allowed_now_is_not_out_of_reach():
    asked = {"type": "MakeRoom", "requests": {"cpu": "4"}, "count": 2}
    plan = plan_of(three_nodes(), rules(goals=[asked], maxMoves=1))
    assert "1 pod: gets room later, because maxMoves allows no more moves now" in reasons(plan)
    assert "asked for" not in str(reasons(plan))


def test_a_node_must_be_worth_its_moves():
    cluster = loaded(node("n0"), node("n1"), *(old(f"p{i}", "n1", "100m") for i in range(4)), old("a", "n0"))
    plan = plan_of(cluster, rules(minGain="500m"))
    assert [step.empties for step in plan.steps] == [["n0"]]
    assert reasons(plan)[0] == "1 node: has more pods than minGain allows to move"


@pytest.mark.parametrize(
    "key",
    [
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
    ],
)
def test_nodes_that_are_about_to_be_removed_neither_take_nor_give(key):
    leaving = [{"key": key, "value": "", "effect": "PreferNoSchedule"}]
    cluster = loaded(node("n0", taints=leaving), node("n1"), old("a", "n0"), old("b", "n0"), old("c", "n1"))
    assert not plan_of(cluster, rules()).steps


def test_cordoned_nodes_are_left_to_those_who_drain_them():
    tolerant = old("a", "n0", spec={"tolerations": [{"operator": "Exists"}]})
    cluster = loaded(node("n0"), node("n1", unschedulable=True), tolerant, old("b", "n1"))
    goals = [{"type": "EmptyNodes"}, {"type": "RepairViolations"}]
    assert not plan_of(cluster, rules(goals=goals)).steps


def test_no_node_is_emptied_that_a_waiting_pod_would_take():
    cluster = three_nodes(pod("waits", cpu="4", owner="waits"))
    plan = plan_of(cluster, rules())
    assert not plan.steps
    assert "2 nodes: pods wait that would take the room" in reasons(plan)


def test_a_pod_that_waits_for_something_else_holds_nothing_back():
    cluster = three_nodes(pod("waits", cpu="400", owner="waits"))
    assert plan_of(cluster, rules()).gain == 2


def test_pods_of_a_controller_that_waits_for_room_stay():
    cluster = three_nodes(pod("waits", cpu="400"))
    assert "its controller has a pod that waits" in reasons(plan_of(cluster, rules()))[0]


def test_the_constraints_of_others_are_kept():
    """c must be in the zone of d, so d does not leave it."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    cluster = loaded(
        node("n0", "a"),
        node("n1", "b"),
        node("n2", "b"),
        old("a", "n0", owner=""),
        old("d", "n1", owner="db", labels={"app": "db"}),
        old("c", "n2", "4", owner="", spec=near),
    )
    plan = plan_of(cluster, rules())
    assert not plan.steps
    assert "1 node: a constraint of another pod would be broken" in reasons(plan)


def test_pods_that_do_not_pass_their_filters_any_more_get_other_nodes():
    new_taint = [{"key": "gpu", "value": "", "effect": "NoSchedule"}]
    cluster = loaded(
        node("n0", taints=new_taint),
        node("n1"),
        old("stays", "n1"),
        old("moves", "n0"),
        old("may", "n0", spec={"tolerations": [{"key": "gpu", "operator": "Exists"}]}),
        old("bare", "n0", owner=""),
    )
    plan = plan_of(cluster, rules(goals=[{"type": "RepairViolations", "weight": 3}]))
    assert moves(plan) == [("default/moves", "n0", "n1")]
    assert plan.gain == 3
    assert "1 pod: has no controller" in reasons(plan)[0]


def required(app, kind="podAffinity"):
    """An affinity to the pods of an app in the same zone."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_a_pod_whose_affinity_does_not_hold_any_more_gets_a_node_beside_what_it_needs():
    """The database was in zone a, and its controller has created it again in zone b."""
    cluster = loaded(
        node("n0", "a"),
        node("n1", "b"),
        old("db", "n1", owner="db", labels={"app": "db"}),
        old("near", "n0", owner="near", labels={"app": "near"}, spec=required("db")),
        old("web", "n0"),
    )
    repair = rules(goals=[{"type": "RepairViolations", "weight": 3}])
    plan = plan_of(cluster, repair)
    assert moves(plan) == [("default/near", "n0", "n1")]
    assert (plan.gain, plan.steps[0].why) == (3, "its node does not pass its filters any more")
    carry_out(cluster, plan, repair)
    assert not plan_of(cluster, repair).steps


def test_one_move_repairs_all_pods_whose_affinity_holds_again_by_that():
    """Two bare pods keep away from noise, which their terms keep away, too. Only noise can move."""
    spec = required("noise", "podAntiAffinity")
    quiet = [old(name, "n0", owner="", labels={"app": "quiet"}, spec=spec) for name in ("a", "b")]
    noise = old("noise", "n0", owner="noise", labels={"app": "noise"})
    plan = plan_of(loaded(node("n0", "a"), node("n1", "b"), *quiet, noise), rules(goals=[{"type": "RepairViolations"}]))
    assert moves(plan) == [("default/noise", "n0", "n1")]
    assert plan.gain == 3


def test_one_move_repairs_the_spread_of_pods_over_zones():
    """A zone has come. Until a pod moves there, none would be placed again where it is."""
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **selector}
    spread = {"topologySpreadConstraints": [constraint]}
    pods = [old(name, on, spec=spread) for name, on in (("a", "n0"), ("b", "n0"), ("c", "n1"))]
    cluster = loaded(node("n0", "a"), node("n1", "b"), node("n2", "c"), *pods)
    repair = rules(goals=[{"type": "RepairViolations"}])
    plan = plan_of(cluster, repair)
    assert moves(plan) == [("default/a", "n0", "n2")]
    assert plan.gain == 2
    carry_out(cluster, plan, repair)
    assert not plan_of(cluster, repair).steps


def test_a_pod_that_its_changed_policy_does_not_allow_on_its_node_gets_another_one():
    """The policy keeps its pods out of zone a from its second generation on."""
    zone = {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone]}}
    changed = [{"name": "NodeAffinity", "args": {"addedAffinity": added}}]
    cluster = loaded(node("n0", "a"), node("n1", "b"), old("a", "n0"), old("b", "n1"))
    repair = rules(goals=[{"type": "RepairViolations"}])
    for generation, config, expected in ((1, [], []), (2, changed, [("default/a", "n0", "n1")])):
        assert cluster.policies.apply(make_policy("gold", generation, "gold", pluginConfig=config)).accepted
        plan = plan_of(cluster, repair)
        assert moves(plan) == expected
    carry_out(cluster, plan, repair)
    assert not plan_of(cluster, repair).steps


def test_two_pods_of_one_spread_are_not_moved_into_its_way():
    spread = {"topologyKey": HOSTNAME, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spec = {"topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": {"app": "web"}}}]}
    cluster = loaded(
        *(node(name) for name in ("n0", "n1", "n2")), *(old(f"p{i}", f"n{i}", spec=spec) for i in range(3))
    )
    assert not plan_of(cluster, rules()).steps


def test_one_pod_of_each_zone_is_asked_whether_a_move_breaks_its_spread(monkeypatch):
    spread = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spec = {"topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": {"app": "web"}}}]}
    nodes = [node(f"n{i}", "abc"[i % 3], cpu="8") for i in range(30)]
    cluster = loaded(*nodes, *(old(f"p{i}", f"n{i % 30}", spec=spec) for i in range(60)))
    asked, filter_one = [], PodTopologySpread.filter
    monkeypatch.setattr(PodTopologySpread, "filter", lambda *args: asked.append(args) or filter_one(*args))
    plan = plan_of(cluster, rules())
    assert len(plan.moves) > 20
    assert len(asked) <= 3 + 3 * len(plan.moves)


def test_what_the_spread_of_a_template_counts_is_counted_once_for_each_move(monkeypatch):
    spread = {"topologyKey": HOSTNAME, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
    spec = {"topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": {"app": "web"}}}]}
    nodes = [node(f"n{i:02}", cpu="8") for i in range(40)]
    cluster = loaded(*nodes, *(old(f"p{i}", f"n{i:02}", spec=spec) for i in range(30)))
    counted, pre_filter = [], PodTopologySpread.pre_filter
    monkeypatch.setattr(PodTopologySpread, "pre_filter", lambda *args: counted.append(args) or pre_filter(*args))
    plan = plan_of(cluster, rules())
    assert len(plan.moves) == 15, "two pods on a node"
    assert len(counted) <= 3 * (len(plan.moves) + len(plan.held_back) + 1), "not once for each of the other 29 pods"
    carry_out(cluster, plan, rules())


ROOM = {"type": "MakeRoom", "requests": {"cpu": "3"}}


def test_room_is_made_with_as_few_moves_as_possible():
    cluster = loaded(
        *(node(name) for name in ("n0", "n1", "n2")),
        *(old(f"s{i}", "n0", "500m") for i in range(4)),
        old("big", "n1", "2"),
        *(old(f"t{i}", "n2", "500m") for i in range(4)),
    )
    plan = plan_of(cluster, rules(goals=[ROOM]))
    assert moves(plan) == [("default/big", "n1", "n0")]
    assert plan.gain == 1
    assert plan.steps[0].why == "makes room on node n1"


def test_room_that_is_there_needs_no_moves():
    assert not plan_of(loaded(node("n0"), node("n1"), old("a", "n0")), rules(goals=[ROOM])).steps


def test_room_is_made_for_as_many_pods_as_are_asked_for():
    nodes = [node(f"n{i}") for i in range(4)]
    cluster = loaded(*nodes, *(old(f"p{i}", f"n{i}", "2") for i in range(4)))
    assert [plan_of(cluster, rules(goals=[{**ROOM, "count": count}])).gain for count in (1, 2, 3)] == [1, 2, 2]


def racks(*pods, count=1, domains=2, **spec):
    """Racks a, b, c and d have two nodes with 4 CPUs each, f0 and f1 are in none, and have room for 7 CPUs each."""
    nodes = [node(f"{rack}{i}", rack) for rack in "abcd" for i in range(2)]
    free = [node(name, cpu="16") for name in ("f0", "f1")]
    used = [old(f"on-{each}", each, "9", owner="") for each in ("f0", "f1")]
    for each in free:
        del each["metadata"]["labels"][ZONE]
    goal = {**ROOM, "count": count, "topologyKey": ZONE, "domains": domains}
    return loaded(*nodes, *free, *used, *pods), rules(goals=[goal], **spec)


def on_all(*but):
    """A pod of 2 CPUs on each node of the racks but these."""
    return [old(name, name, "2") for rack in "abcd" for i in "01" if (name := f"{rack}{i}") not in but]


def test_room_is_made_in_as_many_domains_as_are_asked_for_by_the_fewest_moves():
    many = [old(f"{rack}{i}-{n}", f"{rack}{i}", "500m") for rack in "ac" for i in "01" for n in range(4)]
    cluster, asked = racks(*many, *on_all("a0", "a1", "c0", "c1"))
    before = copy_of(cluster)
    plan = plan_of(cluster, asked)
    assert copy_of(cluster) == before
    steps = [(step.why, step.gain, len(step.moves)) for step in plan.steps]
    assert steps == [("makes room in zone b", 1, 1), ("makes room in zone d", 1, 1)]
    assert not plan.held_back
    carry_out(cluster, plan, asked)
    assert not plan_of(cluster, replace(asked, cooldown=0.0)).steps


def test_each_domain_gets_room_for_all_of_its_pods_or_nothing_moves_there():
    """In rack a, a bare pod stays, so there is room for one of two at most."""
    cluster, asked = racks(old("bare", "a0", "2", owner=""), *on_all("a0"), count=2, domains=4)
    plan = plan_of(cluster, asked)
    assert [(step.domain, step.gain, len(step.moves)) for step in plan.steps] == [
        (f"zone {zone}", 2, 2) for zone in "bcd"
    ]
    assert "1 domain: asked for by goal MakeRoom, but no moves make room" in reasons(plan)
    carry_out(cluster, plan, asked)
    assert not plan_of(cluster, replace(asked, cooldown=0.0)).steps


def test_a_node_that_takes_pods_gives_none_away_for_room_in_its_domain():
    pods = old("on-a", "a0", "2"), old("p", "b0", "2"), old("q", "b0", "2")
    cluster = loaded(node("a0", "a"), node("b0", "b", "6"), node("free", "c", "16"), *pods)
    plan = plan_of(cluster, rules(goals=[{**ROOM, "topologyKey": ZONE, "domains": 3}]))
    assert moves(plan) == [("default/on-a", "a0", "b0")]
    assert "1 domain: asked for by goal MakeRoom, but no moves make room" in reasons(plan)


def test_a_move_that_gives_its_domain_no_more_room_is_left_out():
    """The pod of a0 can go to a1 alone, and would take as much room there."""
    free = node("f0", "f", "16")
    pods = old("p", "a0", spec={"nodeSelector": {ZONE: "a"}}), old("q", "a2", "3500m"), old("x", "f0", "9", owner="")
    cluster = loaded(*(node(f"a{i}", "a") for i in range(3)), free, *pods)
    goal = {"type": "MakeRoom", "requests": {"cpu": "4"}, "topologyKey": ZONE, "count": 2, "domains": 1}
    assert moves(plan_of(cluster, rules(goals=[goal]))) == [("default/q", "a2", "f0")]


def test_a_node_of_a_domain_is_tried_after_many_that_failed_if_not_in_a_row(monkeypatch):
    monkeypatch.setattr(planner, "MOST_FAILED", 2)
    stuck = [old(f"stuck{i}", f"a{i}", "2", spec=stuck_on(f"a{i}")) for i in (0, 2)]
    nodes = [node(f"a{i}", "a") for i in range(4)]
    pods = [old(f"p{i}", f"a{i}", "2") for i in (1, 3)]
    cluster = loaded(*nodes, node("f0", "f", "16"), old("x", "f0", "9", owner=""), *stuck, *pods)
    goal = {"type": "MakeRoom", "requests": {"cpu": "4"}, "topologyKey": ZONE, "count": 2, "domains": 1}
    assert [move.source for move in plan_of(cluster, rules(goals=[goal])).moves] == ["a1", "a3"]


@pytest.mark.parametrize("count", [1, 2])
def test_room_of_another_domain_is_not_spent(count):
    """a0 is fuller than c0 and has room that counts, all of which it needs."""
    sizes = {"a0": ("a", "16"), "b0": ("b", "4"), "b1": ("b", "4"), "c0": ("c", "10")}
    nodes = [node(name, zone, cpu) for name, (zone, cpu) in sizes.items()]
    pods = (
        old("x", "a0", str(16 - 4 * count), owner=""),
        old("p", "b0", "1"),
        old("y", "c0", "7" if count == 1 else "3", owner=""),
    )
    b1 = [] if count == 2 else [old("z", "b1", "1", owner="")]
    goal = {"type": "MakeRoom", "requests": {"cpu": "4"}, "topologyKey": ZONE, "count": count, "domains": 2}
    plan = plan_of(loaded(*nodes, *pods, *b1), rules(goals=[goal]))
    assert (moves(plan), plan.gain) == ([("default/p", "b0", "c0")], count)


def test_room_of_another_node_is_not_spent():
    cluster = loaded(
        node("a0", cpu="16"), old("x", "a0", "12", owner=""), node("b0"), old("p", "b0", "1"),
        node("c0", cpu="10"), old("y", "c0", "7", owner=""),
    )  # fmt: skip
    plan = plan_of(cluster, rules(goals=[{"type": "MakeRoom", "requests": {"cpu": "4"}, "count": 2}]))
    assert (moves(plan), plan.gain) == ([("default/p", "b0", "c0")], 1)


def test_a_pod_without_requests_does_not_take_the_last_place_of_a_node_with_room():
    nodes = [node("a0"), node("b0", cpu="3"), node("s0", cpu="1")]
    nodes[0]["status"]["allocatable"]["pods"] = "2"
    empty = old("z", "s0")
    empty["spec"]["containers"][0]["resources"] = {}
    cluster = loaded(*nodes, old("x", "a0", "2", owner=""), old("y", "b0", "1400m", owner=""), empty)
    goals = [{"type": "MakeRoom", "requests": {"cpu": "2"}, "count": 1}, {"type": "EmptyNodes"}]
    assert moves(plan_of(cluster, rules(goals=goals))) == [("default/z", "s0", "b0")]


def test_a_pod_does_not_move_into_the_room_that_is_made_in_its_domain():
    cluster = loaded(
        *(node(name, "a") for name in ("a0", "a1")), node("f0", "f", "16"), old("x", "f0", "5", owner=""),
        old("p", "a0", "1"), old("q", "a1", "1"), old("r", "a1", "1"),
    )  # fmt: skip
    goal = {"type": "MakeRoom", "requests": {"cpu": "2"}, "topologyKey": ZONE, "count": 4, "domains": 2}
    (step,) = plan_of(cluster, rules(goals=[goal])).steps
    assert [(move.source, move.target) for move in step.moves] == [("a0", "f0"), ("a1", "f0"), ("a1", "f0")]


def stuck_on(name):
    here = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    return {"affinity": {"nodeAffinity": required}}


def test_a_node_whose_pods_find_no_place_is_passed_over_for_another_one_of_its_domain():
    cluster, asked = racks(old("stuck", "a0", "2", spec=stuck_on("a0")), *on_all()[1:], domains=4)
    plan = plan_of(cluster, asked)
    assert [step.domain for step in plan.steps] == ["zone a", "zone b", "zone c", "zone d"]
    assert plan.moves[0].source == "a1"


@pytest.mark.parametrize(
    ("goal", "more"),
    [
        ({}, []),
        ({}, [pod("waits", cpu="4", owner="w", labels={"app": "waits"})]),
        ({"count": 1}, [node("z0", "z", "1")]),
    ],
    ids=["empty nodes count", "a pod waits for the room", "no more are to be empty"],
)
def test_a_node_that_becomes_empty_is_no_room_in_a_domain(goal, more):
    """The pod of a0 can move, that of a1 cannot."""
    pods = old("p", "a0", "2"), old("stuck", "a1", "2", spec=stuck_on("a1")), old("x", "b0", "13", owner="")
    cluster = loaded(node("a0", "a"), node("a1", "a"), node("b0", "b", "16"), *pods, *more)
    racks = {"type": "MakeRoom", "requests": {"cpu": "4"}, "topologyKey": ZONE, "count": 2, "domains": 1}
    empty = {"type": "EmptyNodes", **goal}
    alone = plan_of(cluster, rules(goals=[empty]))
    assert plan_of(cluster, rules(goals=[racks, empty])).steps == alone.steps
    assert [step.empties for step in alone.steps] == ([] if more else [["a0"]])


@pytest.mark.parametrize("waits", [[], [pod("waits", cpu="4", owner="w", labels={"app": "waits"})]])
def test_what_makes_room_gains_no_empty_node_that_a_waiting_pod_would_take(waits):
    cluster = loaded(node("n0"), node("n1"), old("a", "n0", "2"), old("b", "n1", "2"), *waits)
    (step,) = plan_of(cluster, rules(goals=[{**ROOM, "requests": {"cpu": "4"}}, {"type": "EmptyNodes"}])).steps
    assert (step.makes_room, step.gain) == ("n0", 1 if waits else 2)


@pytest.mark.parametrize(
    ("goal", "spec", "reason"),
    [
        ({"domains": 6}, {}, "2 domains: asked for by goal MakeRoom, but the nodes have 4 values of topology.kubernetes.io/zone"),
        ({"topologyKey": "rak"}, {}, "2 domains: asked for by goal MakeRoom, but the nodes have 0 values of rak"),
        ({"count": 3}, {}, "2 domains: asked for by goal MakeRoom, but no domain is as large"),
        ({"requests": {"cpu": "4"}, "domains": 4}, {"match": {"podSelector": {"matchLabels": {"no": "pod"}}}}, "4 domains: asked for by goal MakeRoom, but no moves make room"),
        ({}, {"maxMoves": 1}, "1 domain: gets room later, because maxMoves allows no more moves now"),
    ],
    ids=["more domains than there are", "no such label", "more room than a domain has", "pods that stay", "maxMoves"],
)  # fmt: skip
def test_domains_without_room_are_held_back_with_the_reason(goal, spec, reason):
    cluster, asked = racks(*on_all(), **spec)
    asked = rules(goals=[{**ROOM, "topologyKey": ZONE, "domains": 2, **goal}], **spec)
    assert reason in reasons(plan_of(cluster, asked))


def test_a_move_that_has_begun_counts_for_the_room_that_it_makes():
    cluster = loaded(
        *(node(name) for name in ("n0", "n1")), *(old(f"s{i}", "n0") for i in range(2)), old("a", "n1"), old("b", "n1")
    )
    (step,) = plan_of(cluster, rules(goals=[{**ROOM, "requests": {"cpu": "4"}}])).steps
    assert len(step.moves) == 2
    first, second = step.moves
    leaves = replace(cluster.cache.placement(first.uid).pods[first.uid], terminating=True)
    cluster.cache.set_pod(leaves)
    cluster.cache.set_pod(replace(leaves, uid="again", node_name=first.target, terminating=False))
    left = replace(step, moves=[second])
    assert proved(cluster, left, goals=[{**ROOM, "requests": {"cpu": "4"}}]) == ""


def proved(cluster, step, begun=False, **spec):
    return RebalancePlanner(cluster.cache, rules(**spec), view_of(cluster)).prove(step, begun=begun)


RACK = {"type": "MakeRoom", "requests": {"cpu": "4"}, "topologyKey": ZONE, "count": 2, "domains": 1}
NODE = {"type": "MakeRoom", "requests": {"cpu": "4"}, "count": 2}


def one_move_later(goal):
    """The first of the two moves after which there is room is made. Returns the other one, too."""
    on_b = [old(f"{name}-stays", name, "13", owner="") for name in ("b0", "b1")]
    where = {"p": "a0", "q": "a1"} if goal is RACK else {"p": "a0", "q": "a0"}
    sizes = {"a0": "4", "a1": "4"} if goal is RACK else {"a0": "8"}
    nodes = [*(node(name, "a", cpu) for name, cpu in sizes.items()), node("b0", "b", "16"), node("b1", "b", "16")]
    cluster = loaded(*nodes, *on_b, *(old(name, on, "2") for name, on in where.items()))
    (step,) = plan_of(cluster, rules(goals=[goal])).steps
    first, _ = step.moves
    there = cluster.cache.placement(first.uid).pods[first.uid]
    cluster.cache.set_pod(replace(there, terminating=True))
    cluster.cache.set_pod(replace(there, uid="again", node_name=first.target))
    return cluster, replace(step, moves=step.moves[1:]), first


@pytest.mark.parametrize("goal", [RACK, NODE], ids=["room in a rack", "room on a node"])
def test_a_step_that_has_begun_ends_once_its_room_is_lost(goal):
    cluster, left, first = one_move_later(goal)
    assert proved(cluster, left, begun=True, goals=[goal]) == "", "what leaves makes room"
    cluster.cache.remove_pod(first.uid)
    assert proved(cluster, left, begun=True, goals=[goal]) == ""
    cluster.cache.set_pod(_parsed(old("comes", first.source, "2")))
    assert proved(cluster, left, begun=True, goals=[goal]) == "its moves would make no room"


def test_a_step_that_has_begun_ends_once_there_is_room_without_its_other_moves():
    cluster, left, _ = one_move_later(RACK)
    cluster.cache.set_node(replace(cluster.cache.present("b0").present, labels={HOSTNAME: "b0", ZONE: "a"}))
    cluster.cache.remove_pod("default/b0-stays")
    assert proved(cluster, left, begun=True, goals=[RACK]) == "its moves would make no room"


@pytest.mark.parametrize("name", ["a0", "a1"])
def test_a_step_that_has_begun_ends_once_a_node_is_in_another_domain(name):
    cluster, left, first = one_move_later(RACK)
    cluster.cache.remove_pod(first.uid)
    cluster.cache.set_node(replace(cluster.cache.present(name).present, labels={HOSTNAME: name, ZONE: "c"}))
    own = left.moves[0].source == name
    refused = "not all of its nodes are in zone a any more" if own else "its moves would make no room"
    assert proved(cluster, left, begun=True, goals=[RACK]) == refused


def test_a_step_is_refused_once_the_cluster_has_changed():
    cluster = three_nodes()
    step = plan_of(cluster, rules()).steps[0]
    assert proved(cluster, step) == ""
    cluster.cache.set_pod(_parsed(old("new", "n1")))
    assert proved(cluster, step) == "other pods have come to node n1"
    cluster.cache.remove_pod("default/new")
    cluster.cache.set_pod(_parsed(old("big", "n0", "2")))
    assert proved(cluster, step) == "node n0 does not take pod default/c any more"
    cluster.cache.remove_pod("default/big")
    assert proved(cluster, step) == ""
    cluster.cache.remove_pod("default/c")
    assert proved(cluster, step) == "pod default/c is not on node n1 any more"


@pytest.mark.parametrize("quick", [False, True])
def test_a_step_is_refused_once_one_of_its_nodes_is_about_to_be_removed(quick):
    cluster = three_nodes()
    step = plan_of(cluster, rules()).steps[0]
    info = cluster.cache.present
    leaving = parse_node(
        node("n", taints=[{"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}])
    )

    def proved_with(name, **change):
        before = info(name).present
        cluster.cache.set_node(replace(before, **change))
        try:
            only = step.moves[0] if quick else None
            return RebalancePlanner(cluster.cache, rules(), view_of(cluster)).prove(step, only=only)
        finally:
            cluster.cache.set_node(before)

    assert proved_with("n0", taints=leaving.taints) == "node n0 does not take pod default/c any more"
    refused = "node n1 is cordoned, has a taint of its state, or is about to be removed"
    assert proved_with("n1", taints=leaving.taints) == proved_with("n1", unschedulable=True) == refused
    assert proved_with("n2", taints=leaving.taints) == ""


def _parsed(raw):
    from podwright.core.objects.readable import parse_assigned_pod

    return parse_assigned_pod(raw)[0]


def test_the_name_of_a_policy_is_that_of_its_plan():
    assert plan_of(three_nodes(), rules()).as_dict()["policy"] == policy()["metadata"]["name"]


def test_the_last_look_before_a_move_asks_nothing_of_pods_that_stay():
    """It is one piece of work of the loop, which waits for it: with 100,000 pods, half a second."""
    asked = rules(goals=[{"type": "EmptyNodes"}, {"type": "FewestFragments"}])
    cluster = three_nodes(*(old(f"stays{number}", "n2", "0", owner="other") for number in range(20)))
    step = next(step for step in plan_of(cluster, asked).steps if step.empties == ["n1"])
    view, about = view_of(cluster), []
    counted = replace(view, framework_of=lambda pod: about.append(pod.name) or view.framework_of(pod))
    assert not RebalancePlanner(cluster.cache, asked, counted).prove(step, only=step.moves[0])
    assert {*about} == {"c"}


def test_the_last_look_before_a_move_finds_no_node_for_the_other_moves():
    cluster, asked = racks(*on_all(), count=2)
    step = plan_of(cluster, asked).steps[0]
    view, about = view_of(cluster), []
    counted = replace(view, framework_of=lambda pod: about.append(pod.name) or view.framework_of(pod))

    def look():
        return RebalancePlanner(cluster.cache, asked, counted).prove(step, only=step.moves[0])

    assert len(step.moves) == 2
    assert look() == ""
    assert {*about} == {step.moves[0].pod.partition("/")[2]}
    other = cluster.cache.present(step.moves[1].source).present
    cluster.cache.set_node(replace(other, unschedulable=True))
    assert look() == f"node {other.name} is cordoned, has a taint of its state, or is about to be removed"
    cluster.cache.set_node(other)
    cluster.cache.remove_pod(step.moves[1].uid)
    assert look() == f"pod {step.moves[1].pod} is not on node {other.name} any more"


class Elapsed:
    """A second more with each look."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self):
        self.seconds += 1.0
        return self.seconds


def hostile(count):
    """Pods of a tenant, each with its own labels, that must be in a zone with a pod app=web of any namespace."""
    term = {"topologyKey": ZONE, "namespaceSelector": {}, "labelSelector": {"matchLabels": {"app": "web"}}}
    spec = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    return [old(f"h{i}", "big", "0", owner="", labels={"app": f"h{i}"}, spec=spec) for i in range(count)]


@pytest.mark.parametrize(
    "goal",
    [
        {"type": "EmptyNodes"},
        {"type": "MakeRoom", "requests": {"cpu": "4"}, "count": 9},
        {"type": "MakeRoom", "requests": {"cpu": "4"}, "count": 1, "topologyKey": HOSTNAME, "domains": 9},
    ],
    ids=["nodes to empty", "room on nodes", "room in domains"],
)
def test_a_plan_that_takes_long_has_what_was_found_until_then(goal):
    """With each move, all hostile pods are asked."""
    nodes = [each for i in range(9) for each in (node(f"n{i}"), old(f"p{i}", f"n{i}"))]
    cluster = loaded(node("big", cpu="15"), old("stays", "big", "3", owner=""), *nodes, *hostile(5))
    asked, before = rules(goals=[goal]), copy_of(cluster)
    view = replace(view_of(cluster), elapsed=Elapsed(planner.PLAN_SECONDS - 40))
    plan = RebalancePlanner(cluster.cache, asked, view).plan()
    assert copy_of(cluster) == before
    assert 0 < len(plan.moves) < len(plan_of(cluster, asked).moves)
    assert any("the plan has taken 12 s before" in each for each in reasons(plan))
    carry_out(cluster, plan, asked)


def test_the_plan_of_a_large_gang_ends_with_the_time_of_the_plan(monkeypatch):
    """The members of the second gang are not all scheduled, and the room of the first is still made."""
    scheduled, schedule = [], Simulation.schedule
    monkeypatch.setattr(Simulation, "schedule", lambda self, pod: scheduled.append(pod.name) or schedule(self, pod))
    nodes = [each for i in range(4) for each in (node(f"n{i}"), old(f"p{i}", f"n{i}"))]
    cluster = loaded(*nodes, *gang("first", 1, "4"), *gang("second", 40, "1m", created="2023-11-14T01:00:00Z"))
    asked, before = rules(goals=[{"type": "MakeRoom", "gangs": ["*"]}]), copy_of(cluster)
    view = replace(view_of(cluster), elapsed=Elapsed(planner.PLAN_SECONDS - 20))
    plan = RebalancePlanner(cluster.cache, asked, view).plan()
    assert copy_of(cluster) == before
    assert [step.why for step in plan.steps] == ["makes room for pod group default/first"]
    assert "1 pod group: the plan has taken 12 s before" in reasons(plan)
    assert 0 < sum(name.startswith("second") for name in scheduled) < 40


def test_pods_that_are_not_looked_at_in_time_are_not_repaired():
    cluster = loaded(node("n0"), *(old(f"p{i}", "n0") for i in range(3)))
    view = replace(view_of(cluster), elapsed=Elapsed(planner.PLAN_SECONDS))
    plan = RebalancePlanner(cluster.cache, rules(goals=[{"type": "RepairViolations"}]), view).plan()
    assert reasons(plan) == ["3 pods: the plan has taken 12 s before"]


def test_moves_that_are_undone_leave_what_is_known_of_the_pods_that_notice_them(monkeypatch):
    """The pod of each of the nodes would fill an empty one."""
    asked, broken_of = [], RebalancePlanner.broken_of

    def counted(planner, pods):
        asked.extend(pods)
        return broken_of(planner, pods)

    monkeypatch.setattr(RebalancePlanner, "broken_of", counted)
    nodes = [each for i in range(4) for each in (node(f"n{i}"), old(f"p{i}", f"n{i}", "3"))]
    assert not plan_of(loaded(node("big", cpu="1"), node("free"), *nodes, *hostile(10)), rules(maxMoves=1)).steps
    assert len(asked) == 10 + 5 * 10, "before the first of five candidates, and after each"
