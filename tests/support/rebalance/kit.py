"""Clusters to be rebalanced, and what must hold after each move of a plan."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from podwright.api.rebalance_policy import parse_rebalance_policy
from podwright.core.objects.pod import belongs_to_node
from podwright.core.rebalance.planner import RebalancePlanner
from podwright.core.rebalance.rules import RebalancePlan, RebalanceRules
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.rebalance import plan_of, view_of
from support.objects.builders import make_pod_group, make_policy
from support.simulator.kit import HOSTNAME, ZONE, item, loaded, node, pod

LONG_AGO = "2023-11-01T00:00:00Z"
"""Weeks before the time of a loaded cluster."""
GPU = "example.com/gpu-milli"
"""A device has 1000."""
__all__ = ["GPU", "HOSTNAME", "ZONE", "budget", "gang", "item", "loaded", "node", "old", "plan_of", "policy", "rules"]


def policy(name: str = "tidy", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1}
    given = {"goals": [{"type": "EmptyNodes"}], "minGain": "1m", **spec}
    return {"apiVersion": "podwright.dev/v1alpha1", "kind": "RebalancePolicy", "metadata": metadata, "spec": given}


def rules(**spec: Any) -> RebalanceRules:
    return parse_rebalance_policy(policy(**spec))


def old(name: str, on: str, cpu: str = "1", **more: Any) -> dict[str, Any]:
    """A pod of a ReplicaSet that has run for long."""
    metadata = {"creationTimestamp": LONG_AGO, **more.pop("metadata", {})}
    made = pod(name, on, cpu, status={"phase": "Running"}, **more)
    made["metadata"] = {**made["metadata"], **metadata}
    return made


def budget(allowed: int, app: str = "web", name: str = "budget") -> dict[str, Any]:
    return item(
        "PodDisruptionBudget",
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        },
        "policy/v1",
    )


def gang(
    name: str, members: int, cpu: str, *, created: str = "2023-11-14T00:00:00Z", minimum: int | None = None, **more: Any
) -> list[dict[str, Any]]:
    """A gang that waits: its group, and its pods."""
    group = {**make_pod_group(name), "spec": {"minMember": minimum or members}}
    metadata = {"labels": {"scheduling.x-k8s.io/pod-group": name}, "creationTimestamp": created}
    pods = [pod(f"{name}-{i}", "", cpu, owner=name, metadata=metadata, **more) for i in range(members)]
    return [item("PodGroup", group, "scheduling.x-k8s.io/v1alpha1"), *pods]


def empty_nodes(cluster: LoadedCluster, asked: RebalanceRules) -> int:
    """How many nodes are empty that nobody else takes care of and that offer enough, at most as many as are asked
    for.
    """
    empty = sum(
        all(belongs_to_node(pod) for pod in info.pods.values())
        for info in cluster.cache.nodes.values()
        if info.node is not None
        and not info.node.unschedulable
        and all(info.allocatable(each) >= amount for each, amount in asked.empty_offers.items())
    )
    return min(asked.empty_count or empty, empty)


def overcommitted(cluster: LoadedCluster) -> list[str]:
    return [
        info.name
        for info in cluster.cache.nodes.values()
        for resource, amount in info.requested.items()
        if info.node is not None and amount > info.allocatable(resource)
    ]


def carry_out(cluster: LoadedCluster, plan: RebalancePlan, asked: RebalanceRules) -> None:
    """Moves the pods of a plan one after another for good. Each step is proved again before each of its moves, and no
    node is over-committed at any time, while the old pod is still there.
    """
    cache = cluster.cache
    full = set(overcommitted(cluster))
    for step in plan.steps:
        for number, move in enumerate(step.moves):
            left = replace(step, moves=step.moves[number:])
            problem = RebalancePlanner(cache, asked, view_of(cluster)).prove(left, begun=number > 0)
            assert not problem, problem
            info = cache.present(move.source)
            there = info.pods[move.uid]
            made = made_again(cluster, there)
            cache.assume(made, move.target)
            assert set(overcommitted(cluster)) <= full
            cache.remove_pod(move.uid)
            cache.set_pod(made.on(move.target))


def made_again(cluster: LoadedCluster, pod: Any) -> Any:
    uid = f"{pod.uid}+"
    return replace(pod, uid=uid, name=f"{pod.name}+", key=f"{pod.key}+", node_name="", creation=cluster.clock.now)


def generated(random: Random, *, gangs: bool = False, shares: bool = False) -> LoadedCluster:
    """See `generated_objects` and `shared`."""
    objects = generated_objects(random, gangs=gangs)
    return loaded(*(shared(random, objects) if shares else objects))


def shared(random: Random, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Gives each node a GPU (of several, it is not known which ones have the shares), pods a share as far as there is
    room, and a policy that counts what parts are of no use.
    """
    free = {}
    for each in objects:
        if each["kind"] == "Node":
            each["status"]["allocatable"][GPU] = "1000"
            free[each["metadata"]["name"]] = 1000
    for each in objects:
        on, share = each.get("spec", {}).get("nodeName", ""), random.choice((0, 200, 300, 400, 700))
        if each["kind"] == "Pod" and 0 < share <= free.get(on, 0):
            free[on] -= share
            each["spec"]["containers"][0]["resources"]["requests"][GPU] = str(share)
    return [*objects, sharing("LeastFragmentation")]


