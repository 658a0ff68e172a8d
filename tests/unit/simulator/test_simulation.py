"""The results of simulations, and that they leave the cluster as it was."""

import random

import pytest

from podwright.simulator.hypotheses.hypothesis import AddedNodes, Hypothesis, HypothesisError, Scale, parse_scale
from podwright.simulator.simulation import simulate, simulate_each_node
from support.objects.builders import make_pod_group, make_policy
from support.simulator.kit import ZONE, copy_of, item, loaded, node, pod


def landings(result):
    return {each.pod.partition("/")[2]: each.node for each in result.landed}


def pending(result):
    return {each.pod.partition("/")[2]: each.message for each in result.pending}


def web(count, nodes, **more):
    return [pod(f"web-{i}", on=nodes[i % len(nodes)], **more) for i in range(count)]


# Nodes


def test_a_pod_that_waits_lands_on_an_added_node():
    cluster = loaded(node("a"), *web(4, ["a"]), pod("waits"))
    assert "Insufficient cpu" in pending(simulate(cluster, Hypothesis()))["waits"]
    result = simulate(cluster, Hypothesis(add_nodes=[AddedNodes(1, "a")]))
    assert landings(result) == {"waits": "a-added-1"}
    assert result.pending == []
    assert (result.before.nodes, result.after.nodes) == (1, 2)
    assert result.before.usage["cpu"].allocation == 1.0
    assert result.after.usage["cpu"].allocation == 5 / 8


def test_a_node_like_another_gets_copies_of_its_daemons_but_not_its_cordon():
    taints = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoSchedule"}]  # fmt: skip
    cluster = loaded(
        node("a", unschedulable=True, taints=taints),
        pod("agent", on="a", cpu="3", owner="agent", kind="DaemonSet"),
        pod("small", spec={"tolerations": [{"key": "gpu", "operator": "Exists"}]}),
        pod("large", cpu="2", spec={"tolerations": [{"key": "gpu", "operator": "Exists"}]}),
        pod("intolerant"),
    )
    result = simulate(cluster, Hypothesis(add_nodes=[AddedNodes(1, "a")]))
    assert landings(result) == {"small": "a-added-1"}
    assert "Insufficient cpu" in pending(result)["large"]
    assert "untolerated taint" in pending(result)["intolerant"]


def test_a_node_may_be_described_by_a_manifest():
    cluster = loaded(node("a", cpu="1"), pod("large", cpu="6"))
    result = simulate(cluster, Hypothesis(add_nodes=[AddedNodes(2, template=node("big", cpu="8"))]))
    assert landings(result)["large"] in ("big-added-1", "big-added-2")


def test_pods_of_a_drained_node_move_and_those_of_daemon_sets_stay():
    cluster = loaded(
        node("a"),
        node("b"),
        pod("web-0", on="a"),
        pod("agent", on="a", owner="agent", kind="DaemonSet"),
        pod("static", on="a", owner="a", kind="Node"),
    )
    result = simulate(cluster, Hypothesis(drain=["a"]))
    assert landings(result) == {"web-0": "b"}
    (landing,) = result.landed
    assert (landing.cause, landing.came_from) == ("drained", "a")
    (a, b) = result.changes
    assert (a.pods_before, a.pods_after, b.pods_before, b.pods_after) == (3, 2, 0, 1)


def test_with_a_removed_node_its_daemons_go():
    cluster = loaded(node("a"), node("b"), pod("web-0", on="a"), pod("agent", on="a", owner="x", kind="DaemonSet"))
    result = simulate(cluster, Hypothesis(remove_nodes=["a"]))
    assert landings(result) == {"web-0": "b"}
    assert result.gone == ["default/agent"]
    assert result.after.nodes == 1


def budget(name="b", *, allowed=0, **spec_and_status):
    spec = {"selector": {"matchLabels": {"app": "web"}}, **spec_and_status.pop("spec", {})}
    status = {"disruptionsAllowed": allowed, **spec_and_status}
    return item("PodDisruptionBudget", {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}, "policy/v1")  # fmt: skip


def running(name, *, is_ready=True):
    return pod(name, on="a", status={"phase": "Running", "conditions": [{"type": "Ready", "status": str(is_ready)}]})


def blocked(*objects):
    cluster = loaded(node("a", cpu="16"), node("b", cpu="16"), *objects)
    return {each.pod: each.why for each in simulate(cluster, Hypothesis(drain=["a"])).blockers}


