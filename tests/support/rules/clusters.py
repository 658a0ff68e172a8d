"""A cluster for rules: nodes that differ in everything that expressions can read, and placed pods; and changes of
both.
"""

from __future__ import annotations

import random
from typing import Any

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins.rules.owner import RuleOwner
from podwright.core.plugins.rules.subject import RuleSubject
from podwright.core.state.signals import SignalDefinition
from podwright.core.state.signals.signals import Sample
from podwright.simulator.world import World

SIGNALS = {name: SignalDefinition(name=name, default=default) for name, default in (("load", 50.0), ("io", 0.0))}
OWNER = RuleOwner("pol", {"tier": "gold"})
PARAMS = {"tier": "gold", "n": "3", "list": "gold,silver"}


def node(index: int, source: random.Random) -> dict[str, Any]:
    pick = source.choice
    labels = {"zone": f"z{source.randrange(3)}"}
    if pick((True, False)):
        labels["tier"] = pick(("gold", "silver", "5", ""))
    if pick((True, False, False)):
        labels["n"] = str(source.randrange(-20, 100))
    allocatable = {"cpu": str(source.randrange(9)), "memory": str(1 << source.randrange(40)), "pods": "110"}
    if pick((True, False)):
        allocatable["x/gpu"] = str(source.randrange(3))
    taints = [
        {"key": f"k{i}", "value": str(i), "effect": pick(("NoSchedule", "PreferNoSchedule"))}
        for i in range(source.randrange(4))
    ]
    return {
        "metadata": {"name": f"n{index}", "labels": labels, "annotations": {"a": str(index % 4)} if index % 3 else {}},
        "spec": {"taints": taints, "unschedulable": pick((True, False, False))},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": pick(("True", "False"))}],
            "images": [{"names": ["img:1"], "sizeBytes": index * 1000}] if index % 3 == 0 else [],
        },
    }


def placed_pod(index: int, node_name: str, source: random.Random) -> dict[str, Any]:
    requests = {"cpu": f"{source.randrange(20)}00m", "memory": "1Mi"}
    return {
        "metadata": {
            "name": f"p{index}",
            "namespace": ("default", "other")[index % 2],  # a pod keeps its namespace
            "uid": f"p{index}",
            "labels": {"app": f"a{index % 3}"} if index % 5 else {},
        },
        "spec": {"nodeName": node_name, "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": "Running"},
    }


def pending_pod(name: str = "pending", **labels: str) -> PodInfo:
    return parse_pod(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "labels": {"tier": "gold", "app": "a1", "n": "7", **labels},
                "annotations": {"x": "y"},
            },
            "spec": {
                "priority": 5,
                "priorityClassName": "high",
                "containers": [
                    {"name": "c", "image": "img:1", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}
                ],
                "tolerations": [{"key": "k0", "operator": "Exists"}, {"key": "k1", "value": "1"}],
            },
        },
        keep_raw=True,
    )


def cluster(source: random.Random, nodes: int = 30, pods: int = 25) -> World:
    world = World(signals=SIGNALS)
    world.fill(
        {
            "nodes": [node(i, source) for i in range(nodes)],
            "namespaces": [{"metadata": {"name": "default", "labels": {"team": "a"}}}],
        }
    )
    for i in range(pods):
        world.set_pod(placed_pod(i, f"n{source.randrange(nodes)}", source))
    return world


def change(world: World, source: random.Random, nodes: int = 30) -> None:
    """Changes, adds or removes a node or a pod."""
    kind = source.randrange(7)
    index = source.randrange(nodes + 4)
    if kind == 0:
        world.cache.remove_node(f"n{index}")
    elif kind in (1, 2):
        world.cache.set_node(parse_node(node(index, source)))
    elif kind == 3:
        world.cache.remove_pod(f"p{source.randrange(40)}")
    elif kind == 6:
        said = {f"n{source.randrange(nodes + 4)}": Sample(source.choice((0.5, 2.0, 99.5))) for _ in range(3)}
        world.cache.signals.take(source.choice(("load", "io")), said)
    else:
        world.set_pod(placed_pod(source.randrange(40), f"n{index}", source))


def subject(world: World, pod: PodInfo, owner: RuleOwner = OWNER) -> RuleSubject:
    return RuleSubject(pod, owner, PARAMS, world.cache)
