"""The picture of a simulation: the nodes of each rack before and after."""

from __future__ import annotations

from collections import Counter

from podwright.engine.process.steps import at_once
from podwright.engine.view.rebalance_picture import COMES, GANG, LEAVES, STAYS, NodeAmounts, PictureOptions, drawn
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.results import SimulationResult


def picture_of_result(cluster: LoadedCluster, result: SimulationResult, options: PictureOptions) -> str:
    """The SVG document, with the nodes that the cluster has."""
    resource, cache = options.resource, cluster.cache
    before, after = NodeAmounts(cache, resource), NodeAmounts(cache, resource)
    there = {
        pod.key: (node, pod.requests.amounts.get(resource, 0))
        for node, info in cache.nodes.items()
        for pod in info.pods.values()
    }
    came = Counter[str]()
    for each in result.landed:
        if each.came_from and each.pod in there:
            came[each.node] += there[each.pod][1]
    left = dict.fromkeys([*(each.pod for each in result.preempted), *(each.pod for each in result.landed)])
    for node, amount in (there[pod] for pod in left if pod in there):
        for amounts in (before, after):
            amounts.add(node, STAYS, -amount)
        before.add(node, LEAVES, amount)
    for change in result.changes:
        added = change.requested_after.get(resource, 0) - change.requested_before.get(resource, 0)
        waited = added + before.nodes.get(change.node, {}).get(LEAVES, 0) - came[change.node]
        after.add(change.node, COMES, came[change.node])
        after.add(change.node, GANG, waited)
    return at_once(drawn(cache, before.nodes, after.nodes, options))
