"""Variants of the situations: two causes at once, two objects of a kind, names that are misspelt elsewhere, other ways
to say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.explain.device_variants import DEVICE_VARIANTS
from support.explain.objects import (
    HOSTNAME,
    REQUIRED,
    ZONE,
    affinity_to,
    cluster,
    full,
    gang,
    member,
    node,
    node_affinity,
    policy,
    port,
    spread_over,
    waiting,
)
from support.explain.situations import GONE, Situation
from support.explain.volume_variants import VOLUME_VARIANTS
from support.objects.builders import make_node, make_pod, make_taint

WEB = {"app": "web"}


def containers(*requests: Mapping[str, str], first: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A spec with a container for each of these requests, and perhaps an init container."""
    made = [{"name": f"c{i}", "image": "app", "resources": {"requests": dict(each)}} for i, each in enumerate(requests)]
    init = [] if first is None else [{"name": "first", "image": "app", "resources": {"requests": dict(first)}}]
    return {"containers": made, **({"initContainers": init} if init else {})}


def pod_affinity(*selectors: Mapping[str, Any], key: str = HOSTNAME) -> dict[str, Any]:
    terms = [{"topologyKey": key, "labelSelector": dict(each)} for each in selectors]
    return {"affinity": {"podAffinity": {REQUIRED: terms}}}


def constraint(key: str, **more: Any) -> dict[str, Any]:
    return {**spread_over(key)["topologySpreadConstraints"][0], **more}


def rule(name: str, expression: str) -> dict[str, Any]:
    return {"name": name, "expression": expression, "message": f"node(s) failed {name}"}


def with_spec(pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**pod, "spec": {**pod["spec"], **spec}}


DATABASE = make_pod("db", node="one", labels={"app": "database"})
TWO_TAINTS = [make_taint("dedicated", "gpu"), make_taint("team", "red", "NoExecute")]
UNREACHABLE = [make_taint("node.kubernetes.io/unreachable", "", effect) for effect in ("NoSchedule", "NoExecute")]
MEMBERS = ("first", "waiting")
GATED = {"schedulingGates": [{"name": "a/b"}]}
TIERED = [rule("tiered", "has(node.labels.tier)"), rule("owned", "has(pod.labels.team)")]