def sharing(strategy: str) -> dict[str, Any]:
    """A policy whose pods share GPUs."""
    devices = [{"resource": GPU, "unitsPerDevice": 1000}]
    made = make_policy(strategy={"type": strategy}, sharedDevices=devices)
    return item("SchedulerPolicy", made, "podwright.dev/v1alpha1")


def generated_objects(random: Random, *, gangs: bool = False) -> list[dict[str, Any]]:
    """A cluster that its controllers have filled node by node, some of whose pods are gone again. `gangs`: one
    waits.
    """
    zones = "abc"[: random.randint(1, 3)]
    nodes = [
        node(
            f"n{number}",
            random.choice(zones),
            str(random.choice((4, 8))),
            unschedulable=random.random() < 0.05,
            taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}] if random.random() < 0.1 else [],
        )
        for number in range(random.randint(3, 10))
    ]
    free = {each["metadata"]["name"]: int(each["status"]["allocatable"]["cpu"]) * 1000 for each in nodes}
    pods = []
    for app in range(random.randint(1, 5)):
        spec = _constraints(random, f"app{app}")
        owner = random.choice(("ReplicaSet", "ReplicaSet", "StatefulSet", "Job", ""))
        cpu = random.choice((250, 500, 1000, 2000))
        for number in range(random.randint(1, 8)):
            where = [name for name, left in free.items() if left >= cpu]
            if where and random.random() < 0.8:
                on = random.choice(where)
                free[on] -= cpu
                made = old(
                    f"app{app}-{number}",
                    on,
                    f"{cpu}m",
                    owner=f"app{app}" if owner else "",
                    kind=owner or "ReplicaSet",
                    labels={"app": f"app{app}"},
                    spec=spec,
                )
                if random.random() < 0.1:
                    made["metadata"]["creationTimestamp"] = "2023-11-14T22:13:00Z"  # seconds ago
                pods.append(made)
    pods += [
        old(f"daemon-{name}", name, "0", owner="agent", kind="DaemonSet", labels={"app": "agent"}) for name in free
    ]
    if random.random() < 0.3:
        pods.append(pod("waits", cpu=str(random.choice((1, 5, 100))), owner="waits", labels={"app": "waits"}))
    budgets = [budget(random.randint(0, 3), f"app{app}", f"budget{app}") for app in range(5) if random.random() < 0.5]
    waiting = gang("train", random.randint(1, 3), str(random.choice((2, 3, 4)))) if gangs else []
    return [*nodes, *pods, *budgets, *waiting]


def _constraints(random: Random, app: str) -> dict[str, Any]:
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    match random.randrange(6):
        case 0:
            term = {"topologyKey": HOSTNAME, **selector}
            return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        case 1:
            return {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": random.randint(1, 2),
                        "topologyKey": ZONE,
                        "whenUnsatisfiable": "DoNotSchedule",
                        **selector,
                    }
                ]
            }
        case 2:
            other = {"matchLabels": {"app": random.choice(("app0", app))}}
            term = {"topologyKey": ZONE, "labelSelector": other}
            return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        case 3:
            return {"tolerations": [{"key": "team", "operator": "Exists"}]}
    return {}
