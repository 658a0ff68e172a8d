"""Targets, and the tables and the picture that are written from a result."""

import re
from pathlib import Path

import pytest
from benchmarks.report import SUMMARY, details, documents, picture, read, rewritten, short, summary
from benchmarks.results import Key, Record, summarize
from benchmarks.targets import constrained, of_queues, of_scale, verdicts

CHECKOUT = Path(__file__).parents[3]
MACHINE = {"cpus": 2, "cpu": "x", "memory_gb": 4, "kubernetes": "1", "etcd": "3", "python": "3.13", "commit": "abc"}
FIGURES = {
    "pods": 100, "pods_per_s": 100.0, "pods_per_s_with_events": 90.0, "cpu_ms_per_pod": 1.0, "peak_mb": 100.0,
    "p50_ms": 5.0, "p99_ms": 20.0, "start_s": 1.0, "others_cpu_share": 0.1, "events_missing": 3.0,
}  # fmt: skip


def entry(workload="SchedulingBasic", size="1000Nodes", mode="backlog", nodes=1000, null=None, **ours):
    """An entry of one pair of runs. kube-scheduler has FIGURES; `ours` replaces some of them for Podwright."""
    all_figures = {"podwright": {**FIGURES, **ours}, "kube_scheduler": FIGURES}
    if null is not None:
        all_figures["null"] = {**FIGURES, "pods_per_s": null}
    records = [Record(Key(workload, size, mode, 0, who), nodes, figures) for who, figures in all_figures.items()]
    (made,) = summarize(records, MACHINE)
    return made


def reached(made):
    return {verdict.figure: verdict.reached for verdict in verdicts(made)}


@pytest.mark.parametrize(
    "workload, enough",
    [
        ("SchedulingBasic", 150),
        ("SchedulingNodeAffinity", 200),
        ("SpreadZoneAndHostname", 300),
        ("PreferredSpreadZoneAndHostname", 200),
        ("SchedulingPodAffinity", 300),
        ("SchedulingPodAntiAffinity", 250),
        ("SchedulingPreferredPodAffinity", 200),
        ("PreemptionBasic", 150),
    ],
)
def test_each_workload_has_its_rate_target(workload, enough):
    mode = "live" if workload == "PreemptionBasic" else "backlog"
    assert reached(entry(workload, mode=mode, pods_per_s=float(enough)))["pods_per_s"]
    assert not reached(entry(workload, mode=mode, pods_per_s=enough - 1.0))["pods_per_s"]


@pytest.mark.parametrize(("null", "is_reached"), [(133.0, True), (134.0, False)])
def test_90_percent_of_the_null_scheduler_reaches_a_rate_target(null, is_reached):
    made = entry(pods_per_s=120.0, null=null)
    assert reached(made)["pods_per_s"] is is_reached
    assert ("90% of the null scheduler" in short([made], [])) is is_reached


@pytest.mark.parametrize(
    "made, figure, expected",
    [
        pytest.param(entry(cpu_ms_per_pod=0.51), "cpu_ms_per_pod", False, id="more than half the CPU for plain pods"),
        pytest.param(entry(cpu_ms_per_pod=0.5), "cpu_ms_per_pod", True, id="half the CPU for plain pods"),
        pytest.param(
            entry("TopologySpreading", cpu_ms_per_pod=0.31), "cpu_ms_per_pod", False, id="too much CPU with constraints"
        ),
        pytest.param(entry(size="5000Nodes", nodes=5000, peak_mb=101.0), "peak_mb", False, id="more memory"),
        pytest.param(entry(mode="live, 50 pods/s", p99_ms=10.0), "p99_ms", True, id="half their p99"),
        pytest.param(entry(mode="live, 50 pods/s", p99_ms=10.1), "p99_ms", False, id="more than half their p99"),
        pytest.param(entry(mode="live, 50 pods/s", p50_ms=10.1), "own p50_ms", False, id="a p50 of more than 10 ms"),
        pytest.param(
            entry("StartUp", "5000Nodes", nodes=5000, start_s=1.5), "start_s", True, id="a start of 1.5 times theirs"
        ),
        pytest.param(
            entry("StartUp", "5000Nodes", nodes=5000, start_s=1.51),
            "start_s",
            False,
            id="a start of more than 1.5 times theirs",
        ),
    ],
)
def test_other_targets(made, figure, expected):
    assert reached(made)[figure] is expected


def test_figures_without_a_target_have_no_verdict():
    assert set(reached(entry("MixedSchedulingBasePod"))) == {"pods_per_s"}
    assert not verdicts(entry("PreemptionBasic"))
    assert reached(entry("StartUp", "5000Nodes", nodes=5000)).keys() == {"start_s"}
    assert not verdicts(entry(size="15000Nodes", nodes=15000))
    assert not verdicts({**entry(), "ratio": {}} | {"mode": "live"})


def test_workloads_with_affinity_or_spread_have_the_tighter_cpu_target():
    assert {"SpreadZoneAndHostname", "SchedulingNodeAffinity", "SchedulingPodAntiAffinity"} <= constrained()
    assert not {"SchedulingBasic", "MixedSchedulingBasePod", "PreemptionBasic", "StartUp"} & constrained()


