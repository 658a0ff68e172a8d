"""The targets of each workload, and whether a result reaches them.

A target is a bound on a figure. A rate also counts as reached at 90 % of the null scheduler's on the same workload. CPU
targets are tighter for workloads whose pods have affinity, topology spread constraints or resource claims.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from benchmarks.results import OURS, Json
from benchmarks.workloads import load

_SHARE_OF_NULL = 0.9
_RATES = {
    "SchedulingNodeAffinity": 2.0,
    "SpreadZoneAndHostname": 3.0,
    "PreferredSpreadZoneAndHostname": 2.0,
    "TopologySpreading": 2.0,
    "PreferredTopologySpreading": 2.0,
    "SchedulingPodAffinity": 3.0,
    "SchedulingPodAntiAffinity": 2.5,
    "SchedulingPreferredPodAffinity": 2.0,
    "TopologyAwareScheduling": 5.0,
}
_DEFAULT_RATE = 1.5
_RATE_WITH_DEVICES = 3.0
_RATE_OF_GANGS = 3.0
_LOW_RATE = "live, 50 pods/s"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and the measured figure. `least` and `most` are the spread over the pairs, for a figure that compares
    pairs.
    """

    figure: str
    bound: float
    found: float
    at_least: bool = False
    least: float | None = None
    most: float | None = None
    of_null: float | None = None

    @property
    def reached(self) -> bool:
        if not self.at_least:
            return self.found <= self.bound
        return self.found >= self.bound or self.by_null

    @property
    def by_null(self) -> bool:
        """True if the rate is at least 90 % of the null scheduler's, so that the machine hardly allows more."""
        return self.of_null is not None and self.of_null >= _SHARE_OF_NULL


def verdicts(entry: Json) -> list[Verdict]:
    """The verdict on each target of a result's entry. An entry without pairs has none."""
    return list(_verdicts(entry)) if "ratio" in entry else []


def _verdicts(entry: Json) -> Iterator[Verdict]:
    name, size, mode = entry["workload"], entry["size"], entry["mode"]
    if mode == _LOW_RATE:
        yield _ratio(entry, "p99_ms", 0.5)
        yield Verdict("own p50_ms", 10, entry[OURS]["p50_ms"])
        yield Verdict("own p99_ms", 50, entry[OURS]["p99_ms"])
    if mode != ("live" if name in _only_live() else "backlog") or size in _scaled():
        return
    if name == "StartUp":
        yield _ratio(entry, "start_s", 1.5)
        return
    rate = _RATE_WITH_DEVICES if name in with_devices() else _RATES.get(name, _DEFAULT_RATE)
    rate = _RATES.get(name, _RATE_OF_GANGS) if name in with_pod_groups() else rate
    yield _ratio(entry, "pods_per_s", rate)
    if name in constrained() | with_devices():
        yield _ratio(entry, "cpu_ms_per_pod", 0.3)
    elif name == "SchedulingBasic":
        yield _ratio(entry, "cpu_ms_per_pod", 0.5)
        if entry["nodes"] == 5000:
            yield _ratio(entry, "peak_mb", 1.0)


def _ratio(entry: Json, figure: str, bound: float) -> Verdict:
    least, most = entry["ratio_spread"][figure]
    rate = figure == "pods_per_s"
    of_null = entry[OURS][figure] / entry["null"][figure] if rate and "null" in entry else None
    return Verdict(figure, bound, entry["ratio"][figure], rate, least, most, of_null)


def of_scale(entries: list[Json], core: list[Json]) -> dict[str, Verdict]:
    """The cost of a decision on 15,000 nodes divided by that on 1,500, for each measurement that has both."""
    found = {}
    by_size = {entry["size"]: entry for entry in entries if entry["workload"] == "SchedulingBasic"}
    small, large = by_size.get("1500Nodes"), by_size.get("15000Nodes")
    if small and large:
        cost = large[OURS]["cpu_ms_per_pod"] / small[OURS]["cpu_ms_per_pod"]
        found["CPU a pod, on a real control plane"] = Verdict("scale", 5, cost)
    for item in core:
        if "cost_15000_to_1500" in item:
            found[f"in process, {item['workload']}"] = Verdict("scale", 5, item["cost_15000_to_1500"])
    return found


@dataclass(frozen=True, slots=True)
class Promise:
    """A target of queues. `what`: the shape, and the measured quantity. `peer`: a peer's published figure. `others`:
    the share of the machine that other processes used meanwhile; `missing`: how many measured pods had no event
    Scheduled at the end, less those of other pods. A `bound` of 0 means no target.
    """

    what: str
    verdict: Verdict
    peer: str
    others: float = 0.0
    missing: float = 0.0