NO_DISRUPTION = {"default/web-0": "PodDisruptionBudget b allows no disruption"}


@pytest.mark.parametrize(
    "objects, why",
    [
        pytest.param([pod("bare", on="a", owner="")], {"default/bare": "no controller would create it again"}, id="a pod without a controller"),
        pytest.param([running("web-0"), budget()], NO_DISRUPTION, id="a budget that allows no disruption"),
        pytest.param([*(running(f"web-{i}") for i in range(15)), budget(allowed=1, currentHealthy=15, desiredHealthy=14)], {}, id="a budget that allows one disruption at a time"),
        pytest.param([running("web-0"), budget("b", allowed=1), budget("c", allowed=1)], {"default/web-0": "several PodDisruptionBudgets select it, and the eviction API then refuses"}, id="several budgets"),
        pytest.param([pod("web-0", on="a", status={"phase": "Pending"}), budget()], {}, id="a pod whose containers have not started"),
        pytest.param([running("web-0", is_ready=False), budget()], NO_DISRUPTION, id="a pod that is not ready, and too few healthy ones"),
        pytest.param([running("web-0", is_ready=False), budget(currentHealthy=2, desiredHealthy=2)], {}, id="a pod that is not ready, and enough healthy ones"),
        pytest.param([running("web-0", is_ready=False), budget(spec={"unhealthyPodEvictionPolicy": "AlwaysAllow"})], {}, id="a pod that is not ready, of which the budget allows the eviction"),
    ],
)  # fmt: skip
def test_what_keeps_a_pod_from_being_evicted_is_named(objects, why):
    assert blocked(*objects) == why


# Pods and policies


def test_without_a_policy_the_next_one_decides():
    no = {"filters": [{"name": "no", "expression": "false", "message": "never"}]}
    policy = item("SchedulerPolicy", make_policy("no", rules=no), "podwright.dev/v1alpha1")
    cluster = loaded(node("a"), pod("p"), policy)
    before = copy_of(cluster)
    assert "never" in pending(simulate(cluster, Hypothesis()))["p"]
    assert landings(simulate(cluster, Hypothesis(remove_policies=["no"]))) == {"p": "a"}
    assert copy_of(cluster) == before
    with pytest.raises(HypothesisError, match="remove-policy: there is no policy 'non'; did you mean 'no'"):
        simulate(cluster, Hypothesis(remove_policies=["non"]))


def test_further_pods_of_a_deployment_come_from_its_template():
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"schedulerName": "podwright", "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}  # fmt: skip
    deployment = item("Deployment", {"metadata": {"name": "web", "namespace": "default"}, "spec": {"template": template}}, "apps/v1")  # fmt: skip
    cluster = loaded(node("a"), deployment)
    result = simulate(cluster, Hypothesis(scale=[Scale("deploy", "web", 3)]))
    assert len(result.landed) == 2
    assert len(result.pending) == 1


def test_without_a_template_they_are_like_those_that_there_are():
    cluster = loaded(node("a"), *web(1, ["a"]))
    result = simulate(cluster, Hypothesis(scale=[parse_scale("deploy/web=3")]))
    assert [each.cause for each in result.landed] == ["scaled", "scaled"]


def test_a_smaller_deployment_loses_its_pending_pods_first():
    cluster = loaded(node("a"), *web(3, ["a"]), pod("waits", cpu="9"), pod("other", cpu="2", owner="db-1"))
    result = simulate(cluster, Hypothesis(scale=[parse_scale("deploy/web=2")]))
    assert result.gone[0] == "default/waits"
    assert len(result.gone) == 2
    assert landings(result) == {"other": "a"}


@pytest.mark.parametrize(
    "text, problem",
    [
        ("web=3", "is not of the form"),
        ("cronjob/web=3", "is not of the form"),
        ("deploy/a/b/c=3", "is not of the form"),
        ("deploy/web", "is not of the form"),
        ("deploy/web=x", "'x' is not a number of pods"),
        ("deploy/web=-1", "'-1' is not a number of pods"),
        ("deploy/web=999999", "is not a number of pods from 0 to 200,000"),
    ],
)
def test_a_scale_that_cannot_be_read_is_an_error(text, problem):
    with pytest.raises(HypothesisError, match=problem):
        parse_scale(text)