def test_scale_divides_the_cost_on_15000_nodes_by_that_on_1500():
    few, many = entry(size="1500Nodes", nodes=1500, cpu_ms_per_pod=0.5), entry(size="15000Nodes", cpu_ms_per_pod=3.0)
    found = of_scale([few, many], [{"workload": "plain", "cost_15000_to_1500": 4.9}])
    assert {what: (verdict.found, verdict.reached) for what, verdict in found.items()} == {
        "CPU a pod, on a real control plane": (6.0, False),
        "in process, plain": (4.9, True),
    }


def test_every_row_has_as_many_cells_as_its_header():
    entries = [
        entry(null=100.0),
        entry("StartUp"),
        entry(mode="live, 50 pods/s"),
        entry("TopologySpreading", pods_per_s=1.0),
    ]
    entries[0]["podwright_kopf"] = entries[0]["podwright"]
    text = "\n".join((short(entries, [{"workload": "plain", "cost_15000_to_1500": 2.0}]), details(entries)))
    assert "| SchedulingBasic, 1,000 nodes, `--pod-intake=kopf` | 100 |" in text
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 3
    for lines in tables:
        assert len({line.count("|") for line in lines}) == 1
    assert "| 0.01 (0.01 to 0.01) | 2 | **no** |" in text


def test_only_the_text_between_the_markers_is_rewritten():
    before = "a\n<!-- written by make bench-table from one.json -->\nold\n<!-- end of what is written -->\nb\n"
    named = []
    after = rewritten(before, lambda path: named.append(path) or "new", root=Path("/r"))
    assert after == "a\nnew\nb\n"
    assert named == [Path("/r/one.json")]
    with pytest.raises(ValueError, match="markers"):
        rewritten("no markers", lambda path: "")


def test_readme_picture_and_page_match_the_result_that_the_readme_names():
    for path, text in documents(CHECKOUT / "README.md").items():
        assert path.read_text() == text, path


def test_the_summary_has_ten_rows_and_shows_missed_targets_too():
    entries, _ = read(CHECKOUT / "benchmarks" / "results" / "0.1.0.json")
    rows = summary(entries).split("\n\n")[0].splitlines()[2:]
    assert len(rows) == len(SUMMARY) == 10
    missed = next(each for each in entries if each["workload"] == "SchedulingDaemonset")
    assert missed["ratio"]["cpu_ms_per_pod"] > 0.3
    (row,) = [row for row in rows if "SchedulingDaemonset" in row]
    assert row.endswith(f"| {missed['ratio']['cpu_ms_per_pod']:.2f}x |")


def test_the_picture_has_a_pair_of_bars_per_workload_in_proportion_to_the_rates():
    svg = picture([entry(pods_per_s=200.0), entry("SchedulingNodeAffinity", pods_per_s=50.0)])
    widths = [int(width) for width in re.findall(r'width="(\d+)" height="16"', svg)]
    assert widths == [480, 240, 120, 240]
    assert "2.00x" in svg


@pytest.mark.parametrize(
    "name", [path.name for path in sorted((CHECKOUT / "benchmarks" / "results").glob("[0-9]*.json"))]
)
def test_published_results_are_readable(name):
    entries, core = read(CHECKOUT / "benchmarks" / "results" / name)
    if not name.endswith("-core.json"):
        assert f"{entries[0]['workload']}, {entries[0]['nodes']:,} nodes" in short(entries, core)
        assert details(entries)


def alone(workload, size, mode="backlog", **figures):
    """An entry without kube-scheduler."""
    (made,) = summarize([Record(Key(workload, size, mode, 0, "podwright"), 500, {**FIGURES, **figures})], MACHINE)
    return made


@pytest.mark.parametrize(
    ("made", "is_reached"),
    [
        pytest.param([entry(), entry("SchedulingInQueues", pods_per_s=90.0)], True, id="90 % of the rate"),
        pytest.param([entry(), entry("SchedulingInQueues", pods_per_s=89.0)], False, id="less than 90 % of the rate"),
        pytest.param([alone("FillWithGPUJobs", "500Nodes", last_s=12.0)], True, id="a fill in time"),
        pytest.param([alone("FillWithGPUJobs", "500Nodes", last_s=12.1)], False, id="a fill too late"),
        pytest.param([alone("ReclaimOneGPU", "500Nodes", "live", p50_ms=1001.0)], False, id="a slow reclaim"),
        pytest.param([alone("SchedulingGangs", "500x20", pods_per_s=500.0)], True, id="gangs at the rate"),
        pytest.param([alone("SchedulingGangs", "500x20", pods_per_s=499.0)], False, id="gangs below the rate"),
    ],
)
def test_promises_of_queues_are_judged_beside_the_figures_of_peers(made, is_reached):
    (promise,) = of_queues(made)
    assert promise.verdict.reached is is_reached
    text = short(made, [])
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {promise.what} |")]
    assert row.endswith(f"| {'yes' if is_reached else '**no**'} | {promise.peer} | 3 | 10% |")
    assert "from larger machines" in text


def test_smaller_sizes_are_not_judged_by_the_targets_of_queues():
    assert of_queues([entry(), alone("FillWithGPUJobs", "20Nodes", last_s=99.0)]) == []
