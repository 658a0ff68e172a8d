"""The problems of a pod on one node, with the names of the objects and the amounts. There is a function for each plugin whose reason says
less than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import PODS
from podwright.core.objects.taints import PREFER_NO_SCHEDULE, Taint
from podwright.core.objects.volumes import claims_of
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo, UsedPorts
from podwright.simulator.explain.amounts import called, listed, readable
from podwright.simulator.explain.devices import offered, wanted
from podwright.simulator.explain.results import Miss, Problem
from podwright.simulator.explain.verdicts import FIT, Verdicts, verdict

PODS_READ: Final = 2000
"""How many pods of a node are read to name those that are in the way."""
_MOST_REQUIREMENTS: Final = 3


def miss(framework: Framework, cache: Cache, pod: PodInfo, verdicts: Verdicts, row: int) -> Miss:
    """All problems that keep the pod off the node in this row. Raises PluginError."""
    node = cache.node_at(row)
    problems = []
    for plugin in framework.filter_plugins:
        mask = verdicts.rejects.get(plugin.name)
        if mask is None or not mask[row]:
            continue
        status = verdict(plugin, verdicts.state, pod, node)
        if status is not None:
            detail = _DETAILS[plugin.name](framework, cache, pod, node) if plugin.name in _DETAILS else ""
            problems.append(Problem(plugin=plugin.name, reason=", ".join(status.reasons), detail=detail))
    if not problems and (first := verdicts.diagnosis.status_of(row)) is not None:
        reason, detail = ", ".join(first.reasons), ""
        others = framework.nominated_before(pod, node.name)
        if others and row in verdicts.diagnosis.explicit:
            detail = f"its room is kept for {listed([other.key for other in others])}, nominated there"
        problems.append(Problem(plugin=first.plugin, reason=reason, detail=detail))
    return Miss(node=node.name, problems=tuple(problems))


def _resources(framework: Framework, _cache: Cache, pod: PodInfo, node: NodeInfo) -> str:
    return "; ".join(shortfalls(framework, pod, node))


def shortfalls(framework: Framework, pod: PodInfo, node: NodeInfo) -> Iterator[str]:
    """What the node lacks for the pod, resource by resource."""
    if len(node.pods) + 1 > node.allocatable(PODS):
        yield f"{len(node.pods)} pods are on it and it takes {node.allocatable(PODS)}"
    plugin = framework.plugins.get(FIT)
    checked = plugin.checked_requests(pod.requests) if isinstance(plugin, NodeResourcesFit) else ()
    for resource, amount in checked:
        capacity, used = node.allocatable(resource), node.requested.get(resource, 0)
        if amount <= capacity - used:
            continue
        if not capacity:
            yield f"it has no {called(resource)}"
            continue
        text = f"{readable(resource, amount)} {called(resource)} requested"
        if amount > capacity:
            yield f"{text}, it has {readable(resource, capacity)} in all"
        elif used > capacity:
            over = readable(resource, used - capacity)
            yield f"{text}, and the pods on it already request {over} more than its {readable(resource, capacity)}"
        else:
            free = capacity - used
            yield (
                f"{text}, {readable(resource, free)} of {readable(resource, capacity)} free: "
                f"{readable(resource, amount - free)} too few"
            )


def untolerated(framework: Framework, pod: PodInfo, taints: tuple[Taint, ...]) -> list[Taint]:
    """The taints that keep the pod off a node."""
    compare = framework.handle.features.enabled("TaintTolerationComparisonOperators")
    return [
        taint
        for taint in taints
        if taint.effect != PREFER_NO_SCHEDULE and not pod.tolerations.tolerate(taint, compare=compare)
    ]


def written(taint: Taint) -> str:
    """A taint as kubectl writes it."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _taints(framework: Framework, _cache: Cache, pod: PodInfo, node: NodeInfo) -> str:
    found = [written(taint) for taint in untolerated(framework, pod, node.present.taints)]
    return f"taint{'' if len(found) == 1 else 's'} {listed(found)}"


def _cordon(_framework: Framework, _cache: Cache, _pod: PodInfo, _node: NodeInfo) -> str:
    return "it is cordoned"


def _node_affinity(_framework: Framework, _cache: Cache, pod: PodInfo, node: NodeInfo) -> str:
    labels = node.present.labels
    found = [
        f"the pod wants {key}={value}, the node has {f'{key}={labels[key]}' if key in labels else 'no such label'}"
        for key, value in pod.node_affinity.node_selector.items()
        if labels.get(key) != value
    ]
    required = pod.node_affinity.required
    if required is not None and not required.matches(labels, node.name):
        if not any(term.expressions or term.fields for term in required.terms):
            found.append("its required terms are empty, and match no node")
        for term in required.terms:
            for each in term.expressions:
                if not each.matches_value(labels.get(each.key)):
                    values = f" ({', '.join(sorted(each.values)[:_MOST_REQUIREMENTS])})" if each.values else ""
                    has = f"{each.key}={labels[each.key]}" if each.key in labels else "no such label"
                    found.append(f"the pod wants {each.key} {each.operator}{values}, the node has {has}")
            found += [
                f"the pod wants the node {each.operator} {', '.join(sorted(each.values)[:_MOST_REQUIREMENTS])}"
                for each in term.fields
                if not each.matches_value(node.name)
            ]
    return "; ".join(found[:_MOST_REQUIREMENTS])


