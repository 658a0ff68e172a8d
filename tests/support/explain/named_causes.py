"""Situations whose cause has figures and names that the scheduler's own words lack. See `situations`."""

from __future__ import annotations

from support.explain.objects import (
    HOSTNAME,
    REQUIRED,
    ZONE,
    claim,
    cluster,
    full,
    gang,
    member,
    mounting,
    node,
    node_affinity,
    storage_class,
    volume,
    waiting,
)
from support.explain.situations import Situation
from support.objects.builders import make_pod, make_policy

GPUS = {"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "8"}
STORAGE = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "20Gi"}


def alone(key, **term):
    """The spec of a pod with an anti-affinity."""
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": key, **term}]}}}


def free_volume(size, zone):
    made = volume("disk", "", zone=zone)
    spec = {key: value for key, value in made["spec"].items() if key != "claimRef"}
    return {**made, "spec": {**spec, "capacity": {"storage": size}}, "status": {"phase": "Available"}}


def wanting_storage(class_, *, volumes=(), capacity=""):
    """A pod whose claim for 1Gi is of this class, on a node in zone a."""
    drivers = [{"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}] if capacity else []
    room = {
        "metadata": {"name": "c", "namespace": "default"},
        "storageClassName": "fast",
        "nodeTopology": {},
        "capacity": capacity,
    }
    return cluster(
        [node("one")],
        persistentVolumeClaims=[claim("data", storage_class=class_["metadata"]["name"])],
        storageClasses=[class_],
        persistentVolumes=list(volumes),
        csiDrivers=drivers,
        csiStorageCapacities=[room] if capacity else [],
    )


LOCAL, FAST = storage_class("local", "kubernetes.io/no-provisioner"), storage_class("fast", "csi.example.com")
IN_Z = {**FAST, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z"]}]}]}


def gangs(count, minimum, nodes, placed=0):
    """A group of members that take a node each, and its first waiting member."""
    members = [member(f"m{i}", requests={"cpu": "2"}, **({"node": "n0"} if i < placed else {})) for i in range(count)]
    two = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    return cluster([node(f"n{i}", allocatable=two) for i in range(nodes)], members, groups=[gang(minimum)]), members[
        placed
    ]


NAMED = (
    Situation(
        "too little ephemeral storage is free",
        cluster(
            [node("one", allocatable=STORAGE)], [make_pod("a", node="one", requests={"ephemeral-storage": "15Gi"})]
        ),
        waiting(requests={"ephemeral-storage": "15Gi"}),
        "InsufficientResources",
        "15Gi ephemeral-storage requested, 5Gi of 20Gi free: 10Gi too few",
        ("request 10Gi ephemeral-storage less (5Gi instead of 15Gi)",),
    ),
    Situation(
        "a policy in shadow mode that the pod names",
        cluster([node("one")], policies=[make_policy("trial", 1, "u", mode="Shadow")]),
        waiting(metadata={"annotations": {"podwright.dev/policy": "trial"}}),
        "PolicyNotAccepted",
        "names policy 'trial', which is in shadow mode, so it takes no pods",
        ("take away its annotation podwright.dev/policy",),
    ),
    Situation(
        "the anti-affinity of a pod of another namespace, on another node of the zone",
        cluster(
            [node("one", unschedulable=True), node("two")],
            [make_pod("db", namespace="data", node="one", spec=alone(ZONE, labelSelector={}, namespaces=["default"]))],
        ),
        waiting(),
        "PodAntiAffinity",
        "a pod nearby has an anti-affinity to this pod; there is two: anti-affinity of data/db over topology.kubernetes.io/zone, on one",
    ),
    Situation(
        "an anti-affinity to a pod of another namespace, on another node of the zone",
        cluster([node("one", unschedulable=True), node("two")], [make_pod("db", namespace="data", node="one")]),
        waiting(spec=alone(ZONE, labelSelector={}, namespaces=["data"])),
        "PodAntiAffinity",
        "anti-affinity over topology.kubernetes.io/zone to data/db",
        ("do not require pod anti-affinity over topology.kubernetes.io/zone",),
    ),
    Situation(
        "the overhead of a RuntimeClass",
        cluster([node("one", allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"})]),
        waiting(requests={"cpu": "2"}, spec={"overhead": {"cpu": "3"}, "runtimeClassName": "kata"}),
        "TooBig",
        "5 CPU requested, it has 4 in all; 3 CPU of it is overhead of its RuntimeClass kata",
        ("request 1 CPU less (1 instead of 2)",),
    ),
    Situation(
        "a host name in nodeSelector that no node has",
        cluster([node("worker-1"), node("worker-3")]),
        waiting(spec={"nodeSelector": {HOSTNAME: "wroker-1"}}),
        "NodeAffinity",
        "the pod wants a node named wroker-1, and there is none; did you mean 'worker-1'?",
        ("select kubernetes.io/hostname=worker-1 instead of wroker-1",),
    ),
    Situation(
        "a host name in node affinity that no node has",
        cluster([node("one")]),
        waiting(spec=node_affinity(HOSTNAME, "gone")),
        "NodeAffinity",
        "the pod wants a node named gone, and there is none",
        ("allow kubernetes.io/hostname=one, too, beside gone",),
    ),
    Situation(
        "a pod that never preempts",
        cluster([node("one")], [full("low", "one")]),
        waiting(requests={"cpu": "4"}, priority=100, spec={"preemptionPolicy": "Never"}),
        "PreemptionOff",
        "the pod never preempts (preemptionPolicy: Never), though pods there have a lower priority (default/low)",
        ("one more node like one",),
    ),
    Situation(
        "all GPUs of a node are in use",
        cluster([node("one", allocatable=GPUS)], [make_pod("user", node="one", requests={"nvidia.com/gpu": "8"})]),
        waiting(requests={"nvidia.com/gpu": "8"}),
        "InsufficientResources",
        "8 nvidia.com/gpu requested, 0 of 8 free: 8 too few",
        ("one more node like one",),
    ),
    Situation(
        "no node has a GPU",
        cluster([node("one")]),
        waiting(requests={"nvidia.com/gpu": "8"}),
        "NoSuchResource",
        "no node offers nvidia.com/gpu, of which the pod requests 8",
    ),
    Situation(
        "a free volume that is too small",
        wanting_storage(LOCAL, volumes=[free_volume("100Mi", "a")]),
        waiting(spec=mounting("data")),
        "NoVolume",
        "claim default/data is of storage class local, which has no provisioner, and of the free ones the largest has 100Mi; "
        "the claim asks for 1Gi",
        ("create a PersistentVolume of storage class local on node one, of 1Gi",),
    ),
    Situation(
        "a free volume that is elsewhere",
        wanting_storage(LOCAL, volumes=[free_volume("2Gi", "b")]),
        waiting(spec=mounting("data")),
        "NoVolume",
        "and the free ones are elsewhere (disk)",
        ("create a PersistentVolume of storage class local on node one, of 1Gi",),
    ),
    Situation(
        "too little capacity of a storage class",
        wanting_storage(FAST, capacity="100Mi"),
        waiting(spec=mounting("data")),
        "NoStorage",
        "claim default/data asks for 1Gi of storage class fast; the most that the node reaches is 100Mi",
    ),
    Situation(
        "a storage class that provisions elsewhere",
        wanting_storage(IN_Z),
        waiting(spec=mounting("data")),
        "NoVolume",
        "the class allows no volume on the node (its allowedTopologies: topology.kubernetes.io/zone in z)",
        ("one more node like one, but with topology.kubernetes.io/zone=z",),
    ),
    Situation(
        "a gang that lacks many nodes",
        *gangs(10, 10, 2),
        "GangNoRoom",
        "its group default/gang needs room for 10 members at once, and only 2 fit",
        ("a minimum of 2 instead of 10 in PodGroup default/gang", "8 more nodes like n0"),
    ),
    Situation(
        "a gang of which some members are placed",
        *gangs(4, 4, 2, placed=1),
        "GangNoRoom",
        "of its group default/gang, 1 member is placed already; it needs room for 3 more at once, and only 1 fit",
        ("2 more nodes like n0",),
    ),
)
