"""Situations in which the queue of a pod keeps it waiting."""

from __future__ import annotations

from typing import Any

from podwright.api.kai_queue import KAI_LABEL
from podwright.api.volcano_queue import VOLCANO_LABEL
from podwright.kube.kinds import KAI_QUEUE, VOLCANO_QUEUE
from support.explain.objects import cluster, gang, node, waiting
from support.explain.situations import Situation
from support.gangs import volcano
from support.objects.builders import in_group, make_namespace, make_pod, make_policy
from support.objects.queues import other_queue, queue

GPU = "nvidia.com/gpu"
LABEL, USER = "podwright.dev/queue", "podwright.dev/user"
ONE = [node("one", allocatable={GPU: "8"})]
NODES = [node("one", allocatable={GPU: "8"}), node("two", allocatable={GPU: "8"})]


def runs(name: str, of: str, gpus: str, on: str = "one", **options: Any) -> dict[str, Any]:
    labels = options.pop("labels", {LABEL: of} if of else {})
    spec = {"schedulerName": "podwright", **options.pop("spec", {})}
    return make_pod(name, labels=labels, requests={GPU: gpus}, node=on, spec=spec, **options)


def waits(of: str, gpus: str = "1", name: str = "waiting", **options: Any) -> dict[str, Any]:
    labels = options.pop("labels", {LABEL: of} if of else {})
    return waiting(name, labels=labels, requests={GPU: gpus}, **options)


def limit(name: str, gpus: str | None = None, **spec: Any) -> dict[str, Any]:
    return queue(name, resources={GPU: {"limit": gpus} if gpus else {}}, **spec)


TREE = (limit("ml", "8"), limit("a", "4", parent="ml"), limit("b", parent="ml"))
VOLCANO_MEMBERS = [
    waits("a", "2", f"member-{i}", metadata={"annotations": {"scheduling.k8s.io/group-name": "gang"}}, priority=1000)
    for i in range(3)
]
MEMBERS = [waits("a", "2", f"member-{i}", spec=in_group("gang")) for i in range(3)]

FOUR = [runs(f"b{i}", "b", "1") for i in range(4)]

EVAS = [waits("a", "2", f"member-{i}", labels={LABEL: "a", USER: "eva"}, spec=in_group("gang")) for i in range(3)]
KAI, OF_KAI, VOLCANO = {KAI_LABEL: "a"}, {"schedulerName": "kai-scheduler"}, {VOLCANO_LABEL: "a"}
SERVED = [make_policy(name, schedulerName=name) for name in ("kai-scheduler", "volcano")]


def kai(name: str, **gpu: float) -> dict[str, Any]:
    bounds = {"limit": -1, "overQuotaWeight": 1}
    return other_queue(KAI_QUEUE, name, resources={"gpu": gpu, "cpu": bounds, "memory": bounds})


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value}


