"""Loads of hostile objects, as `benchmarks.core.beside` puts them into a cluster beside ordinary pods.

A load is built as lists of (stream, raw object). Streams are the kinds of the object store, and "Pod", "placed",
"SchedulerPolicy" and "LocalSchedulerPolicy".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from podwright.core.objects.pod_group import KIND
from support.engine.kit import on_node, ours
from support.hostile import objects
from support.hostile.subjects import node_name
from support.hostile.teams import DELEGATION
from support.objects.builders import in_group, make_pod_group, make_policy
from support.objects.devices import claiming, exactly, make_claim, make_class, make_device, make_slice, selector
from support.policies.local import delegating, local_policy

Item = tuple[str, dict[str, Any]]
RULED_PODS: Final = 20
"""How many pods each policy with costly rules has."""
_DIFFERENT: Final = "device.attributes['gpu.example.com'].uuid != 'none-{}'"
"""True for each device."""
_TEN: Final = f"[{', '.join(map(str, range(10)))}]"


@dataclass
class Objects:
    """`before`: what exists before the first measurement. `hostile`: what comes with the second one."""

    before: list[Item] = field(default_factory=list)
    hostile: list[Item] = field(default_factory=list)


@dataclass(frozen=True)
class Load:
    """`make` builds the objects for a size and a number of nodes. `size` is that of the benchmark. `every`: seconds
    between two hostile objects. `solves`: there is a solver.
    """

    name: str
    size: int
    make: Callable[[int, int], Objects]
    every: float = 0.0
    solves: bool = False


def _nested(depth: int, condition: str) -> str:
    """An expression of nested `all` over ten constants each, which is true for each node."""
    names = "abcdefgh"[:depth]
    for name in reversed(names):
        condition = f"{_TEN}.all({name}, {condition})"
    return condition


def _filters(count: int, expression: Callable[[int], str]) -> dict[str, Any]:
    return {"rules": {"filters": [{"name": f"f{i}", "expression": expression(i)} for i in range(count)]}}


def _accepted_before(policy: dict[str, Any]) -> dict[str, Any]:
    """A policy that was accepted when there were fewer nodes. Many of these rules are refused on as many as there
    are.
    """
    return {**policy, "status": {"lastAccepted": {"generation": 1, "spec": policy["spec"]}}}


def _rules(expression: Callable[[int], str]) -> Callable[[int, int], Objects]:
    """A policy with so many filters, and its pods."""

    def make(size: int, _nodes: int) -> Objects:
        policy = make_policy("hostile", 1, "hostile", schedulerName="hostile", **_filters(size, expression))
        pods = [ours(f"hostile-{i}", spec={"schedulerName": "hostile"}) for i in range(RULED_PODS)]
        return Objects(hostile=[("SchedulerPolicy", _accepted_before(policy)), *(("Pod", pod) for pod in pods)])

    return make


def _local_rules(size: int, _nodes: int) -> Objects:
    """A local policy with so many rules, all delegated, and the default budget."""
    rules = _filters(size, lambda i: _nested(3, f"a + b + c >= {-i} || node.name == 'none'"))
    pods = [ours(f"hostile-{i}", namespace="team") for i in range(RULED_PODS)]
    local = _accepted_before(local_policy("hostile", "team", **rules))
    before = [("SchedulerPolicy", delegating(delegation=DELEGATION))]
    return Objects(before, [("LocalSchedulerPolicy", local), *(("Pod", pod) for pod in pods)])


def _devices(per_node: int, nodes: int) -> list[Item]:
    """Devices on the first nodes, each with an attribute of its own."""
    slices = [
        make_slice(
            f"slice-{number}",
            [make_device(f"d{i}", attributes={"uuid": f"{number}-{i}"}) for i in range(per_node)],
            node=node_name(number),
        )
        for number in range(nodes)
    ]
    return [("DeviceClass", make_class("gpu")), *(("ResourceSlice", raw) for raw in slices)]


def _searching(pods: int, devices: list[Item]) -> Objects:
    """Pods with one claim each, whose costly selector no other claim has and no device matches."""
    hostile: list[Item] = []
    for number in range(pods):
        condition = _nested(3, f"a + b + c < 0 || {_DIFFERENT.format(number)}")
        request = exactly(selectors=[selector(f"!{condition}")])
        hostile += [
            ("ResourceClaim", make_claim(f"claim-{number}", request)),
            ("Pod", ours(f"hostile-{number}", spec=claiming(f"claim-{number}"))),
        ]
    return Objects(devices, hostile)


def _new_selectors(size: int, nodes: int) -> Objects:
    return _searching(size, _devices(24, min(nodes, 100)))


def _many_devices(size: int, nodes: int) -> Objects:
    return _searching(1, _devices(min(size, 128), min(nodes, -(-size // 128))))


def _many_claims(size: int, nodes: int) -> Objects:
    """One pod with so many claims for one device each. No node has that many."""
    names = [f"claim-{i}" for i in range(size)]
    claims = [make_claim(name, exactly(selectors=[selector(_DIFFERENT.format(name))])) for name in names]
    pod = ours("hostile", spec=claiming(*names))
    return Objects(_devices(24, min(nodes, 100)), [*(("ResourceClaim", raw) for raw in claims), ("Pod", pod)])


def _many_terms(size: int, _nodes: int) -> Objects:
    pods = [ours(f"hostile-{i}", spec=objects.terms_from(i, 80 * size)) for i in range(size)]
    return Objects(hostile=_pods(pods))


def _gang(size: int, nodes: int) -> Objects:
    """A gang for at most half of the nodes, each full of two pods of lower priority. The others are full of pods of
    higher priority.
    """
    size, placed = min(size, nodes // 2), []
    for index in range(nodes):
        preemptible = index < size
        for number in range(2):
            raw = ours(f"low-{index}-{number}", requests={"cpu": "15"}, priority=0 if preemptible else 1_000)
            placed.append(on_node({**raw, "status": {"phase": "Running"}}, node_name(index)))
    members = [ours(f"hostile-{i}", requests={"cpu": "30"}, priority=10, spec=in_group()) for i in range(size)]
    group = (KIND, make_pod_group("gang", size, priority=10))
    return Objects([("placed", raw) for raw in placed], [group, *_pods(members)])


def _gang_beside_nominated(size: int, nodes: int) -> Objects:
    """The same, and as many gated pods that are nominated to the nodes. The gang leaves room for half of them."""
    found, gated = _gang(size, nodes), {"schedulingGates": [{"name": "wait"}]}
    for index in range(size):
        raw = ours(f"nominated-{index}", requests={"cpu": "1"}, priority=(5, 1_000)[index % 2], spec=gated)
        found.before.append(("Pod", {**raw, "status": {"nominatedNodeName": node_name(index % nodes)}}))
    return found


def _packed(size: int, nodes: int) -> Objects:
    """Pods that a policy packs. Fewer nodes than they need have room for them; a solver searches for the best
    placement.
    """
    choose, free = Random(size), size // 3
    placed = [ours(f"placed-{index}", requests={"cpu": "20"}) for index in range(free, nodes)]
    policy = make_policy("packed", 1, "packed", schedulerName="packed", packing="Optimal")
    pods = [
        ours(f"hostile-{i}", requests={"cpu": f"{choose.randint(13_000, 19_000)}m"}, spec={"schedulerName": "packed"})
        for i in range(size)
    ]
    before = [("placed", on_node(raw, node_name(index))) for index, raw in enumerate(placed, free)]
    return Objects([*before, ("SchedulerPolicy", policy)], _pods(pods))


def _host_ports(size: int, _nodes: int) -> Objects:
    return Objects(hostile=_pods([ours("hostile", spec=objects.host_ports(size))]))


def _pods(pods: Iterable[dict[str, Any]]) -> list[Item]:
    return [("Pod", raw) for raw in pods]


LOADS: Final = (
    Load(
        "16 filters of four nested all over ten constants", 16, _rules(lambda i: _nested(4, f"a + b + c + d >= {-i}"))
    ),
    Load(
        "16 filters of four nested all that read the node",
        16,
        _rules(lambda i: _nested(4, f"a + b + c + d >= {-i} || node.name == 'none'")),
    ),
    Load(
        "16 filters of three nested all that read the node",
        16,
        _rules(lambda i: _nested(3, f"a + b + c >= {-i} || node.name == 'none'")),
    ),
    Load(
        "16 filters of findAll over an annotation of 400 characters",
        16,
        _rules(lambda i: f"node.annotations['long'].findAll('a?b?').size() >= {i}"),
    ),
    Load("16 filters of format over labels", 16, _rules(lambda i: f"'{i} %s'.format([node.labels]) != ''")),
    Load(
        "16 filters of labels x labels",
        16,
        _rules(lambda i: f"node.labels.all(a, node.labels.all(b, a != b || {i} >= 0))"),
    ),
    Load(
        "16 filters of sets.contains over labels",
        16,
        _rules(lambda i: f"!sets.contains(node.labels.map(k, k), ['none-{i}'])"),
    ),
    Load("a local policy with 10 rules", 10, _local_rules),
    Load("20 pods with a new costly device selector each, 2,400 devices", 20, _new_selectors),
    Load("a pod with a costly device selector, 38,400 devices", 38_400, _many_devices),
    Load("a pod with 100 claims, 2,400 devices", 100, _many_claims),
    Load("50 pods with 4,000 anti-affinity terms each, 10 a second", 50, _many_terms, 0.1),
    Load("a gang of 1,000 that preempts 2,000 pods", 1_000, _gang),
    Load("the same gang beside 1,000 nominated pods", 1_000, _gang_beside_nominated),
    Load("a pod with 2,000 host ports", 2_000, _host_ports),
    Load("200 pods that a policy packs, which do not all fit", 200, _packed, solves=True),
)
