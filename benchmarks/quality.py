"""How good the placement is that a run left behind, whoever made it."""

import statistics
from collections import Counter
from decimal import Decimal

from benchmarks.http import Api, Json
from podwright.core.objects.quantity import NANO, parse_quantity

_ZONE = "topology.kubernetes.io/zone"


async def quality(api: Api) -> dict[str, float]:
    """Balance of the nodes' CPU requests, skew of pods over zones, nodes left empty, and nodes with too much on them."""
    nodes = {item["metadata"]["name"]: item for item in (await api.get("/api/v1/nodes"))["items"]}
    pods = (await api.get("/api/v1/pods?fieldSelector=spec.nodeName%21%3D"))["items"]
    cpu: dict[str, Decimal] = dict.fromkeys(nodes, Decimal(0))
    count: Counter[str] = Counter()
    for pod in pods:
        node = pod["spec"]["nodeName"]
        count[node] += 1
        cpu[node] = cpu.get(node, Decimal(0)) + _cpu_request(pod)
    shares = [float(cpu[name] / _number(node["status"]["allocatable"]["cpu"])) for name, node in nodes.items()]
    too_many = sum(count[name] > _number(node["status"]["allocatable"]["pods"]) for name, node in nodes.items())
    zones: Counter[str] = Counter(
        {node["metadata"]["labels"][_ZONE]: 0 for node in nodes.values() if _ZONE in node["metadata"]["labels"]}
    )
    for name, number in count.items():
        if name in nodes and _ZONE in nodes[name]["metadata"]["labels"]:
            zones[nodes[name]["metadata"]["labels"][_ZONE]] += number
    return {
        "cpu_share_stdev": statistics.pstdev(shares),
        "zone_skew": max(zones.values()) - min(zones.values()) if zones else 0,
        "empty_nodes": sum(not count[name] for name in nodes),
        "overcommitted_nodes": sum(share > 1 for share in shares) + too_many,
    }


def _cpu_request(pod: Json) -> Decimal:
    containers = pod["spec"]["containers"]
    return sum((_number(c.get("resources", {}).get("requests", {}).get("cpu", "0")) for c in containers), Decimal(0))


def _number(quantity: str) -> Decimal:
    return Decimal(parse_quantity(quantity, "quantity")) / NANO
