"""Thirty situations in which a pod waits, each with its true cause. They are explained on a World, and ten of them on a
real API server.

`pod` is the pod that waits. `bound`: whether a change is proposed that places it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podwright.simulator.explain.from_operator import joined
from podwright.simulator.explain.results import Explanation
from support.explain.kit import Cluster
from support.explain.objects import (
    HOSTNAME,
    ZONE,
    affinity_to,
    claim,
    cluster,
    full,
    gang,
    member,
    mounting,
    node,
    node_affinity,
    policy,
    port,
    spread_over,
    storage_class,
    volume,
    waiting,
)
from support.objects.builders import make_pod, make_taint


@dataclass(frozen=True)
class Situation:
    """`reason` and `says`: of the first cause. `helps`: texts of some of the changes."""

    id: str
    cluster: Cluster
    pod: Mapping[str, Any]
    reason: str
    says: str
    helps: Sequence[str] = ()
    real: bool = False
    """True if it is tried on a real API server, too."""
    answer: Mapping[str, Any] | None = None
    """The operator's answer about the pod, if it is asked."""

    def explained(self) -> Explanation:
        """The explanation, with the operator's answer."""
        found = self.cluster.explain(self.pod)
        return found if self.answer is None else joined(found, self.answer)


GONE = "2030-01-01T00:00:00Z"