QUEUE_SITUATIONS = (
    Situation(
        "a limit of its queue",
        cluster(NODES, [runs("small", "a", "1"), runs("large", "a", "2")], TREE),
        waits("a", "2"),
        "QueueLimit",
        "its queue a keeps it waiting: a holds 3 of 4 nvidia.com/gpu, and the pod requests 2; ml has 5 free of 8",
        (
            "request 1 nvidia.com/gpu less (1 instead of 2)",
            "have a PriorityClass of at least 1, to preempt 1 pod: default/large (priority 0)",
            "raise the limit of queue a by 1 nvidia.com/gpu, from 4 to 5",
            "wait until default/small ends, which holds 1 nvidia.com/gpu of queue a",
        ),
    ),
    Situation(
        "limits of two levels",
        cluster(NODES, [runs("a1", "a", "4"), runs("b1", "b", "3")], TREE),
        waits("a", "2"),
        "QueueLimit",
        "a holds 4 of 4 nvidia.com/gpu; ml has 1 free of 8",
        ("from 4 to 6 and raise the limit of queue ml by 1 nvidia.com/gpu, from 8 to 9",),
    ),
    Situation(
        "several pods have to end",
        cluster(NODES, [runs(f"a{i}", "a", "1", priority=9) for i in range(4)], TREE),
        waits("a", "2", priority=9, spec={"preemptionPolicy": "Never"}),
        "QueueLimit",
        "a holds 4 of 4",
        ("wait until default/a0 and default/a1 end, which hold 2 nvidia.com/gpu of queue a", "from 4 to 6"),
    ),
    Situation(
        "a limit, and no room either",
        cluster(
            [node("one", allocatable={GPU: "4"})], [runs("a1", "a", "2"), runs("other", "", "2")], [limit("a", "2")]
        ),
        waits("a", "1", spec={"preemptionPolicy": "Never"}),
        "QueueLimit",
        "a holds 2 of 2",
        (
            "raise the limit of queue a by 1 nvidia.com/gpu, from 2 to 3 and one more node like one",
            "wait until default/a1",
        ),
    ),
    Situation(
        "a limit, no room, and priorities that do not have to change",
        cluster(
            [node("one", allocatable={GPU: "4"})], [runs("a1", "a", "2"), runs("other", "", "2")], [limit("a", "2")]
        ),
        waits("a", "1"),
        "QueueLimit",
        "a holds 2 of 2",
        ("from 2 to 3 and one more node like one", "have a PriorityClass of at least 1, to preempt 1 pod: default/a1"),
    ),
    Situation(
        "what its user may have",
        cluster(
            NODES,
            [
                runs("a1", "a", "3", labels={LABEL: "a", USER: "eva"}),
                runs("a2", "a", "4", labels={LABEL: "a", USER: "max"}),
            ],
            [queue("a", userLimits={GPU: 4})],
        ),
        waits("a", "2", labels={LABEL: "a", USER: "eva"}),
        "QueueLimit",
        "user eva holds 3 of 4 nvidia.com/gpu in a, and the pod requests 2",
        (
            "request 1 nvidia.com/gpu less",
            "raise the userLimits of queue a by 1 nvidia.com/gpu, from 4 to 5",
            "wait until default/a1 ends, which holds 3 nvidia.com/gpu of queue a",
        ),
    ),
    Situation(
        "what its user may have in its queue, and in the one above",
        cluster(
            NODES,
            [runs("a1", "a", "2", labels={LABEL: "a", USER: "eva"})],
            [queue("ml", userLimits={GPU: 2}), queue("a", parent="ml", userLimits={GPU: 2})],
        ),
        waits("a", "2", labels={LABEL: "a", USER: "eva"}),
        "QueueLimit",
        "user eva holds 2 of 2 nvidia.com/gpu in a",
        (
            (
                "raise the userLimits of queue a by 2 nvidia.com/gpu, from 2 to 4"
                " and raise the userLimits of queue ml by 2 nvidia.com/gpu, from 2 to 4"
            ),
        ),
    ),
    Situation(
        "a limit of a queue that guarantees less than those below it",
        cluster(
            NODES,
            [runs("a1", "a", "3")],
            [
                queue("ml", resources={GPU: {"guarantee": 1, "limit": 3}}),
                queue("a", parent="ml", resources={GPU: {"guarantee": 2}}),
            ],
        ),
        waits("a"),
        "QueueLimit",
        "ml holds 3 of 3 nvidia.com/gpu",
        ("raise the limit of queue ml by 1 nvidia.com/gpu, from 3 to 4",),
    ),
    Situation(
        "what the user of a group may have",
        cluster(NODES, EVAS, [queue("a", userLimits={GPU: 3})], [gang(3)]),
        EVAS[0],
        "QueueLimit",
        "user eva holds 2 of 3 nvidia.com/gpu in a, and the pod requests 2 (beside 1 member)",
        ("raise the userLimits of queue a by 3 nvidia.com/gpu, from 3 to 6",),
    ),
    Situation(
        "a group without room, above what its user may have",
        cluster(
            [node("one", allocatable={GPU: "2"})],
            [runs("r", "", "2"), *EVAS],
            [queue("a", userLimits={GPU: 3})],
            [gang(3)],
        ),
        EVAS[0],
        "GangNoRoom",
        "needs room for 3 members at once, and only 0 fit",
        ("raise the userLimits of queue a by 3 nvidia.com/gpu, from 3 to 6 and 3 more nodes like one",),
    ),
    Situation(
        "what another queue does not lend",
        cluster(
            [node("one", allocatable={GPU: "8"})],
            [runs("a1", "a", "4")],
            [limit("a"), queue("b", resources={GPU: {"guarantee": 4, "lendingLimit": 1}})],
        ),
        waits("a", "2", spec={"preemptionPolicy": "Never"}),
        "QueueLimit",
        "3 are kept for queues that do not lend them",
        (
            "raise the lendingLimit of queue b by 1 nvidia.com/gpu, from 1 to 2",
            "wait until default/a1 ends, which holds 4 nvidia.com/gpu of all queues",
        ),
    ),
    Situation(
        "what two other queues do not lend",
        cluster(
            [node("one", allocatable={GPU: "8"})],
            [runs("a1", "a", "4")],
            [
                limit("a"),
                *(queue(name, resources={GPU: {"guarantee": 2, "lendingLimit": 0}}) for name in ("b", "c")),
            ],
        ),
        waits("a", "3", spec={"preemptionPolicy": "Never"}),
        "QueueLimit",
        "4 are kept for queues that do not lend them",
        (
            (
                "raise the lendingLimit of queue c by 2 nvidia.com/gpu, from 0 to 2"
                " and raise the lendingLimit of queue b by 1 nvidia.com/gpu, from 0 to 1"
            ),
        ),
    ),
    Situation(
        "a pod that is never evicted, above the guarantee",
        cluster(
            NODES,
            [runs("a1", "a", "2", priority=100)],
            [
                queue("ml", resources={GPU: {"guarantee": 3}}),
                queue("a", parent="ml", resources={GPU: {"guarantee": 3}}, nonPreemptiblePriority=100),
            ],
        ),
        waits("a", "2", priority=100),
        "QueueLimit",
        "a is guaranteed 3 nvidia.com/gpu, of which pods that are never evicted hold 2",
        (
            (
                "raise the guarantee of queue a by 1 nvidia.com/gpu, from 3 to 4"
                " and raise the guarantee of queue ml by 1 nvidia.com/gpu, from 3 to 4"
            ),
        ),
    ),
    Situation(
        "a queue that is at its share",
        cluster(ONE, [runs("a1", "a", "4"), *FOUR, waits("a")], [limit("a"), limit("b")]),
        waits("a"),
        "InsufficientResources",
        "too little nvidia.com/gpu is free",
        ("raise the guarantee of queue a by 2 nvidia.com/gpu, from 0 to 2, to preempt 1 pod: default/b3 (priority 0)",),
    ),
    Situation(
        "a queue at its share below another one that is, too",
        cluster(
            ONE,
            [runs("a1", "a", "4"), *FOUR, waits("a")],
            [limit("ml"), limit("a", parent="ml"), limit("b")],
        ),
        waits("a"),
        "InsufficientResources",
        "too little nvidia.com/gpu is free",
        (
            "raise the guarantee of queue ml by 2 nvidia.com/gpu, from 0 to 2, to preempt 1 pod: default/b3 (priority 0)",
        ),
    ),
    Situation(
        "a group whose queue is at its share",
        cluster(
            ONE,
            [runs("a1", "a", "4"), *FOUR, *MEMBERS[:2]],
            [limit("a"), limit("b", "4")],
            [gang(2)],
        ),
        MEMBERS[0],
        "GangNoRoom",
        "needs room for 2 members at once",
        ("raise the guarantee of queue a by 8 nvidia.com/gpu, from 0 to 8, to preempt 4 pods",),
    ),
    Situation(
        "a limit of a queue of KAI",
        cluster(NODES, [runs("a1", "a", "2", labels=KAI, spec=OF_KAI)], [*SERVED, kai("a", limit=2.5)]),
        waits("a", labels=KAI, spec=OF_KAI),
        "QueueLimit",
        "a holds 2 of 2 nvidia.com/gpu",
        ("set spec.resources.gpu.limit to 3 instead of 2.5 in queue a", "wait until default/a1 ends"),
    ),
    Situation(
        "a pod that KAI never evicts, above the quota",
        cluster(NODES, [], [*SERVED, kai("a", limit=-1, quota=1)]),
        waits("a", "2", labels=KAI, spec=OF_KAI, priority=100),
        "QueueLimit",
        "a is guaranteed 1 nvidia.com/gpu",
        ("set spec.resources.gpu.quota to 2 instead of 1 in queue a",),
    ),
    Situation(
        "a queue of KAI that is at its share",
        cluster(
            ONE,
            [
                runs("a1", "a", "4", labels=KAI, spec=OF_KAI),
                *FOUR,
                waits("a", labels=KAI, spec=OF_KAI),
            ],
            [*SERVED, kai("a", limit=-1, overQuotaWeight=1), limit("b")],
        ),
        waits("a", labels=KAI, spec=OF_KAI),
        "InsufficientResources",
        "too little nvidia.com/gpu is free",
        ("set spec.resources.gpu.quota to 2 instead of 0 in queue a, to preempt 1 pod: default/b3 (priority 0)",),
    ),
    Situation(
        "the capability of a queue of Volcano",
        cluster(
            NODES,
            [runs("a1", "a", "2", labels=VOLCANO)],
            [*SERVED, other_queue(VOLCANO_QUEUE, "a", capability={GPU: 2})],
        ),
        waits("a", "3", labels=VOLCANO, spec={"preemptionPolicy": "Never"}),
        "QueueLimit",
        "a holds 2 of 2 nvidia.com/gpu",
        ("set spec.capability[nvidia.com/gpu] to 5 instead of 2 in queue a",),
    ),
    Situation(
        "what a queue of Volcano keeps for itself",
        cluster(
            ONE,
            [runs("a1", "a", "4", labels=VOLCANO)],
            [
                *SERVED,
                other_queue(VOLCANO_QUEUE, "a"),
                other_queue(VOLCANO_QUEUE, "b", deserved={GPU: 4}, guarantee={"resource": {GPU: 3}}),
            ],
        ),
        waits("a", "2", labels=VOLCANO, spec={"preemptionPolicy": "Never"}),
        "QueueLimit",
        "3 are kept for queues that do not lend them",
        ("set spec.guarantee.resource[nvidia.com/gpu] to 2 instead of 3 in queue b",),
    ),
    Situation(
        "a queue that does not exist",
        cluster(NODES, [], [limit("research")]),
        waits("reserach"),
        "QueueMissing",
        "queue reserach does not exist (named by metadata.labels[podwright.dev/queue]); did you mean 'research'?",
        ("be in queue research instead of reserach",),
    ),
    Situation(
        "a queue with queues below it",
        cluster(NODES, [], TREE),
        waits("ml"),
        "QueueHasQueues",
        "so no pods start in it (named by metadata.labels[podwright.dev/queue]) (a and b)",
        ("be in queue a instead of ml",),
    ),
    Situation(
        "a queue above is on hold",
        cluster(NODES, [], [limit("ml", state="Hold"), limit("a", parent="ml", state="Drain")]),
        waits("a"),
        "QueueNotOpen",
        "queue a is in state Drain",
        ("open queues a and ml",),
    ),
    Situation(
        "a queue on hold that is at its limit",
        cluster(NODES, [runs("a1", "a", "4")], [limit("a", "4", state="Hold")]),
        waits("a"),
        "QueueNotOpen",
        "queue a is in state Hold",
        ("open queue a and raise the limit of queue a by 1 nvidia.com/gpu, from 4 to 5",),
    ),
    Situation(
        "a namespace that may not use the queue, which is at its limit",
        cluster(
            NODES,
            [runs("a1", "a", "4")],
            [limit("a", "4", namespaceSelector={"matchLabels": {"team": "x"}})],
            namespaces=[make_namespace("default", {"team": "y"})],
        ),
        waits("a"),
        "QueueNotAllowed",
        "namespace default may not use queue a",
        ("label namespace default with team=x and raise the limit of queue a by 1 nvidia.com/gpu, from 4 to 5",),
    ),
    Situation(
        "a namespace that may not use the queue",
        cluster(
            NODES,
            [],
            [limit("a", namespaceSelector={"matchLabels": {"team": "x"}})],
            namespaces=[make_namespace("default", {"team": "y"})],
        ),
        waits("a"),
        "QueueNotAllowed",
        "namespace default may not use queue a",
        ("label namespace default with team=x",),
    ),
    Situation(
        "a queue that is invalid",
        cluster(NODES, [], [limit("a", parent="gone")]),
        waits("a"),
        "QueueInvalid",
        "queue 'gone' does not exist",
    ),
    Situation(
        "a queue that was never valid",
        cluster(NODES, [], [limit("a", priority="high"), limit("b")]),
        waits("a"),
        "QueueInvalid",
        "queue a is invalid: SchedulingQueue a: spec.priority: expected a whole number",
    ),
    Situation(
        "a queue that the namespace names",
        cluster(NODES, [runs("a1", "a", "4")], TREE, namespaces=[make_namespace("default", {LABEL: "a"})]),
        waits("", "3", spec={"preemptionPolicy": "Never"}),
        "QueueLimit",
        "its queue a, which the label of its namespace names, keeps it waiting",
        ("from 4 to 7", "wait until default/a1 ends"),
    ),
    Situation(
        "a group above a limit",
        cluster(NODES, [runs("a1", "a", "2"), *MEMBERS], TREE, [gang(3)]),
        MEMBERS[0],
        "QueueLimit",
        "its group default/gang of 3 members is kept waiting by a queue: a holds 2 of 4 nvidia.com/gpu,"
        " and the pod group requests 6",
        ("raise the limit of queue a by 4 nvidia.com/gpu, from 4 to 8", "a minimum of 1 instead of 3"),
    ),
    Situation(
        "a group that could request less, or come before others",
        cluster(NODES, [runs("a1", "a", "1"), *MEMBERS], [limit("a", "6")], [gang(3)]),
        MEMBERS[0],
        "QueueLimit",
        "a holds 1 of 6 nvidia.com/gpu, and the pod group requests 6",
        (
            "let each member request 1 nvidia.com/gpu less (1 instead of 2)",
            "let each member have a PriorityClass of at least 1, to preempt 1 pod: default/a1 (priority 0)",
            "raise the limit of queue a by 1 nvidia.com/gpu, from 6 to 7",
            "wait until default/a1 ends",
        ),
    ),
    Situation(
        "a group that could name another PriorityClass",
        cluster(
            NODES,
            [runs("a1", "a", "1", priority=50), *VOLCANO_MEMBERS],
            [limit("a", "6")],
            [volcano.group("gang", "default", minMember=3, priorityClassName="low")],
            priorityClasses=[priority_class("low", 0), priority_class("high", 100), priority_class("higher", 101)],
        ),
        VOLCANO_MEMBERS[0],
        "QueueLimit",
        "a holds 1 of 6 nvidia.com/gpu, and the pod group requests 6",
        ("let PodGroup default/gang name the PriorityClass high, to preempt 1 pod: default/a1 (priority 50)",),
    ),
)
