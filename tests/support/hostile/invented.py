"""Subjects for hostile objects beyond those of one pod: volumes, Services, nominations, gangs, and pods that are placed
already.
"""

from __future__ import annotations

from typing import Final

from support.engine.kit import Rig, on_node, ours
from support.hostile import objects
from support.hostile.subjects import DONE, Raw, Subject, node, node_name
from support.objects.builders import in_group, make_namespace, make_pod, make_pod_group

RUNNING: Final = {"phase": "Running"}
PLACED: Final = 10_000
"""The most placed pods that get labels of their own."""


def unbound_claims(claims: int, volumes: int) -> Subject:
    """A pod with so many unbound claims, beside local volumes of which each leaves out one node."""

    def prepare(rig: Rig, _nodes: int) -> None:
        engine = rig.engine
        engine.objects("StorageClass").put(objects.LOCAL_CLASS)
        for number in range(volumes):
            engine.objects("PersistentVolume").put(objects.local_volume(number, "NotIn", node_name(number)))
        for number in range(claims):
            engine.objects("PersistentVolumeClaim").put(objects.unbound_claim(number))

    return Subject(lambda _number: objects.mounting(claims), prepare=prepare)


def as_many_claims_as_volumes(size: int) -> Subject:
    """Each of the first nodes cannot reach one of the volumes, of which there are a hundred more than claims."""
    return unbound_claims(size, size + 100)


def claims_beside_many_volumes(volumes: int) -> Subject:
    return unbound_claims(50, volumes + 50)


