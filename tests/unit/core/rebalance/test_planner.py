"""Plans of rebalancing: what moves, what stays, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.rebalance.planner import RebalancePlanner
from podwright.simulator.rebalance import view_of
from support.objects.builders import make_policy
from support.rebalance.kit import HOSTNAME, ZONE, budget, carry_out, item, loaded, node, old, plan_of, policy, rules
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


GPU = "example.com/gpu-milli"


def with_shares(*strategy):
    """Of three nodes with a GPU each, n0 has 700 of 1000 in use, n1 300, and n2 both."""
    shares = {"a": ("n0", 700), "b": ("n1", 300), "c": ("n2", 700), "d": ("n2", 300)}
    nodes, pods = [node(name) for name in ("n0", "n1", "n2")], [old(name, on) for name, (on, _) in shares.items()]
    for each in nodes:
        each["status"]["allocatable"][GPU] = "1000"
    for each, (_, milli) in zip(pods, shares.values(), strict=True):
        each["spec"]["containers"][0]["resources"]["requests"][GPU] = str(milli)
    devices = [{"resource": GPU, "unitsPerDevice": 1000}]
    policies = [make_policy(strategy={"type": each}, sharedDevices=devices) for each in strategy]
    return loaded(*nodes, *pods, *(item("SchedulerPolicy", each, "podwright.dev/v1alpha1") for each in policies))


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


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_budgets_bound_the_moves(allowed):
    plan = plan_of(three_nodes(budget(allowed)), rules())
    assert len(plan.moves) == allowed
    if allowed < 2:
        assert f"{2 - allowed + (allowed == 0)} node" in reasons(plan)[0]


def test_a_pod_of_two_budgets_stays():
    plan = plan_of(three_nodes(budget(5), budget(5, name="second")), rules())
    assert not plan.steps
    assert "several PodDisruptionBudgets" in reasons(plan)[0]


def test_moves_are_bounded():
    plan = plan_of(three_nodes(), rules(maxMoves=1))
    assert moves(plan) == [("default/c", "n1", "n0")]


def test_a_node_must_be_worth_its_moves():
    cluster = loaded(node("n0"), node("n1"), *(old(f"p{i}", "n1", "100m") for i in range(4)), old("a", "n0"))
    plan = plan_of(cluster, rules(minGain="500m"))
    assert [step.empties for step in plan.steps] == [["n0"]]
    assert reasons(plan)[0] == "1 node: has more pods than minGain allows to move"


def test_nodes_that_are_about_to_be_removed_neither_take_nor_give():
    leaving = [{"key": "DeletionCandidateOfClusterAutoscaler", "value": "", "effect": "PreferNoSchedule"}]
    cluster = loaded(node("n0", taints=leaving), node("n1"), old("a", "n0"), old("b", "n0"), old("c", "n1"))
    assert not plan_of(cluster, rules()).steps


def test_cordoned_nodes_are_left_to_those_who_drain_them():
    cluster = loaded(node("n0"), node("n1", unschedulable=True), old("a", "n0"), old("b", "n1"))
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
    asked, is_broken = [], RebalancePlanner.is_broken
    monkeypatch.setattr(
        RebalancePlanner, "is_broken", lambda *args, **more: asked.append(args) or is_broken(*args, **more)
    )
    plan = plan_of(cluster, rules())
    assert len(plan.moves) > 20
    assert len(asked) <= 3 + 3 * len(plan.moves)


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


def proved(cluster, step, **spec):
    return RebalancePlanner(cluster.cache, rules(**spec), view_of(cluster)).prove(step)


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
            return RebalancePlanner(cluster.cache, rules(), view_of(cluster)).prove(step, quick=quick)
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
    assert not RebalancePlanner(cluster.cache, asked, counted).prove(step, quick=True)
    assert {*about} == {"c"}