def _ports(_framework: Framework, _cache: Cache, pod: PodInfo, node: NodeInfo) -> str:
    found = []
    for port in pod.ports:
        for other in port_holders(pod, node):
            used = UsedPorts()
            for each in other.ports:
                used.add(each)
            if used.conflicts(port):
                ends = ", which is being deleted" if other.terminating else ""
                found.append(f"host port {port.port}/{port.protocol} is taken by {other.key}{ends}")
    return "; ".join(found[:_MOST_REQUIREMENTS])


def port_holders(pod: PodInfo, node: NodeInfo) -> list[PodInfo]:
    """The pods on the node that use a host port of the pod."""
    holders = []
    for other in list(node.pods.values())[:PODS_READ]:
        used = UsedPorts()
        for each in other.ports:
            used.add(each)
        if used and any(used.conflicts(port) for port in pod.ports):
            holders.append(other)
    return holders


def _spread(_framework: Framework, _cache: Cache, pod: PodInfo, node: NodeInfo) -> str:
    labels = node.present.labels
    found = []
    for each in pod.spread.hard:
        if each.topology_key not in labels:
            found.append(f"the node has no label {each.topology_key}")
        else:
            domains = f" and at least {each.min_domains} domains" if each.min_domains > 1 else ""
            found.append(
                f"maxSkew {each.max_skew} over {each.topology_key}{domains}, the node is in {labels[each.topology_key]}"
            )
    return "; ".join(found[:_MOST_REQUIREMENTS])


def _pod_affinity(_framework: Framework, cache: Cache, pod: PodInfo, node: NodeInfo) -> str:
    labels = node.present.labels
    found = []
    for term in pod.pod_affinity.anti_required:
        there = [
            other.key
            for other in list(node.pods.values())[:PODS_READ]
            if term.matches(other.namespace, cache.namespace_labels(other.namespace), other.labels)
        ]
        if there:
            found.append(f"anti-affinity over {term.topology_key} to {listed(there)}")
    found += [
        f"the node has no label {term.topology_key}"
        for term in pod.pod_affinity.required
        if term.topology_key not in labels
    ]
    found += [
        f"anti-affinity of {other.key} over {term.topology_key}"
        for other in list(node.pods.values())[:PODS_READ]
        for term in other.pod_affinity.anti_required
        if term.matches(pod.namespace, cache.namespace_labels(pod.namespace), pod.labels)
    ]
    return "; ".join(found[:_MOST_REQUIREMENTS])


def volumes_of(cache: Cache, pod: PodInfo) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The pod's claims that are bound, each with its volume's object."""
    for name, _ in claims_of(pod):
        claim = cache.store.get("PersistentVolumeClaim", name, pod.namespace)
        volume = None if claim is None else (claim.get("spec") or {}).get("volumeName")
        found = cache.store.get("PersistentVolume", volume) if volume else None
        if found is not None:
            yield name, found


def _volumes(_framework: Framework, cache: Cache, pod: PodInfo, _node: NodeInfo) -> str:
    found = []
    for claim, volume in volumes_of(cache, pod):
        where = reach_of(volume)
        if where:
            found.append(f"volume {volume['metadata']['name']} of claim {claim} is only in {where}")
    return "; ".join(found[:_MOST_REQUIREMENTS])


def reach_of(volume: Mapping[str, Any]) -> str:
    """From where a PersistentVolume can be reached, in words; "" if from everywhere. Never raises, whatever the object contains."""
    try:
        terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        parts = [
            f"{each['key']} {each['operator']} ({', '.join((each.get('values') or [])[:_MOST_REQUIREMENTS])})"
            for each in terms[0]["matchExpressions"]
        ]
        return " and ".join(parts)
    except (KeyError, TypeError, IndexError, AttributeError):
        pass
    try:
        labels = volume["metadata"]["labels"]
        return ", ".join(f"{key}={labels[key]}" for key in labels if key.endswith(("/zone", "/region")))
    except (KeyError, TypeError):
        return ""


def _devices(_framework: Framework, cache: Cache, pod: PodInfo, node: NodeInfo) -> str:
    asked = [*wanted(cache, pod)]
    return "; ".join((*asked[:_MOST_REQUIREMENTS], offered(cache, node))) if asked else ""


_DETAILS: Final[Mapping[str, Callable[[Framework, Cache, PodInfo, NodeInfo], str]]] = {
    FIT: _resources,
    "TaintToleration": _taints,
    "NodeUnschedulable": _cordon,
    "NodeAffinity": _node_affinity,
    "NodePorts": _ports,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _pod_affinity,
    "VolumeBinding": _volumes,
    "VolumeZone": _volumes,
    "DynamicResources": _devices,
}
