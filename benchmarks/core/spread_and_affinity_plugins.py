"""Measures the cost of PodTopologySpread and InterPodAffinity: `python -m benchmarks.core.spread_and_affinity_plugins`.

Each line is one workload on a cluster with placed pods of the same shape: whole decisions of the default profile, each
followed by the assumption of the pod. The columns are µs of CPU time per decision (the whole cycle, each of the two
plugins, the assumption of the pod) and the resulting decisions per second.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.core.handle import BenchHandle
from podwright.core.cycle import Placement, schedule
from podwright.core.framework.framework import Framework
from podwright.core.framework.profile import DEFAULT_PLUGINS, Profile
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.state.cache import Cache

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
POINTS = ("pre_filter", "filter_all", "pre_score", "score_all", "normalize")
OURS = ("PodTopologySpread", "InterPodAffinity")


Shape = Callable[[int], tuple[dict[str, str], dict[str, Any]]]
"""Maps a pod's number to its labels and to its spec without containers."""


def plain(number: int) -> tuple[dict[str, str], dict[str, Any]]:
    return {"app": f"app-{number % 20}"}, {}


def spread(action: str, skew: int) -> Shape:
    def shape(number: int) -> tuple[dict[str, str], dict[str, Any]]:
        labels = {"app": f"app-{number % 20}"}
        return labels, {"topologySpreadConstraints": [_constraint(k, action, skew, labels) for k in (ZONE, HOSTNAME)]}

    return shape


def affinity(kind: str, key: str, *, required: bool) -> Shape:
    def shape(number: int) -> tuple[dict[str, str], dict[str, Any]]:
        labels = {"app": f"app-{number % 20}"}
        return labels, {"affinity": {kind: _rule(key, labels, required=required)}}

    return shape


def all_differ_spread(number: int) -> tuple[dict[str, str], dict[str, Any]]:
    own = {"id": f"id-{number}"}
    constraints = [_constraint(key, "DoNotSchedule", 1, own) for key in (ZONE, HOSTNAME)]
    return {"app": "app", **own}, {"topologySpreadConstraints": constraints}


def all_differ_labels(number: int) -> tuple[dict[str, str], dict[str, Any]]:
    shared = {"app": "app"}
    constraints = [_constraint(key, "DoNotSchedule", 5, shared) for key in (ZONE, HOSTNAME)]
    return {**shared, "id": f"id-{number}"}, {"topologySpreadConstraints": constraints}


def all_differ_terms(number: int) -> tuple[dict[str, str], dict[str, Any]]:
    own = {"id": f"id-{number}"}
    rule = {**_rule(HOSTNAME, own, required=True), **_rule(ZONE, own, required=False)}
    return {"app": "app", **own}, {"affinity": {"podAntiAffinity": rule}}


def one_term_all_differ(number: int) -> tuple[dict[str, str], dict[str, Any]]:
    shared = {"app": "app"}
    return {**shared, "id": f"id-{number}"}, {"affinity": {"podAffinity": _rule(HOSTNAME, shared, required=False)}}


def many_terms_match(number: int) -> tuple[dict[str, str], dict[str, Any]]:
    other = {"key": "id", "operator": "NotIn", "values": [f"id-{number % 1000}"]}
    selector = {"matchLabels": {"app": "app"}, "matchExpressions": [other]}
    term = {"labelSelector": selector, "topologyKey": HOSTNAME}
    preferred = [{"weight": 10, "podAffinityTerm": term}]
    away = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return {"app": "app"}, {"affinity": {"podAntiAffinity": away}}


def _constraint(key: str, action: str, skew: int, labels: dict[str, str]) -> dict[str, Any]:
    selector = {"matchLabels": labels}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector}


def _rule(key: str, labels: dict[str, str], *, required: bool) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    if required:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}