_QUEUES = {
    ("FillWithGPUJobs", "500Nodes"): (
        "4,000 jobs of one GPU fill 500 nodes, s from the scheduler's start", "last_s", 12.0, "398 (KAI)",
    ),
    ("ReclaimOneGPU", "500Nodes"): (
        "one GPU is taken back, ms from creation to binding, median", "p50_ms", 1000.0, "13,900, mean (KAI)",
    ),
    ("ReclaimForGang", "500Nodes"): (
        "a gang of 250 full nodes takes the room of 2,000 jobs, s from its first creation", "last_s", 20.0, "102 (KAI)",
    ),
    ("ReclaimAllGPUs", "500Nodes"): (
        "4,000 jobs take the room of 4,000, s from the scheduler's start", "last_s", 90.0, "694 (KAI)",
    ),
    ("UnschedulableGang", "500Nodes"): (
        "a gang that lacks one GPU learns it, s after its first pod is created", "last_s", 1.0, "249, mean (KAI)",
    ),
    ("ConsolidateForGangs", "500Nodes"): (
        "41 gangs of 10 get room by moves on 500 nodes, s from their first creation", "last_s", 20.0, "456 (KAI)",
    ),
    ("GangInTopology", "512Nodes"): (
        "a gang of 512 pods with 2 GPUs in a topology of 256 racks, s from the scheduler's start", "last_s", 2.0, "49 (KAI)",
    ),
    ("SchedulingGangs", "500x20"): (
        "500 gangs of 20 on 1,000 nodes, pods/s", "pods_per_s", 500.0, "540 (Volcano)",
    ),
    ("SchedulingGangs", "20x500"): ("20 gangs of 500, pods/s", "pods_per_s", 0.0, ""),
    ("SchedulingGangs", "10000x1"): ("10,000 gangs of 1, pods/s", "pods_per_s", 0.0, ""),
    ("SchedulingGangs", "1x10000"): ("a gang of 10,000, pods/s", "pods_per_s", 0.0, ""),
    ("SchedulingJobs", "1000Nodes"): ("the same 10,000 pods without gangs, pods/s", "pods_per_s", 0.0, ""),
    ("KueueBaseline", "5Cohorts"): (
        "15,000 pods that end, in 30 queues of 5 cohorts, pods/s", "pods_per_s", 84.0, "42 (Kueue)",
    ),
    ("KueueLargeScale", "20Cohorts"): (
        "60,000 pods that end, in 2,000 queues of 20 cohorts, pods/s", "pods_per_s", 84.0, "",
    ),
    ("KueueTopology", "640Nodes_15000Gangs"): (
        "15,000 gangs of 2 to 8 pods that end, in racks and slices, pods/s", "pods_per_s", 444.0, "111 (Kueue, without pods)",
    ),
    ("GangsInWaves", "32Nodes"): (
        "53 gangs fill 32 nodes nine times for 6 s, s to the last binding, 48 at best", "last_s", 49.1, "",
    ),
}  # fmt: skip
"""By workload and size: what is measured, the figure, its bound, and the peer's figure."""
_SHARE_OF_QUEUELESS = 0.9


def of_queues(entries: list[Json]) -> list[Promise]:
    """Returns the target of queues for each measurement that the result has."""
    found = []
    by_workload = {(entry["workload"], entry["size"]): entry[OURS] for entry in entries if OURS in entry}
    without, queues = (by_workload.get((name, "1000Nodes")) for name in ("SchedulingBasic", "SchedulingInQueues"))
    if without and queues:
        rate = queues["pods_per_s"] / without["pods_per_s"]
        what = "1,000 queues in 3 levels, rate of SchedulingBasic divided by that without queues"
        others = max(without["others_cpu_share"], queues["others_cpu_share"])
        missing = max(without["events_missing"], queues["events_missing"])
        share = Verdict("pods_per_s", _SHARE_OF_QUEUELESS, rate, at_least=True)
        found.append(Promise(what, share, "", others, missing))
    for key, (what, figure, bound, peer) in _QUEUES.items():
        if key in by_workload:
            figures = by_workload[key]
            verdict = Verdict(figure, bound, figures[figure], at_least=figure == "pods_per_s")
            found.append(Promise(what, verdict, peer, figures["others_cpu_share"], figures["events_missing"]))
    return found


@cache
def constrained() -> frozenset[str]:
    """The workloads whose measured pods have affinity or topology spread constraints."""
    keys = {"affinity", "topologySpreadConstraints"}
    return frozenset(each.name for each in load() if keys & each.measured.template.get("spec", {}).keys())


@cache
def with_devices() -> frozenset[str]:
    """The workloads whose measured pods get devices."""
    return frozenset(each.name for each in load() if "devices" in each.labels)


@cache
def with_pod_groups() -> frozenset[str]:
    """The workloads with Kubernetes' pod groups."""
    return frozenset(each.name for each in load() if each.pod_groups)


@cache
def with_kubelets() -> frozenset[str]:
    """The workloads with simulated kubelets. Pods of most of them wait until others have ended, so a rate says
    nothing.
    """
    return frozenset(each.name for each in load() if each.kubelets)


@cache
def _only_live() -> frozenset[str]:
    return frozenset(each.name for each in load() if each.only_live)


@cache
def _scaled() -> frozenset[str]:
    return frozenset(each.size for each in load() if "scale" in each.labels)
