"""Clusters and pods for tests of PodTopologySpread."""

from __future__ import annotations

import numpy as np

from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.framework.status import SKIP, Code
from support.objects.builders import make_node, make_pod
from support.plugins.kit import make_cache

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
SKEWED = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{SKEWED} (missing required label)"


def constraint(key=ZONE, skew=1, action=HARD, selector=None, **more):
    wanted = {"matchLabels": {"app": "x"}} if selector is None else selector
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action, "labelSelector": wanted, **more}


def spread(*constraints, **more):
    return {"topologySpreadConstraints": list(constraints), **more}


def node(name, zone=None, **more):
    labels = {HOSTNAME: name, **({} if zone is None else {ZONE: zone}), **more.pop("labels", {})}
    return make_node(name, labels=labels, **more)


def running(count, on, first=0, namespace="default", metadata=None, **labels):
    labels = labels or {"app": "x"}
    names = [f"{on}-{first + i}" for i in range(count)]
    return [make_pod(name, namespace=namespace, labels=labels, node=on, metadata=metadata) for name in names]


def verdicts(plugin, pod, state=None):
    """Reasons by node name, after checking that the per-node and the vectorised filter agree. None for Skip."""
    cache, state = plugin.handle.cache, state or CycleState()
    if "PreFilterPodTopologySpread" not in state.data and plugin.pre_filter(state, pod) is SKIP:
        return None
    result = plugin.filter_all(state, pod, cache.table)
    codes, statuses = result.explain() if result is not None else ((), ())
    found = {}
    for name, info in cache.nodes.items():
        status = plugin.filter(state, pod, info)
        assert (result is None or result.ok[info.slot]) == (status is None)
        assert status is None or statuses[codes[info.slot]] == status
        assert status is None or (status.code is Code.UNSCHEDULABLE) == (status.message == SKEWED)
        found[name] = "" if status is None else status.message
    return found


def scores(plugin, pod, only=None):
    """Normalised scores by node name; None for Skip."""
    cache, state = plugin.handle.cache, CycleState()
    slots = [info.slot for name, info in cache.nodes.items() if only is None or name in only]
    feasible = Feasible(cache.table, np.array(slots, np.intp))
    if plugin.pre_score(state, pod, feasible) is SKIP:
        return None
    raw = plugin.score_all(state, pod, feasible)
    assert raw.tolist() == [plugin.score(state, pod, cache.node_at(slot)) for slot in slots]
    normal = plugin.normalize(state, pod, raw, feasible).tolist()
    return {cache.table.names[slot]: score for slot, score in zip(slots, normal, strict=True)}


def zones(*counts):
    """One node per zone, each with the given number of matching pods."""
    nodes = [node(f"n{i}", f"z{i}") for i in range(len(counts))]
    return make_cache(nodes, [pod for i, count in enumerate(counts) for pod in running(count, f"n{i}")])