VARIANTS = (
    Situation(
        "two taints, one of them NoExecute",
        cluster([node("one", taints=TWO_TAINTS)]),
        waiting(),
        "UntoleratedTaint",
        "taints dedicated=gpu:NoSchedule and team=red:NoExecute",
        ("tolerate dedicated=gpu:NoSchedule and team=red:NoExecute",),
    ),
    Situation(
        "a toleration of another value",
        cluster([node("one", taints=[make_taint("dedicated", "gpu")])]),
        waiting(
            spec={"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "cpu", "effect": "NoSchedule"}]}
        ),
        "UntoleratedTaint",
        "dedicated=gpu:NoSchedule",
        ("tolerate dedicated=gpu:NoSchedule",),
    ),
    Situation(
        "a taint on a node that is too small as well",
        cluster([node("one", taints=[make_taint("dedicated", "gpu")])]),
        waiting(requests={"cpu": "20"}),
        "UntoleratedTaint",
        "dedicated=gpu:NoSchedule",
        ("tolerate dedicated=gpu:NoSchedule and request 12 CPU less (8 instead of 20)",),
    ),
    Situation(
        "a full node beside tainted ones",
        cluster(
            [node("one", taints=[make_taint("a", "b")]), node("two", taints=[make_taint("c", "d")]), node("three")],
            [full("big", "three")],
        ),
        waiting(requests={"cpu": "1"}),
        "InsufficientResources",
        "there is three: 1 CPU requested, 0 of 8 free",
        ("tolerate a=b:NoSchedule", "one more node like three"),
    ),
    Situation(
        "two containers that are too big together",
        cluster([node("one")]),
        waiting(spec=containers({"cpu": "6"}, {"cpu": "6"})),
        "TooBig",
        "12 CPU",
        ("request 4 CPU less (8 instead of 12)",),
    ),
    Situation(
        "an init container that is too big",
        cluster([node("one")]),
        waiting(spec=containers({"cpu": "1"}, first={"cpu": "12"})),
        "TooBig",
        "12 CPU",
        ("request 4 CPU less (8 instead of 12)",),
    ),
    Situation(
        "too much of two resources",
        cluster([node("one")]),
        waiting(requests={"cpu": "12", "memory": "40Gi"}),
        "TooBig",
        "more than any node has (8)",
        ("request 4 CPU less (8 instead of 12) and request 8Gi memory less (32Gi instead of 40Gi)",),
    ),
    Situation(
        "affinity to a misspelt value in an expression",
        cluster([node("one")], [DATABASE]),
        waiting(spec=pod_affinity({"matchExpressions": [{"key": "app", "operator": "In", "values": ["databse"]}]})),
        "PodAffinity",
        "no pod anywhere matches",
        ("look for pods with app=database instead of databse",),
    ),
    Situation(
        "affinity to a misspelt key",
        cluster([node("one")], [DATABASE]),
        waiting(spec=affinity_to({"ap": "database"})),
        "PodAffinity",
        "no pod anywhere matches",
        ("look for pods with app=database instead of ap=database",),
    ),
    Situation(
        "affinity to pods of another namespace",
        cluster([node("one")], [make_pod("db", node="one", labels={"app": "database"}, namespace="shop")]),
        waiting(spec=affinity_to({"app": "database"})),
        "PodAffinity",
        "no pod anywhere matches",
        ("look for pods in namespace shop instead of default",),
    ),
    Situation(
        "two affinity terms over one key, of which one matches",
        cluster([node("one")], [DATABASE]),
        waiting(spec=pod_affinity({"matchLabels": {"app": "database"}}, {"matchLabels": {"app": "queue"}})),
        "PodAffinity",
        "no pod anywhere matches",
        ("do not require pod affinity over kubernetes.io/hostname to pods with app=queue",),
    ),
    Situation(
        "affinity over a label that the node lacks",
        cluster([make_node("one", labels={HOSTNAME: "one"})], [DATABASE]),
        waiting(spec=pod_affinity({"matchLabels": {"app": "database"}}, key=ZONE)),
        "PodAffinity",
        "the node has no label topology.kubernetes.io/zone",
        ("do not require pod affinity over topology.kubernetes.io/zone",),
    ),
    Situation(
        "two spread constraints that are both in the way",
        cluster(
            [node("one"), node("two", "b", unschedulable=True), node("three", unschedulable=True)],
            [make_pod("web-1", node="one", labels=WEB)],
        ),
        waiting(labels=WEB, spec={"topologySpreadConstraints": [constraint(ZONE), constraint(HOSTNAME)]}),
        "Cordoned",
        "it is cordoned",
        (
            "allow maxSkew 2 instead of 1 over topology.kubernetes.io/zone and allow maxSkew 2 instead of 1 over kubernetes.io/hostname",
        ),
    ),
    Situation(
        "fewer domains than a spread constraint asks for",
        cluster(
            [node("one"), node("two", "b")],
            [make_pod("web-1", node="one", labels=WEB), make_pod("web-2", node="two", labels=WEB)],
        ),
        waiting(labels=WEB, spec={"topologySpreadConstraints": [constraint(ZONE, minDomains=3)]}),
        "Spread",
        "maxSkew 1 over topology.kubernetes.io/zone and at least 3 domains",
        ("do not ask for 3 domains of topology.kubernetes.io/zone (minDomains)",),
    ),
    Situation(
        "a spread constraint over a label that nodes lack",
        cluster([make_node("one", labels={HOSTNAME: "one"})]),
        waiting(labels=WEB, spec=spread_over(ZONE)),
        "Spread",
        "the node has no label topology.kubernetes.io/zone",
        ("prefer to spread over topology.kubernetes.io/zone instead of requiring it",),
    ),
    Situation(
        "a host port of a pod that is being deleted",
        cluster([node("one")], [make_pod("old", node="one", spec=port(80), metadata={"deletionTimestamp": GONE})]),
        waiting(spec=port(80)),
        "PortTaken",
        "is taken by default/old, which is being deleted",
        ("wait until default/old has ended",),
    ),
    Situation(
        "gates on a member of a gang",
        cluster([node("one")], [member("first"), with_spec(member("waiting"), **GATED)], groups=[gang(2)]),
        with_spec(member("waiting"), **GATED),
        "Gated",
        "scheduling gates hold it back: a/b",
        ("take away its scheduling gates (a/b)",),
    ),
    Situation(
        "gates on another member of the gang",
        cluster([node("one")], [with_spec(member("first"), **GATED), member("waiting")], groups=[gang(2)]),
        member("waiting"),
        "GangNoRoom",
        "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining",
        ("a minimum of 1 instead of 2",),
    ),
    Situation(
        "a part of a GPU of KAI",
        cluster([node("one")], policies=[policy(schedulerName="kai-scheduler")]),
        waiting(spec={"schedulerName": "kai-scheduler"}, metadata={"annotations": {"gpu-memory": "2000"}}),
        "Gated",
        "metadata.annotations[gpu-memory]: Podwright gives no parts of GPUs by annotation",
    ),
    Situation(
        "gates on a pod that is too big as well",
        cluster([node("one")]),
        waiting(requests={"cpu": "20"}, spec={"schedulingGates": [{"name": "a/b"}, {"name": "c/d"}]}),
        "Gated",
        "a/b and c/d",
        ("take away its scheduling gates (a/b and c/d) and request 12 CPU less (8 instead of 20)",),
    ),
    Situation(
        "an unknown scheduler name of a pod that tolerates too little as well",
        cluster([node("one", taints=[make_taint("dedicated", "gpu")])]),
        waiting(spec={"schedulerName": "podwrite"}),
        "SchedulerNameNotServed",
        "did you mean 'podwright'?",
        ("ask for the scheduler podwright instead of podwrite and tolerate dedicated=gpu:NoSchedule",),
    ),
    Situation(
        "a gang that lacks two members",
        cluster([node("one")], [member("waiting")], groups=[gang(3)]),
        member("waiting"),
        "GangTooSmall",
        "has 1 of 3 members: 2 more are needed",
        ("2 more members like this pod", "a minimum of 1 instead of 3"),
    ),
    Situation(
        "a gang on tainted nodes",
        cluster(
            [node(name, taints=[make_taint("dedicated", "gpu")]) for name in ("one", "two")],
            [member(name) for name in MEMBERS],
            groups=[gang(2)],
        ),
        member("waiting"),
        "GangNoRoom",
        "node(s) had untolerated taint(s) on 2 nodes",
        ("let each member tolerate dedicated=gpu:NoSchedule",),
    ),
    Situation(
        "a gang that selects a label that no node has",
        cluster(
            [node("one"), node("two")],
            [with_spec(member(name), nodeSelector={"disk": "ssd"}) for name in MEMBERS],
            groups=[gang(2)],
        ),
        with_spec(member("waiting"), nodeSelector={"disk": "ssd"}),
        "GangNoRoom",
        "node affinity/selector on 2 nodes",
        ("let each member not select disk=ssd",),
    ),
    Situation(
        "a gang that has to be in one domain of a label that no node has",
        cluster(
            [make_node("one", labels={HOSTNAME: "one"})],
            [member(name) for name in MEMBERS],
            groups=[gang(2, schedulingConstraints={"topology": [{"key": ZONE}]})],
        ),
        member("waiting"),
        "GangDomainTooSmall",
        "no node has the label topology.kubernetes.io/zone",
    ),
    Situation(
        "a policy with a field that does not exist",
        cluster([node("one")], policies=[policy(schedulerName="team", strateg={"type": "MostAllocated"})]),
        waiting(spec={"schedulerName": "team"}),
        "PolicyNotAccepted",
        "spec.strateg: unknown field",
        ("ask for the scheduler podwright instead of team",),
    ),
    Situation(
        "a rule that has an error on every node",
        cluster(
            [node("one")],
            policies=[
                policy(schedulerName="podwright", rules={"filters": [rule("gold", 'node.labels.tier == "gold"')]})
            ],
        ),
        waiting(),
        "PolicyRule",
        "failed rule gold: no such key: tier",
        ("take the rule gold out of policy team",),
    ),
    Situation(
        "one of two rules",
        cluster(
            [node("one", labels={"tier": "gold"})],
            policies=[policy(schedulerName="podwright", rules={"filters": TIERED})],
        ),
        waiting(),
        "PolicyRule",
        "node(s) failed owned",
        ("take the rule owned out of policy team",),
    ),
    Situation(
        "two victims that have not ended",
        cluster([node("one")], [full(name, "one", "4", metadata={"deletionTimestamp": GONE}) for name in ("a", "b")]),
        waiting(requests={"cpu": "6"}, priority=10, status={"nominatedNodeName": "one"}),
        "WaitsForPreemption",
        "until default/a and default/b have ended",
    ),
    Situation(
        "all nodes have as many pods as they take",
        cluster(
            [node(name, allocatable={"pods": "1"}) for name in ("one", "two")],
            [make_pod("first", node="one"), make_pod("second", node="two")],
        ),
        waiting(),
        "TooManyPods",
        "on all nodes",
        ("one more node like one",),
    ),
    Situation(
        "a node that cannot be reached, with two taints of that",
        cluster([node("one", taints=UNREACHABLE)]),
        waiting(),
        "NodeNotReady",
        "node.kubernetes.io/unreachable:NoExecute",
        ("node one is healthy again", "one more node like one"),
    ),
    Situation(
        "a misspelt extended resource",
        cluster([node("one", allocatable={"nvidia.com/gpu": "2"})]),
        waiting(requests={"nvidia.com/gpus": "1"}),
        "NoSuchResource",
        "did you mean 'nvidia.com/gpu'?",
        ("request nvidia.com/gpu instead of nvidia.com/gpus",),
    ),
    Situation(
        "more of an extended resource than any node has",
        cluster([node("one", allocatable={"example.com/gpu": "2"}), node("two")]),
        waiting(requests={"example.com/gpu": "3"}),
        "TooBig",
        "more than any node has (2)",
        ("request 1 example.com/gpu less (2 instead of 3)",),
    ),
    Situation(
        "a cordoned node with a taint",
        cluster(
            [
                node(
                    "one",
                    unschedulable=True,
                    taints=[make_taint("node.kubernetes.io/unschedulable"), make_taint("a", "b")],
                )
            ]
        ),
        waiting(),
        "Cordoned",
        "it is cordoned",
        ("uncordon node one and take a=b:NoSchedule away from node one",),
    ),
    Situation(
        "selectors of which no node has all",
        cluster([node("one", labels={"disk": "ssd"}), node("two", labels={"disk": "hdd"}), node("three")]),
        waiting(spec={"nodeSelector": {"disk": "nvme", "rack": "7"}}),
        "NodeAffinity",
        "the pod wants disk=nvme, the node has disk=ssd",
        ("select disk=ssd instead of nvme and do not select rack=7", "label node one with disk=nvme, rack=7"),
    ),
    Situation(
        "a misspelt key in the node affinity",
        cluster([node("one", labels={"disktype": "ssd"})]),
        waiting(spec=node_affinity("disktyp", "ssd")),
        "NodeAffinity",
        "the pod wants disktyp In (ssd), the node has no such label",
        ("name the label disktype instead of disktyp",),
    ),
    Situation(
        "pods of lower and of higher priority, without room for the pod beside the higher ones",
        cluster([node("one")], [full("high", "one", "4", priority=1000), full("low", "one", "4")]),
        waiting(requests={"cpu": "6"}, priority=10),
        "PriorityTooLow",
        "have a higher priority (up to 1000, this pod 10)",
        ("have a PriorityClass of at least 1001", "one more node like one"),
    ),
    Situation(
        "anti-affinity of another pod",
        cluster([node("one")], [make_pod("db", node="one", spec=affinity_to(WEB, anti=True))]),
        waiting(labels=WEB),
        "PodAntiAffinity",
        "anti-affinity of default/db over kubernetes.io/hostname",
        ("one more node like one",),
    ),
    Situation(
        "a taint and a full node at once: no request of nothing is proposed",
        cluster([node("one", taints=[make_taint("a", "b")])], [full("big", "one")]),
        waiting(requests={"cpu": "1"}, spec={"preemptionPolicy": "Never"}),
        "UntoleratedTaint",
        "a=b:NoSchedule",
    ),
    Situation(
        "no CPU is free and memory is too small: no request of nothing is proposed beside a smaller one",
        cluster([node("one")], [full("big", "one")]),
        waiting(requests={"cpu": "6", "memory": "1000Gi"}),
        "InsufficientResources",
        "0 of 8 free: 6 too few; 1000Gi memory requested, it has 32Gi in all",
    ),
    Situation(
        "required node affinity with an empty term alone",
        cluster([node("one")]),
        waiting(spec={"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}}),
        "NodeAffinity",
        "its required terms are empty, and match no node",
        ("do not require empty terms, which match no node",),
    ),
    Situation(
        "required node affinity with an empty term beside a wrong one",
        cluster([node("one", labels={"disk": "ssd"})]),
        waiting(
            spec={
                "affinity": {
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {},
                                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]},
                            ]
                        }
                    }
                }
            }
        ),
        "NodeAffinity",
        "the pod wants disk In (hdd), the node has disk=ssd",
        ("allow disk=ssd, too, beside hdd",),
    ),
    Situation(
        "two affinity terms of which none matches, and anti-affinity",
        cluster([node("one")], [DATABASE]),
        waiting(
            spec={
                "affinity": {
                    **pod_affinity({"matchLabels": {"x": "1"}}, {"matchLabels": {"y": "2"}})["affinity"],
                    **affinity_to({"app": "database"}, anti=True)["affinity"],
                }
            }
        ),
        "PodAffinity",
        "no pod anywhere matches",
        ("do without its 3 terms of required pod affinity and pod anti-affinity",),
    ),
    Situation(
        "two host ports of one container port, on two addresses",
        cluster([node("one")], [make_pod("web", node="one", spec=port(8080))]),
        waiting(
            spec={
                "containers": [
                    {
                        "name": "main",
                        "image": "app",
                        "ports": [
                            {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"},
                            {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.2"},
                        ],
                    }
                ]
            }
        ),
        "PortTaken",
        "host port 8080/TCP is taken by default/web",
        ("do without host port 8080/TCP",),
    ),
    *VOLUME_VARIANTS,
    *DEVICE_VARIANTS,
)