def test_pods_of_manifests_are_added_with_their_claims():
    cluster = loaded(node("a"))
    claim = item("PersistentVolumeClaim", {"metadata": {"name": "data", "namespace": "default"}, "spec": {"storageClassName": "none"}})  # fmt: skip
    needs = pod("needs", spec={"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]})
    job = item("Job", {"metadata": {"name": "j"}, "spec": {"parallelism": 2, "template": {"spec": {"containers": []}}}}, "batch/v1")  # fmt: skip
    assert '"data" not found' in pending(simulate(cluster, Hypothesis(pods=[needs])))["needs"]
    result = simulate(cluster, Hypothesis(pods=[needs, job], objects=[claim]))
    assert '"data" not found' not in pending(result)["needs"]
    assert set(landings(result)) == {"j-1", "j-2"}


def test_another_policy_decides_otherwise():
    cluster = loaded(
        node("a", cpu="8"),
        node("b", cpu="4"),
        pod("on", on="b"),
        pod("new"),
        make_policy("pack", strategy={"type": "LeastAllocated"}),
    )
    assert landings(simulate(cluster, Hypothesis())) == {"new": "a"}
    result = simulate(cluster, Hypothesis(policies=[make_policy("pack", strategy={"type": "MostAllocated"})]))
    assert landings(result) == {"new": "b"}
    assert result.landed[0].policy == "pack@0"
    assert landings(simulate(cluster, Hypothesis())) == {"new": "a"}


def test_a_policy_in_shadow_mode_is_tried_as_if_it_enforced_but_not_one_of_the_cluster():
    cluster = loaded(
        node("a", cpu="8"),
        node("b", cpu="4"),
        pod("new"),
        make_policy("eye", mode="Shadow", strategy={"type": "NodeName"}, precedence=9),
    )
    assert landings(simulate(cluster, Hypothesis())) == {"new": "a"}
    assert simulate(cluster, Hypothesis()).landed[0].policy == "built-in-default@0"
    tried = make_policy("pack", mode="Shadow", strategy={"type": "MostAllocated"})
    assert landings(simulate(cluster, Hypothesis(policies=[tried]))) == {"new": "b"}


@pytest.mark.parametrize(
    "hypothesis, problem",
    [
        (Hypothesis(drain=["x"]), "drain: there is no node 'x'$"),
        (Hypothesis(drain=["nod-7"]), "drain: there is no node 'nod-7'; did you mean 'node-7'\\?$"),
        (Hypothesis(remove_nodes=["x"]), "remove-node: there is no node 'x'"),
        (Hypothesis(add_nodes=[AddedNodes(1, "x")]), "add-nodes: there is no node 'x'"),
        (Hypothesis(add_nodes=[AddedNodes(1)]), "add-nodes: says neither"),
        (Hypothesis(add_nodes=[AddedNodes(10**9, "a")]), "add-nodes: 1000000000 is not between"),
        (Hypothesis(add_nodes=[AddedNodes(1, "a"), AddedNodes(20_000, "a")]), "add-nodes: more than 20,000 in all"),
        (Hypothesis(add_nodes=[AddedNodes(1, template={"metadata": {}})]), "add-nodes: Node \\?: metadata.name"),
        (Hypothesis(policies=[make_policy("p", strategy={"type": "Nope"})]), "policies\\[0\\]: policy p: .*spec.strategy.type"),
        (Hypothesis(scale=[Scale("Job", "j", 2)]), "scale: Job default/j has no pods"),
        (Hypothesis(pods=[pod("p", cpu="1x")]), "pods\\[0\\]: Pod default/p: spec.containers.*'1x' is not a quantity"),
        (Hypothesis(pods=[item("Secret", {})]), "pods\\[0\\]: kind 'Secret' is neither"),
        (Hypothesis(pods=[item("Job", {"spec": {"template": {"spec": {"containers": 3}}}})]), "pods\\[0\\]: Job default/added: spec.template: .*containers"),
        (Hypothesis(pods=[item("Deployment", {"spec": {"replicas": -1, "template": {}}})]), "pods\\[0\\]: spec.replicas"),
        (Hypothesis(objects=[item("Secret", {})]), "objects\\[0\\]: objects of kind 'Secret' cannot"),
        (Hypothesis(objects=[item("Service", {})]), "objects\\[0\\]: .*metadata.name"),
    ],
)  # fmt: skip
def test_a_hypothesis_that_cannot_be_tried_is_an_error_and_leaves_no_trace(hypothesis, problem):
    cluster = loaded(node("a"), node("node-7"), pod("web-0", on="a", owner="web-1"))
    before = copy_of(cluster)
    with pytest.raises(HypothesisError, match=problem):
        simulate(cluster, hypothesis)
    assert copy_of(cluster) == before


def test_the_pods_of_all_scaled_workloads_together_are_bounded(monkeypatch):
    monkeypatch.setattr("podwright.simulator.hypotheses.pod_changes.MAX_PODS", 4)
    cluster = loaded(node("a"), pod("web-0", on="a"), pod("db-0", on="a", owner="db-1"))
    assert (
        len(simulate(cluster, Hypothesis(scale=[parse_scale("deploy/web=3"), parse_scale("deploy/db=3")])).landed) == 2
    )
    with pytest.raises(HypothesisError, match="scale: more than 4 pods in all"):
        simulate(cluster, Hypothesis(scale=[parse_scale("deploy/web=4"), parse_scale("deploy/db=4")]))


@pytest.mark.parametrize(
    "hypothesis",
    [
        Hypothesis(add_nodes=[AddedNodes(10, "a")]),
        Hypothesis(add_nodes=[AddedNodes(0, "a")] * 10),
        Hypothesis(remove_nodes=["b", "c", "d", "e", "f"]),
        Hypothesis(drain=["b", "c", "d", "e", "f"]),
        Hypothesis(scale=[parse_scale("deploy/web=10")]),
        Hypothesis(scale=[parse_scale("deploy/web=1")] * 10),
        Hypothesis(pods=[pod(f"p-{number}") for number in range(10)]),
        Hypothesis(objects=[item("Namespace", {"metadata": {"name": f"n-{number}"}}) for number in range(10)]),
        Hypothesis(policies=[make_policy(f"p-{number}") for number in range(10)]),
    ],
)
def test_the_time_bounds_the_changes_too(hypothesis):
    cluster = loaded(*map(node, "abcdef"), pod("web-0", on="a", owner="web-1"))
    before, asked = copy_of(cluster), []

    def stopped():
        asked.append(True)
        return len(asked) > 3

    with pytest.raises(HypothesisError, match="the time for this request is up"):
        simulate(cluster, hypothesis, stopped=stopped)
    assert len(asked) == 4
    assert copy_of(cluster) == before


def test_a_node_that_is_named_twice_is_drained_once():
    cluster = loaded(node("a"), node("b"), pod("web-0", on="a"))
    asked = []
    result = simulate(cluster, Hypothesis(drain=["a"] * 1000), stopped=lambda: bool(asked.append(True)))
    assert landings(result) == {"web-0": "b"}
    assert len(asked) < 10


def test_many_pending_pods_that_leave_are_dropped_at_once():
    cluster = loaded(node("a"), *web(3, ["a"]), *(pod(f"waits-{number}", cpu="9") for number in range(50)))
    before, order = copy_of(cluster), [*cluster.pending]
    nominator, copies = cluster.cache.nominator, []
    copy = nominator.copy
    nominator.copy = lambda: copies.append(True) or copy()
    try:
        result = simulate(cluster, Hypothesis(scale=[parse_scale("deploy/web=0")]))
    finally:
        del nominator.copy
    assert len(result.gone) == 53
    assert len(copies) < 5, "a copy for each pod would cost the square of their number"
    assert (copy_of(cluster), [*cluster.pending]) == (before, order)


# Scheduling


def test_pods_are_scheduled_by_priority_then_by_arrival():
    first = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    second = {"creationTimestamp": "2026-01-02T00:00:00Z"}
    cluster = loaded(
        node("a"),
        pod("late", cpu="2", metadata=second),
        pod("early", cpu="2", metadata=first),
        pod("urgent", cpu="2", metadata=second, priority=10),
    )
    result = simulate(cluster, Hypothesis())
    assert [each.pod for each in result.landed] == ["default/urgent", "default/early"]
    assert list(pending(result)) == ["late"]


def test_a_more_important_pod_preempts_and_its_victim_is_created_anew():
    cluster = loaded(node("a"), node("b"), *web(3, ["b"]), pod("low", on="a", cpu="3"), pod("lone", on="a", owner="", labels={}), pod("high", cpu="4", priority=10))  # fmt: skip
    result = simulate(cluster, Hypothesis())
    assert landings(result)["high"] == "a"
    assert {each.pod for each in result.preempted} == {"default/low", "default/lone"}
    assert "Insufficient cpu" in pending(result)["low"]
    assert result.pending[0].cause == "preempted"
    assert result.gone == ["default/lone"]


def test_a_pod_that_waits_for_another_one_is_tried_again_when_that_has_landed():
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE}
    near = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    cluster = loaded(node("a"), pod("near", spec=near, priority=10), pod("db", labels={"app": "db"}))
    assert landings(simulate(cluster, Hypothesis())) == {"db": "a", "near": "a"}


def test_gates_refused_policies_and_terminating_pods_wait_for_their_reasons():
    cluster = loaded(
        node("a"),
        pod("gated", spec={"schedulingGates": [{"name": "wait"}]}),
        pod("refused", spec={"schedulerName": "other"}),
        pod("leaving", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        pod("naming", metadata={"annotations": {"podwright.dev/policy": "gone"}}),
        make_policy("bad", schedulerName="other", strategy={"type": "Nope"}),
    )
    result = simulate(cluster, Hypothesis())
    messages = pending(result)
    assert "wait" in messages["gated"]
    assert "policy bad, generation 0, was not accepted" in messages["refused"]
    assert messages["leaving"] == "the pod is being deleted"
    assert messages["naming"] == (
        "the pod waits because its annotation podwright.dev/policy names policy 'gone', which does not exist for the pod's scheduler name"
    )
    assert any("policy bad" in note for note in result.notes)


@pytest.mark.parametrize("members", [2, 3], ids=["a gang that fits", "a gang that does not fit"])
def test_a_gang_lands_as_a_whole_or_not_at_all(members):
    group = item("PodGroup", {**make_pod_group("gang"), "spec": {"minMember": members}}, "scheduling.x-k8s.io/v1alpha1")
    labels = {"scheduling.x-k8s.io/pod-group": "gang"}
    pods = [pod(f"m{i}", cpu="2", labels=labels) for i in range(members)]
    cluster = loaded(node("a"), group, *pods)
    before = copy_of(cluster)
    result = simulate(cluster, Hypothesis())
    assert len(result.landed) == (2 if members == 2 else 0)
    assert len(result.pending) == (0 if members == 2 else 3)
    assert copy_of(cluster) == before


def test_two_pods_that_evict_each_others_pods_for_ever_do_so_a_few_times():
    spread = {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]}  # fmt: skip
    nodes = [node(f"n{i}", zone="abc"[i % 3]) for i in range(6)]
    pods = [pod(f"web-{i}", on=f"n{i % 6}", spec=spread, priority=i % 3) for i in range(12)]
    waits = [pod(f"wait-{i}", cpu="3", priority=i, spec=spread) for i in range(3)]
    result = simulate(loaded(*nodes, *pods, *waits), Hypothesis(), try_to_empty=6)
    assert result.complete
    assert result.attempts < 1_000


def test_without_any_node_pods_wait_and_a_new_node_helps():
    cluster = loaded(pod("p"))
    result = simulate(cluster, Hypothesis())
    assert pending(result) == {"p": "no nodes available to schedule pods"}
    assert result.attempts == 1
    added = AddedNodes(1, template=node("new"))
    assert landings(simulate(cluster, Hypothesis(add_nodes=[added]))) == {"p": "new-added-1"}


def test_a_simulation_can_be_stopped():
    left = [3]

    def stopped():
        left[0] -= 1
        return left[0] < 0

    cluster = loaded(node("a", cpu="64"), *(pod(f"p{i}") for i in range(9)))
    result = simulate(cluster, Hypothesis(), stopped=stopped)
    assert not result.complete
    assert len(result.landed) == 3
    assert set(pending(result).values()) == {"the simulation ended before the pod was tried"}


# Emptying and each node


def test_nodes_that_can_be_emptied_are_found_together():
    cluster = loaded(node("a"), node("b"), node("c"), *web(3, ["a", "b", "c"]), pod("agent", on="a", cpu="100m", owner="x", kind="DaemonSet"))  # fmt: skip
    emptied = simulate(cluster, Hypothesis(), try_to_empty=10).emptied
    assert set(emptied.together) == {"b", "c"}
    assert emptied.tried == 3
    assert simulate(cluster, Hypothesis(), try_to_empty=1).emptied.tried == 1


def test_a_node_whose_pods_have_a_budget_in_the_way_is_not_emptied():
    budget = item("PodDisruptionBudget", {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}, "policy/v1")  # fmt: skip
    cluster = loaded(node("a"), node("b"), *web(1, ["a"]), budget)
    assert simulate(cluster, Hypothesis(), try_to_empty=10).emptied.together == []


@pytest.mark.parametrize("action", ["drain", "remove"])
def test_each_node_is_tried_on_its_own(action):
    cluster = loaded(node("a"), node("b"), node("c", cpu="1"), pod("big", on="a", cpu="3"), pod("small", on="c"), pod("waits", cpu="9"))  # fmt: skip
    before = copy_of(cluster)
    results = {result.node: result for result in simulate_each_node(cluster, action)}
    assert {name: result.fits for name, result in results.items()} == {"a": True, "b": True, "c": True}
    assert {name: result.moved for name, result in results.items()} == {"a": 1, "b": 0, "c": 1}
    assert copy_of(cluster) == before


def test_a_node_whose_pods_fit_nowhere_else_is_reported():
    cluster = loaded(node("a"), node("b", cpu="1"), pod("big", on="a", cpu="3"))
    results = {result.node: result for result in simulate_each_node(cluster, "drain")}
    assert not results["a"].fits
    assert results["a"].pending[0].pod == "default/big"
    assert results["a"].as_dict()["pending"][0]["cameFrom"] == "a"


# No trace


def many():
    group = item("PodGroup", {**make_pod_group("gang"), "spec": {"minMember": 2}}, "scheduling.x-k8s.io/v1alpha1")
    labels = {"scheduling.x-k8s.io/pod-group": "gang", "app": "gang"}
    spread = {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]}  # fmt: skip
    return loaded(
        *(node(f"n{i}", zone="abc"[i % 3]) for i in range(6)),
        node("empty", zone="a"),
        *(pod(f"web-{i}", on=f"n{i % 6}", spec=spread, priority=i % 3) for i in range(12)),
        *(pod(f"m{i}", on=f"n{i}" if i < 2 else "", labels=labels) for i in range(4)),
        pod("agent", on="n0", cpu="100m", owner="agent", kind="DaemonSet"),
        pod("lost", on="gone-node"),
        *(pod(f"wait-{i}", cpu="3", priority=i, spec=spread) for i in range(3)),
        pod("nominated", cpu="9", status={"nominatedNodeName": "n1"}),
        group,
        make_policy("pack", strategy={"type": "MostAllocated"}),
    )