SITUATIONS = (
    Situation(
        "a taint that the pod does not tolerate",
        cluster([node("one", taints=[make_taint("dedicated", "gpu")])]),
        waiting(),
        "UntoleratedTaint",
        "dedicated=gpu:NoSchedule",
        ("tolerate dedicated=gpu:NoSchedule", "take dedicated=gpu:NoSchedule away from node one"),
        real=True,
    ),
    Situation(
        "a request greater than any node",
        cluster([node("one"), node("two", allocatable={"cpu": "16"})]),
        waiting(requests={"cpu": "20"}),
        "TooBig",
        "more than any node has (16)",
        ("request 4 CPU less (16 instead of 20)",),
        real=True,
    ),
    Situation(
        "affinity to pods with a label that no pod has",
        cluster([node("one")], [make_pod("db", node="one", labels={"app": "database"})]),
        waiting(spec=affinity_to({"app": "databse"})),
        "PodAffinity",
        "no pod anywhere matches",
        ("look for pods with app=database instead of databse",),
        real=True,
    ),
    Situation(
        "a spread constraint that the free nodes would break",
        cluster(
            [node("one"), node("two", "b", allocatable={"cpu": "1"})],
            [make_pod("web-1", node="one", labels={"app": "web"}), full("big", "two", "1")],
        ),
        waiting(labels={"app": "web"}, requests={"cpu": "1"}, spec=spread_over(ZONE)),
        "Spread",
        "maxSkew 1 over topology.kubernetes.io/zone",
        ("allow maxSkew 2 instead of 1",),
    ),
    Situation(
        "a volume in another zone",
        cluster(
            [node("one", "a"), node("two", "b", unschedulable=True)],
            persistentVolumes=[volume("disk", "data", zone="b")],
            persistentVolumeClaims=[claim("data", volume="disk")],
        ),
        waiting(spec=mounting("data")),
        "Cordoned",
        "it is cordoned",
        ("uncordon node two",),
    ),
    Situation(
        "a volume in a zone without nodes",
        cluster(
            [node("one", "a")],
            persistentVolumes=[volume("disk", "data", zone="c")],
            persistentVolumeClaims=[claim("data", volume="disk")],
        ),
        waiting(spec=mounting("data")),
        "VolumeElsewhere",
        "volume disk of claim data is only in topology.kubernetes.io/zone In (c)",
        ("one more node like one, but with topology.kubernetes.io/zone=c",),
    ),
    Situation(
        "a host port that is taken",
        cluster([node("one")], [make_pod("web", node="one", spec=port(8080))]),
        waiting(spec=port(8080)),
        "PortTaken",
        "host port 8080/TCP is taken by default/web",
        ("do without host port 8080/TCP", "one more node like one"),
        real=True,
    ),
    Situation(
        "scheduling gates",
        cluster([node("one")]),
        waiting(spec={"schedulingGates": [{"name": "example.com/quota"}]}),
        "Gated",
        "example.com/quota",
        ("take away its scheduling gates (example.com/quota)",),
        real=True,
    ),
    Situation(
        "a policy with an error",
        cluster([node("one")], policies=[policy(schedulerName="team", strategy={"type": "Tetris"})]),
        waiting(spec={"schedulerName": "team"}),
        "PolicyNotAccepted",
        "Tetris",
        ("ask for the scheduler podwright instead of team",),
    ),
    Situation(
        "victims that have not ended",
        cluster(
            [node("one")],
            [
                full("old", "one", metadata={"deletionTimestamp": GONE}, status={"phase": "Running"}),
            ],
        ),
        waiting(requests={"cpu": "4"}, priority=100, status={"nominatedNodeName": "one"}),
        "WaitsForPreemption",
        "until default/old has ended",
    ),
    Situation(
        "room that is kept for another pod",
        cluster(
            [node("one")],
            [make_pod("vip", requests={"cpu": "6"}, priority=1000, status={"nominatedNodeName": "one"})],
        ),
        waiting(requests={"cpu": "4"}),
        "RoomIsNominated",
        "default/vip",
        ("request 2 CPU less",),
    ),
    Situation(
        "a pod in backoff, which fits by now",
        cluster([node("one")]),
        waiting(),
        "Backoff",
        "in backoff after 4 attempts: it is tried again in 6 s",
        answer={"queue": {"place": "backoff", "attempts": 4, "waited": 30.0, "triedIn": 6.0}},
    ),
    Situation(
        "a PodDisruptionBudget in the way",
        cluster(
            [node("one"), node("two")],
            [full("web-1", "one", labels={"app": "web"}), full("web-2", "two", labels={"app": "web"})],
            podDisruptionBudgets=[
                {
                    "metadata": {"name": "web", "namespace": "default"},
                    "spec": {"selector": {"matchLabels": {"app": "web"}}},
                    "status": {"disruptionsAllowed": 0},
                }
            ],
        ),
        waiting(requests={"cpu": "4"}, priority=10),
        "InsufficientResources",
        "too little CPU is free",
        ("one more node like",),
    ),
    Situation(
        "as many pods as a node takes",
        cluster([node("one", allocatable={"pods": "1"})], [make_pod("first", node="one")]),
        waiting(),
        "TooManyPods",
        "1 pods are on it and it takes 1",
        ("one more node like one",),
        real=True,
    ),
    Situation(
        "a claim that does not exist",
        cluster([node("one")], storageClasses=[storage_class("fast", "example.com/disks")]),
        waiting(spec=mounting("data")),
        "ClaimMissing",
        "default/data does not exist",
        ("create the claim default/data, of storage class fast",),
    ),
    Situation(
        "a storage class without provisioner",
        cluster(
            [node("one")],
            storageClasses=[storage_class("local", "kubernetes.io/no-provisioner")],
            persistentVolumeClaims=[claim("data")],
        ),
        waiting(spec=mounting("data")),
        "NoVolume",
        "has no provisioner",
        ("create a PersistentVolume of storage class local on node one",),
    ),
    Situation(
        "a node that is not ready",
        cluster([node("one", taints=[make_taint("node.kubernetes.io/not-ready")])]),
        waiting(),
        "NodeNotReady",
        "node.kubernetes.io/not-ready:NoSchedule",
        ("node one is healthy again",),
    ),
    Situation(
        "a scheduler name that nobody serves",
        cluster([node("one")]),
        waiting(spec={"schedulerName": "podwrite"}),
        "SchedulerNameNotServed",
        "did you mean 'podwright'?",
        ("ask for the scheduler podwright instead of podwrite",),
        real=True,
    ),
    Situation(
        "a policy that was deleted",
        cluster([node("one")]),
        waiting(spec={"schedulerName": "team-batch"}),
        "SchedulerNameNotServed",
        "served are podwright",
        ("ask for the scheduler podwright",),
    ),
    Situation(
        "an extended resource that no node has",
        cluster([node("one"), node("two")]),
        waiting(requests={"example.com/gpu": "1"}),
        "NoSuchResource",
        "no node offers example.com/gpu",
    ),
    Situation(
        "an extended resource in use",
        cluster(
            [node("one", allocatable={"example.com/gpu": "2"}), node("two")],
            [make_pod("train", node="one", requests={"example.com/gpu": "2"})],
        ),
        waiting(requests={"example.com/gpu": "1"}),
        "InsufficientResources",
        "too little example.com/gpu is free",
        ("one more node like one",),
    ),
    Situation(
        "as many volumes as a node takes, and an image volume",
        cluster(
            [node("one")],
            [make_pod("first", node="one", spec=mounting("data-1"))],
            csiNodes=[
                {
                    "metadata": {"name": "one"},
                    "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "one", "allocatable": {"count": 1}}]},
                }
            ],
            persistentVolumes=[
                volume("disk-1", "data-1", driver="csi.example.com"),
                volume("disk-2", "data-2", driver="csi.example.com"),
            ],
            persistentVolumeClaims=[claim("data-1", volume="disk-1"), claim("data-2", volume="disk-2")],
        ),
        waiting(spec=mounting("data-2", images=["example.com/models:1"])),
        "VolumeLimit",
        "exceed max volume count",
        ("one more node like one",),
    ),
    Situation(
        "a cordoned node",
        cluster([node("one", unschedulable=True, taints=[make_taint("node.kubernetes.io/unschedulable")])]),
        waiting(),
        "Cordoned",
        "it is cordoned",
        ("uncordon node one",),
        real=True,
    ),
    Situation(
        "a wrong host name",
        cluster([node("one")]),
        waiting(spec={"nodeSelector": {HOSTNAME: "onn"}}),
        "NodeAffinity",
        "the pod wants kubernetes.io/hostname=onn, the node has kubernetes.io/hostname=one",
        ("select kubernetes.io/hostname=one instead of onn",),
        real=True,
    ),
    Situation(
        "a node that another scheduler has over-committed",
        cluster(
            [node("one")],
            [full("ours", "one", "6", spec={"schedulerName": "podwright"}), full("theirs", "one", "6")],
        ),
        waiting(requests={"cpu": "1"}),
        "Overcommitted",
        "other schedulers place pods there, too (default-scheduler)",
        ("one more node like one",),
    ),
    Situation(
        "pods that are still terminating",
        cluster([node("one")], [full("old", "one", metadata={"deletionTimestamp": GONE})]),
        waiting(requests={"cpu": "4"}),
        "WaitsForTerminatingPods",
        "default/old",
        ("wait until default/old has ended",),
    ),
    Situation(
        "a pod that is being deleted itself",
        cluster([node("one")]),
        waiting(metadata={"deletionTimestamp": GONE}),
        "Terminating",
        "not scheduled any more",
    ),
    Situation(
        "a misspelt value in the node affinity",
        cluster([node("one", labels={"disk": "ssd"})]),
        waiting(spec=node_affinity("disk", "sdd")),
        "NodeAffinity",
        "the pod wants disk In (sdd), the node has disk=ssd",
        ("allow disk=ssd, too, beside sdd", "label node one with disk=sdd"),
    ),
    Situation(
        "a claim that only one pod may use",
        cluster(
            [node("one"), node("two")],
            [make_pod("first", node="one", spec=mounting("data"))],
            persistentVolumes=[volume("disk", "data", modes=["ReadWriteOncePod"])],
            persistentVolumeClaims=[claim("data", volume="disk", modes=["ReadWriteOncePod"])],
        ),
        waiting(spec=mounting("data")),
        "ClaimInUse",
        "default/first on one uses it",
        ("default/first ends",),
    ),
    Situation(
        "pods of a higher priority",
        cluster([node("one"), node("two")], [full("a", "one", priority=1000), full("b", "two", priority=1000)]),
        waiting(requests={"cpu": "4"}),
        "PriorityTooLow",
        "have a higher priority (up to 1000, this pod 0)",
        ("have a PriorityClass of at least 1001", "one more node like"),
    ),
    Situation(
        "anti-affinity to a pod on every node",
        cluster([node("one")], [make_pod("web-1", node="one", labels={"app": "web"})]),
        waiting(labels={"app": "web"}, spec=affinity_to({"app": "web"}, anti=True)),
        "PodAntiAffinity",
        "default/web-1",
        ("one more node like one",),
        real=True,
    ),
    Situation(
        "a policy that the pod names and that does not exist",
        cluster([node("one")]),
        waiting(metadata={"annotations": {"podwright.dev/policy": "teem"}}),
        "PolicyNotAccepted",
        "its annotation podwright.dev/policy names policy 'teem'",
        ("take away its annotation podwright.dev/policy",),
    ),
    Situation(
        "a rule of the policy in CEL",
        cluster(
            [node("one", labels={"tier": "gold"}), node("two")],
            policies=[
                policy(
                    schedulerName="podwright",
                    rules={
                        "filters": [
                            {
                                "name": "same-tier",
                                "expression": "has(node.labels.tier) && node.labels.tier == pod.labels.tier",
                                "message": "node(s) had another tier than the pod",
                            }
                        ]
                    },
                )
            ],
        ),
        waiting(labels={"tier": "silver"}),
        "PolicyRule",
        "node(s) had another tier than the pod",
        ("take the rule same-tier out of policy team",),
    ),
    Situation(
        "a gang that lacks one member",
        cluster([node("one")], [member("first"), member("waiting")], groups=[gang(3)]),
        member("waiting"),
        "GangTooSmall",
        "has 2 of 3 members: 1 more is needed",
        ("1 more member like this pod", "a minimum of 2 instead of 3"),
    ),
    Situation(
        "a gang for which there is room for all but one",
        cluster(
            [node("one"), node("two")],
            [member(name, requests={"cpu": "6"}) for name in ("first", "second", "waiting")],
            groups=[gang(3)],
        ),
        member("waiting", requests={"cpu": "6"}),
        "GangNoRoom",
        "needs room for 3 members at once, and only 2 fit",
        ("let each member request 2 CPU less", "one more node like one"),
    ),
    Situation(
        "a gang of which no domain has room for all",
        cluster(
            [node("one", "a"), node("two", "a"), node("three", "b")],
            [member(name, requests={"cpu": "6"}) for name in ("first", "second", "waiting")],
            groups=[gang(3, schedulingConstraints={"topology": [{"key": ZONE}]})],
        ),
        member("waiting", requests={"cpu": "6"}),
        "GangDomainTooSmall",
        "no domain of topology.kubernetes.io/zone has room for 3 members of its group default/gang at once (zone a: room for 2 of 3)",
        ("one more node like one",),
    ),
)