def beside_labels_of_their_own(size: int) -> Subject:
    """Anti-affinity terms, where each placed pod has labels of its own."""

    def prepare(rig: Rig, nodes: int) -> None:
        for number in range(min(PLACED, 2 * nodes)):
            raw = make_pod(f"own-{number}", labels={"app": f"own-{number}", "own": f"value-{number}"}, status=RUNNING)
            rig.engine.assigned.put(on_node(raw, node_name(number % nodes // 10 * 10 + 1)))

    return Subject(lambda _number: objects.required_anti_affinity(size), prepare=prepare)


def beside_placed_terms(size: int) -> Subject:
    """An ordinary pod, beside placed pods with so many anti-affinity terms, of which nearly all match it."""

    def prepare(rig: Rig, nodes: int) -> None:
        each = min(size, 500)
        for number in range(size // each):
            raw = make_pod(
                f"broad-{number}", labels={"app": "broad"}, spec=objects.terms_from(number * each, each), status=RUNNING
            )
            rig.engine.assigned.put(on_node(raw, node_name(number % (nodes // 2) + 1)))

    return Subject(prepare=prepare)


def beside_services(size: int) -> Subject:
    """A pod in a namespace with so many Services, one of which has changed."""

    def prepare(rig: Rig, _nodes: int) -> None:
        for number in range(size):
            rig.engine.objects("Service").put(objects.service(number, "old"))

    def change(rig: Rig, number: int) -> None:
        rig.engine.objects("Service").put(objects.service(0, f"new-{number}"))

    return Subject(prepare=prepare, change=change)


def images_of_nodes(size: int) -> Subject:
    """A pod with so many containers, whose images are each on one node. Every node has 50 images of its own."""

    def prepare(rig: Rig, nodes: int) -> None:
        for index in range(nodes):
            images = [{"names": [objects.image(50 * index + number)], "sizeBytes": 10**8} for number in range(50)]
            rig.engine.nodes.put(node(index, images=images))

    return Subject(lambda number: objects.containers(size, first=number), prepare=prepare)


def beside_nominations(size: int) -> Subject:
    """A pod with an anti-affinity term, beside gated pods with terms that are nominated to nodes of their own."""

    def prepare(rig: Rig, nodes: int) -> None:
        for number in range(size):
            raw = ours(
                f"nominated-{number}",
                labels={"app": "nominated"},
                spec={
                    **objects.required_anti_affinity(20),
                    "priority": 1000,
                    "schedulingGates": [{"name": "example.com/gate"}],
                },
                status={"nominatedNodeName": node_name(number % (nodes // 2))},
            )
            rig.engine.pending.put(raw)
        assert len(rig.engine.cache.nominator) == size

    return Subject(lambda number: objects.terms_from(number, 1 + number % 2), prepare=prepare)


def labelled_nodes(size: int) -> Subject:
    """A pod that selects labels, all of which the nodes have."""
    labels = {f"example.com/key-{number}": "true" for number in range(size)}

    def prepare(rig: Rig, nodes: int) -> None:
        for index in range(nodes):
            rig.engine.nodes.put(node(index, labels=labels))

    return Subject(lambda _number: {"nodeSelector": labels}, prepare=prepare)


def beside_pods_with_labels(size: int) -> Subject:
    """A pod with an affinity term, beside 50 placed pods with so many labels each."""

    def prepare(rig: Rig, _nodes: int) -> None:
        for number in range(50):
            labels = {f"example.com/label-{i}": f"{number}-{i}" for i in range(size)}
            rig.engine.assigned.put(
                on_node(make_pod(f"labelled-{number}", labels=labels, status=RUNNING), node_name(1))
            )

    return Subject(lambda number: objects.terms_from(number, 1), prepare=prepare)


def nodes_that_change(size: int) -> Subject:
    """A change of a node's labels, beside 50 rejected pods with so many node affinity terms each."""

    def prepare(rig: Rig, _nodes: int) -> None:
        for number in range(50):
            rig.engine.pending.put(ours(f"waiting-{number}", spec=objects.node_affinity_terms(size)))
            queued = rig.engine.queue.pop()
            assert queued is not None
            rig.engine.pod_attempts.schedule_one(queued)

    def act(rig: Rig, number: int) -> None:
        rig.engine.nodes.put(node(1, labels={"changed": str(number)}))

    return Subject(expected=DONE, prepare=prepare, act=act)


def namespace_that_changes(size: int) -> Subject:
    """A change of the labels of a namespace with so many labels, beside terms that select namespaces."""

    def prepare(rig: Rig, _nodes: int) -> None:
        raw = make_pod("selecting", spec=objects.preferred_in_selected_namespaces(20), status=RUNNING)
        rig.engine.assigned.put(on_node(raw, node_name(1)))

    def change(rig: Rig, number: int) -> None:
        labels = {f"example.com/label-{i}": "value" for i in range(size)}
        rig.engine.objects("Namespace").put(make_namespace("default", {**labels, "changed": str(number)}))

    return Subject(lambda number: objects.terms_from(number, 1), prepare=prepare, change=change)


def gated(size: int) -> Subject:
    """A change of the labels of a pod with so many scheduling gates."""
    gates = {"schedulingGates": [{"name": f"example.com/gate-{number}"} for number in range(size)]}

    def act(rig: Rig, number: int) -> None:
        rig.engine.pending.put(ours("gated", labels={"changed": str(number)}, spec=gates))

    return Subject(expected=DONE, act=act)


def gang(members: int) -> Subject:
    """An attempt at a gang whose members all differ, with an anti-affinity term each. It is rejected."""
    return _gang(members, {}, "8")


def preempting_gang(members: int) -> Subject:
    """The same, of members that would have to preempt."""
    return _gang(members, {"priority": 1000}, "32")


def _gang(members: int, spec: Raw, cpu: str) -> Subject:
    resources = {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}]}

    def act(rig: Rig, number: int) -> None:
        name = f"gang-{number}"
        rig.engine.objects("PodGroup").put(make_pod_group(name, members))
        for member in range(members):
            own = {**objects.terms_from(member, 1), **resources, **spec, **in_group(name)}
            rig.engine.pending.put(ours(f"{name}-{member}", labels={"app": name}, spec=own))
        for _ in range(2):  # a costly group goes to the lane first
            queued = rig.engine.queue.pop()
            if queued is not None:
                rig.engine.pod_attempts.schedule_one(queued)

    return Subject(expected=DONE, act=act)
