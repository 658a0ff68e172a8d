"""Rates the placement of pods at the end of a run."""

import statistics
from collections import Counter
from decimal import Decimal

from benchmarks.http_client import Api, Json
from podwright.core.objects.quantity import NANO, parse_quantity

_ZONE = "topology.kubernetes.io/zone"


async def quality(api: Api) -> dict[str, float]:
    """`placement_quality` of the cluster's present state."""
    nodes = (await api.get("/api/v1/nodes"))["items"]
    pods = (await api.get("/api/v1/pods?fieldSelector=spec.nodeName%21%3D,status.phase%21%3DSucceeded"))["items"]
    return placement_quality(nodes, pods)


def placement_quality(nodes: list[Json], bound_pods: list[Json]) -> dict[str, float]:
    """The standard deviation of the nodes' requested CPU shares, the skew of pods over zones, and the empty and
    over-committed nodes.

    Nodes without room for any pod are left out.
    """
    usable = {node["metadata"]["name"]: node for node in nodes if _allocatable(node, "pods")}
    count: Counter[str] = Counter()
    cpu: Counter[str] = Counter()  # in nano-cores
    for pod in bound_pods:
        name = pod["spec"]["nodeName"]
        count[name] += 1
        cpu[name] += _requested_cpu(pod)
    shares = {name: float(Decimal(cpu[name]) / max(1, _allocatable(node, "cpu"))) for name, node in usable.items()}
    overcommitted = [
        name for name, node in usable.items() if shares[name] > 1 or count[name] * NANO > _allocatable(node, "pods")
    ]
    return {
        "cpu_share_stdev": statistics.pstdev(shares.values()),
        "zone_skew": _zone_skew(usable, count),
        "empty_nodes": sum(not count[name] for name in usable),
        "overcommitted_nodes": len(overcommitted),
    }


def _zone_skew(nodes: dict[str, Json], count: Counter[str]) -> int:
    zones: Counter[str] = Counter()
    for name, node in nodes.items():
        zone = node["metadata"].get("labels", {}).get(_ZONE)
        if zone is not None:
            zones[zone] += count[name]
    return max(zones.values()) - min(zones.values()) if zones else 0


def _allocatable(node: Json, resource: str) -> int:
    return parse_quantity(node["status"]["allocatable"].get(resource, "0"), f"allocatable.{resource}")


def _requested_cpu(pod: Json) -> int:
    requests = [container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"]]
    return sum(parse_quantity(request.get("cpu", "0"), "requests.cpu") for request in requests)