WORKLOADS: dict[str, tuple[Shape, bool]] = {
    "plain pods": (plain, False),
    "plain pods behind Services": (plain, True),
    "hard spread, zone and hostname": (spread("DoNotSchedule", 1), False),
    "soft spread, zone and hostname": (spread("ScheduleAnyway", 1), False),
    "preferred affinity, hostname": (affinity("podAffinity", HOSTNAME, required=False), False),
    "preferred affinity, zone": (affinity("podAffinity", ZONE, required=False), False),
    "required anti-affinity, hostname": (affinity("podAntiAffinity", HOSTNAME, required=True), False),
    "required affinity, zone": (affinity("podAffinity", ZONE, required=True), False),
    "all differ: own spread selectors": (all_differ_spread, False),
    "all differ: one spread selector": (all_differ_labels, False),
    "all differ: own anti-affinity": (all_differ_terms, False),
    "all differ: one preferred term": (one_term_all_differ, False),
    "1,000 terms match each pod": (many_terms_match, False),
}


def make_cluster(nodes: int, pods: int, shape: Shape, *, services: bool) -> Cache:
    """Nodes in ten zones, with evenly placed pods of the workload."""
    cache = Cache()
    for i in range(nodes):
        labels = {HOSTNAME: f"node-{i:05}", ZONE: f"zone-{i % 10}"}
        status = {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"}}
        cache.set_node(parse_node({"metadata": {"name": f"node-{i:05}", "labels": labels}, "status": status}))
    for i in range(20 if services else 0):
        metadata = {"name": f"app-{i}", "namespace": "default"}
        cache.set_object("Service", {"metadata": metadata, "spec": {"selector": {"app": f"app-{i}"}}})
    for i in range(pods):
        cache.set_pod(make_pod(shape, i, f"node-{i % nodes:05}"))
    return cache


def make_pod(shape: Shape, number: int, node: str = "") -> PodInfo:
    labels, spec = shape(number)
    containers = [{"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]
    placed = {"nodeName": node} if node else {}
    metadata = {"name": f"pod-{number}", "namespace": "default", "labels": labels}
    return parse_pod({"metadata": metadata, "spec": {"containers": containers, **spec, **placed}})


def timed(framework: Framework) -> Counter[str]:
    """Wrap the extension points of the two plugins. The returned counter adds up their ns by plugin."""
    spent: Counter[str] = Counter()
    clock = time.process_time_ns

    def wrap(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            start = clock()
            answer = method(*args)
            spent[name] += clock() - start
            return answer

        return call

    for name in OURS:
        for point in POINTS:
            plugin = framework.plugins[name]
            setattr(plugin, point, wrap(name, getattr(plugin, point)))
    return spent


def measure(cache: Cache, pods: Iterator[PodInfo], warm: int) -> dict[str, float]:
    """µs per decision, after `warm` decisions that do not count."""
    framework = Framework(Profile("podwright", DEFAULT_PLUGINS), PLUGINS, BenchHandle(cache))
    below = random.Random(1).randrange
    clock = time.process_time_ns
    decided = assumed = count = 0
    spent = timed(framework)
    gc.collect()
    gc.freeze()
    for pod in pods:
        if count == warm:
            decided = assumed = 0
            spent.clear()
        start = clock()
        decision = schedule(framework, cache, pod, below)
        middle = clock()
        assert isinstance(decision, Placement), decision
        cache.assume(pod, decision.node_name)
        decided += middle - start
        assumed += clock() - middle
        count += 1
    gc.unfreeze()
    taken = {"all": decided, "assume": assumed, **{name: spent[name] for name in OURS}}
    return {name: ns / (count - warm) / 1000 for name, ns in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--pods", type=int, default=10000, help="pods placed before the measurement")
    parser.add_argument("--decisions", type=int, default=2000)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    options = parser.parse_args()
    print(f"{'nodes':>6} {'workload':34} {'all':>8} {'spread':>8} {'affinity':>8} {'assume':>7} {'pods/s':>7}")
    for nodes in options.nodes:
        for name, (shape, services) in WORKLOADS.items():
            if options.only not in name:
                continue
            cache = make_cluster(nodes, options.pods, shape, services=services)
            first, warm = options.pods, 50
            pods = [make_pod(shape, first + i) for i in range(options.decisions + warm)]
            took = measure(cache, iter(pods), warm)
            rate = 1e6 / (took["all"] + took["assume"])
            print(
                f"{nodes:>6} {name:34} {took['all']:>8.1f} {took[OURS[0]]:>8.1f} {took[OURS[1]]:>8.1f}"
                f" {took['assume']:>7.1f} {rate:>7.0f}",
                flush=True,
            )
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
