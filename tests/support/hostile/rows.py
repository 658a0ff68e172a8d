"""The rows of the table of hostile objects. To add a row, add an entry to ROWS: tests and `make hostile` take it from
there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from support.engine.kit import Rig
from support.hostile import invented, objects, slices
from support.hostile.subjects import FILLED, Raw, Row, Subject, node, node_name
from support.objects.builders import make_pod


def _pod(make: Callable[[int], Raw], expected: str = "bound") -> Callable[[int], Subject]:
    def subject(size: int) -> Subject:
        spec = make(size)
        return Subject(lambda _number: spec, expected)

    return subject


def _preempting(size: int) -> Subject:
    """On the filled nodes, where every pod matches every term."""
    spec = {**objects.required_anti_affinity(size), "priority": 1000, "nodeSelector": {FILLED: "true"}}
    return Subject(lambda _number: spec, "preempts")


def _after_a_placed_pod(size: int) -> Subject:
    """Pods with labels of their own, after a pod with many terms was placed."""

    def prepare(rig: Rig, _nodes: int) -> None:
        placed = make_pod(
            "broad", labels={"app": "broad"}, node=node_name(0), spec=objects.required_anti_affinity(size)
        )
        rig.engine.assigned.put({**placed, "status": {"phase": "Running"}})

    return Subject(
        lambda _number: {}, labels=lambda number: {"app": "other", "own": f"value-{number}"}, prepare=prepare
    )


def _after_taints(size: int) -> Subject:
    """Pods with toleration lists of their own, after nodes have had this many different taints."""

    def prepare(rig: Rig, nodes: int) -> None:
        for number in range(size):
            rig.engine.nodes.put(node(number % nodes, taints=[objects.timestamp_taint(number)]))
        for index in range(nodes):
            rig.engine.nodes.put(node(index))

    return Subject(objects.tolerations, prepare=prepare)


def _beside_taints(size: int) -> Subject:
    """Pods with many tolerations, each list new, where many nodes have a taint of their own."""

    def prepare(rig: Rig, nodes: int) -> None:
        for number in range(min(nodes // 2, 400)):
            rig.engine.nodes.put(node(number, taints=[objects.timestamp_taint(number)]))

    def spec(number: int) -> Raw:
        return {
            "tolerations": [*objects.many_tolerations(size)["tolerations"], *objects.tolerations(number)["tolerations"]]
        }

    return Subject(spec, prepare=prepare)


def _with_volume(size: int) -> Subject:
    """A pod with one volume, which has many node affinity terms."""

    def prepare(rig: Rig, _nodes: int) -> None:
        for kind, raw in objects.volume(size).items():
            rig.engine.objects(kind).put(raw)

    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]
    return Subject(lambda _number: {"volumes": volumes}, prepare=prepare)


def _beside_budgets(size: int) -> Subject:
    """Preemption by pods that need a whole node, while each placed pod has this many disruption budgets."""
    requests = {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "32"}}}]}
    spec = {**requests, "priority": 1000, "nodeSelector": {FILLED: "true"}}

    def prepare(rig: Rig, _nodes: int) -> None:
        budgets = rig.engine.objects("PodDisruptionBudget")
        for number in range(size):
            budgets.put(objects.disruption_budget(number))

    return Subject(lambda _number: spec, "preempts", prepare=prepare)


def _with_policies(size: int) -> Subject:
    """Pods with labels of their own, which none of the policies selects."""

    def prepare(rig: Rig, _nodes: int) -> None:
        for number in range(size):
            assert rig.engine.policies.apply(objects.policy(number)).accepted

    return Subject(lambda _number: {}, labels=lambda number: {"team": f"none-{number}"}, prepare=prepare)


_NO_NODE = "0/"
_hard_constraints = partial(objects.spread_constraints, action="DoNotSchedule")
_NAMES = tuple(node_name(index) for index in range(5_000))

ROWS: Final = (
    Row("300 spread constraints with keys of their own", 300, _pod(objects.spread_constraints), "22.8 s", "0.02 s"),
    Row("600 spread constraints with keys of their own", 600, _pod(objects.spread_constraints), "89 s", "0.02 s"),
    Row("100 required anti-affinity terms, NotIn, all namespaces", 100, _pod(objects.required_anti_affinity), "1.1 s / 19 ms", "0.05 s"),
    Row("1,000 required anti-affinity terms, NotIn, all namespaces", 1_000, _pod(objects.required_anti_affinity), "7.4 s", "0.33 s"),
    Row("4,000 required anti-affinity terms, NotIn, all namespaces", 4_000, _pod(objects.required_anti_affinity), "19.3 s", "1.22 s"),
    Row("1,000 preferred affinity terms, NotIn, all namespaces", 1_000, _pod(objects.preferred_affinity), "8.5 s / 8.7 s", "0.17 s"),
    Row("600 hard spread constraints with keys of their own", 600, _pod(_hard_constraints, _NO_NODE), "36 s", "0.05 s"),
    Row("700 preferred terms with namespace selectors of their own", 700, _pod(objects.preferred_in_selected_namespaces), "29 s / 29 s", "0.10 s"),
    Row("an anti-affinity term with 2,400 requirements", 2_400, _pod(objects.many_requirements), "2.7 s / 17 ms", "0.09 s"),
    Row("matchFields In with 5,000 names", 5_000, _pod(partial(objects.match_fields_in, nodes=_NAMES)), "4.5 s / 4.6 s", "0.78 s"),
    Row("matchFields NotIn with 10,000 names", 10_000, _pod(objects.match_fields_not_in), "4.1 s / 0 s", "0.13 s"),
    Row("2,000 node affinity terms that exclude a name each", 2_000, _pod(objects.match_fields_not_in_terms), "0.91 s / 0 s", "0.01 s"),
    Row("3,000 node affinity terms with Gt", 3_000, _pod(objects.bounds, _NO_NODE), "3.9 s / 0 s", "0.74 s"),
    Row("a volume with 6,000 node affinity terms", 6_000, _with_volume, "1.0 s / 1.0 s", live=False),
    Row("10,000 tolerations, beside nodes with taints of their own", 10_000, _beside_taints, "0.34 s", live=False),
    Row("nodeSelector with 10,000 keys", 10_000, _pod(objects.node_selector, _NO_NODE), "2.6 s", "0.08 s"),
    Row("10,000 node affinity terms with keys of their own", 10_000, _pod(objects.node_affinity_terms, _NO_NODE), "3.1 s", "0.33 s"),
    Row("8,000 preferred node terms with keys of their own", 8_000, _pod(objects.preferred_node_terms), "2.6 s / 2.7 s", "0.19 s"),
    Row("preemption by a pod with 100 NotIn terms", 100, _preempting, "1.3 s", "0.08 s"),
    Row("preemption by a pod with 1,000 NotIn terms", 1_000, _preempting, "13.3 s", "0.42 s"),
    Row("10,000 unknown extended resources", 10_000, _pod(objects.extended_resources, _NO_NODE), "0.18 s", "11.65 s"),
    Row("4,000 required anti-affinity terms with labels of their own", 4_000, _pod(objects.anti_affinity_with_own_labels), "75 to 280 ms", "2.67 s"),
    Row("another pod, after a placed pod with 2,000 broad terms", 2_000, _after_a_placed_pod, "+ 5 to 7 ms", live=False),
    Row("another toleration list, after 10,000 taints have gone", 10_000, _after_taints, "17 ms", live=False),
    Row("another toleration list, after 50,000 taints have gone", 50_000, _after_taints, "83 ms", live=False),
    Row("a pod with new labels, beside 1,000 policies", 1_000, _with_policies, "16.5 ms", live=False),
    Row("preemption of pods with 10,000 disruption budgets", 10_000, _beside_budgets, "> 9 min", live=False),
    Row("300 unbound claims beside 400 local volumes", 300, invented.as_many_claims_as_volumes, "", live=False),
    Row("50 unbound claims beside 5,000 local volumes", 5_000, invented.claims_beside_many_volumes, "", live=False),
    Row("4,000 anti-affinity terms beside 10,000 pods with labels of their own", 4_000, invented.beside_labels_of_their_own, "", live=False),
    Row("a pod beside 100,000 anti-affinity terms of placed pods", 100_000, invented.beside_placed_terms, "", live=False),
    Row("a pod beside 10,000 Services, one of which has changed", 10_000, invented.beside_services, "", live=False),
    Row("4,000 images, beside nodes with 50 images of their own", 4_000, invented.images_of_nodes, "8 s", live=False),
    Row("a pod beside 2,000 nominations", 2_000, invented.beside_nominations, "", live=False),
    Row("nodeSelector with 600 labels of all nodes", 600, invented.labelled_nodes, "", live=False),
    Row("an affinity term beside 50 pods with 10,000 labels", 10_000, invented.beside_pods_with_labels, "", live=False),
    Row("a node that changes beside 50 pods with 10,000 node affinity terms", 10_000, invented.nodes_that_change, "", live=False),
    Row("a namespace with 10,000 labels that change", 10_000, invented.namespace_that_changes, "", live=False),
    Row("1,024 devices with 64 attributes each", 1_024, slices.devices_with_attributes, "", live=False),
    Row("2,000 devices of which no two differ as they must", 2_000, slices.distinct_devices, "", live=False),
    Row("a pod beside 1,000 slices of a driver that flaps", 1_000, slices.a_pool_that_flaps, "", live=False),
    Row("a claim beside 1,000 slices of a driver that flaps", 1_000, slices.claims_beside_a_pool_that_flaps, "", live=False),
    Row("10,000 scheduling gates of a pod whose labels change", 10_000, invented.gated, "", live=False),
)  # fmt: skip
"""`before` of rows with two figures: the first attempt / again."""