def some_hypothesis(chance):
    names = ["empty", *(f"n{i}" for i in range(6))]
    chance.shuffle(names)
    pick = chance.random
    return Hypothesis(
        add_nodes=[AddedNodes(chance.randrange(1, 4), names[0])] if pick() < 0.4 else [],
        remove_nodes=names[1 : 1 + chance.randrange(3)],
        drain=names[4 : 4 + chance.randrange(3)],
        scale=[parse_scale(f"deploy/web={chance.randrange(16)}")] if pick() < 0.4 else [],
        policies=[make_policy(chance.choice(["pack", "new"]), precedence=chance.randrange(3), strategy={"type": "LeastAllocated"})] if pick() < 0.4 else [],
        pods=[pod(f"extra-{i}", priority=chance.randrange(5), cpu="2") for i in range(chance.randrange(4))],
        objects=[item("Service", {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "web"}}})] if pick() < 0.3 else [],
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_simulations_leave_no_trace_and_their_results_do_not_depend_on_earlier_ones(seed):
    chance = random.Random(seed)
    cluster = many()
    before = copy_of(cluster)
    for _ in range(4):
        hypothesis = some_hypothesis(chance)
        result = simulate(cluster, hypothesis, try_to_empty=3)
        assert copy_of(cluster) == before
        again = simulate(many(), hypothesis, try_to_empty=3)
        if not result.preempted and not again.preempted:  # among equal victims, preemption starts elsewhere each time
            assert result.as_dict() == again.as_dict()


def test_a_policy_is_tried_even_if_it_has_the_generation_of_the_one_in_the_cluster():
    """As one that was written by `kubectl get -o yaml`, and edited."""
    known = make_policy("p", schedulerName="podwright", strategy={"type": "LeastAllocated"})
    known["metadata"] |= {"uid": "1", "generation": 3}
    edited = {**known, "spec": {"schedulerName": "podwright", "strategy": {"type": "MostAllocated"}}}
    cluster = loaded(node("n1"), node("n2"), pod("a", on="n1"), pod("b"), known)
    before = copy_of(cluster)
    assert simulate(cluster, Hypothesis()).landed[0].node == "n2"
    assert simulate(cluster, Hypothesis(policies=[edited])).landed[0].node == "n1"
    assert copy_of(cluster) == before
