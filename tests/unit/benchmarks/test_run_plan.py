"""A plan orders the runs, survives failures, and can be resumed."""

from dataclasses import replace

import pytest
from benchmarks import run_plan
from benchmarks.measurement import RunFailed, Settings
from benchmarks.results import Journal
from benchmarks.run_plan import Plan, execute, resized
from benchmarks.schedulers import KUBE_SCHEDULER, NULL, podwright
from benchmarks.workloads import CreateNodes, load

BASIC, BASIC_500, SPREAD = (
    next(each for each in load() if each.title == title)
    for title in ("SchedulingBasic/100Nodes", "SchedulingBasic/500Nodes", "TopologySpreading/100Nodes")
)
BACKLOG = Settings()
FIGURES = {
    "pods": 1,
    "pods_per_s": 1,
    "cpu_ms_per_pod": 1,
    "peak_mb": 1,
    "p99_ms": 1,
    "last_s": 1,
    "run_s": 1,
    "others_cpu_share": 0,
}


def plan(workloads=(BASIC, SPREAD), settings=(BACKLOG,), **changes):
    series = [(podwright(), 2), (KUBE_SCHEDULER, 2), (NULL, 1)]
    return replace(Plan(list(workloads), list(settings), series), **changes)


@pytest.fixture
def measured(monkeypatch):
    """The runs that were made, as (title, series), without a control plane. Runs in `measured.fail` fail."""

    class Measured(list):
        fail = frozenset()

    runs = Measured()

    def measure(series, prepared, settings, binaries):
        runs.append((prepared.title, series.name))
        if runs[-1] in runs.fail:
            raise RunFailed("the scheduler ended")
        return dict(FIGURES)

    monkeypatch.setattr(run_plan, "measure", measure)
    monkeypatch.setattr(run_plan, "prepare", lambda workload, folder, binaries, *, backlog: workload)
    return runs


def executed(given, path, *, resume=False):
    journal = Journal(path / "runs.jsonl", resume=resume)
    failures = execute(given, journal, None, path, lambda run: None)
    return journal, failures


def test_each_round_covers_all_workloads_and_the_schedulers_take_turns():
    order = [(run.workload.name, run.pair, run.series.name) for run in plan().rounds()]
    assert order == [
        ("SchedulingBasic", 0, "podwright"), ("SchedulingBasic", 0, "kube_scheduler"), ("SchedulingBasic", 0, "null"),
        ("TopologySpreading", 0, "podwright"), ("TopologySpreading", 0, "kube_scheduler"), ("TopologySpreading", 0, "null"),
        ("SchedulingBasic", 1, "podwright"), ("SchedulingBasic", 1, "kube_scheduler"),
        ("TopologySpreading", 1, "podwright"), ("TopologySpreading", 1, "kube_scheduler"),
    ]  # fmt: skip


def test_runs_at_different_rates_or_sizes_have_different_keys():
    settings = [Settings(), Settings(backlog=False), Settings(backlog=False, pods_per_second=50)]
    keys = [run.key for run in plan([BASIC, BASIC_500], settings).rounds()]
    assert len(set(keys)) == len(keys)
    assert {key.mode for key in keys} == {"backlog", "live", "live, 50 pods/s"}


def test_a_live_only_workload_is_measured_live_and_once():
    both = [Settings(), Settings(backlog=False)]
    workload = replace(BASIC, only_live=True)
    assert {run.key.mode for run in plan([workload], both).rounds()} == {"live"}
    assert len(list(plan([workload], both).rounds())) == 5
    assert [run.key.mode for run in plan([workload]).rounds()] == ["live"] * 5


def test_only_podwright_runs_a_workload_that_others_cannot_do():
    workload = replace(BASIC, only_ours=True)
    assert [run.series.name for run in plan([workload]).rounds()] == ["podwright"] * 2


def test_a_failed_run_is_reported_and_the_others_continue(measured, tmp_path):
    measured.fail = {(BASIC.title, "podwright")}
    journal, failures = executed(plan(), tmp_path)
    assert [failure.split(":")[0] for failure in failures] == [
        "SchedulingBasic/100Nodes, backlog, 1. podwright",
        "SchedulingBasic/100Nodes, backlog, 2. podwright",
    ]
    assert len(journal.records) == 8


def test_resuming_makes_only_failed_and_missing_runs(measured, tmp_path):
    measured.fail = {(BASIC.title, "podwright")}
    executed(plan(), tmp_path)
    measured.clear()
    measured.fail = frozenset()
    journal, failures = executed(plan([BASIC, SPREAD, BASIC_500]), tmp_path, resume=True)
    assert not failures
    assert measured[:2] == [(BASIC.title, "podwright"), (BASIC_500.title, "podwright")]
    assert [title for title, _ in measured].count(BASIC_500.title) == 5
    assert len(measured) == 2 + 5
    assert len(journal.records) == 15


def test_no_run_starts_after_the_time_limit_and_the_rest_can_be_resumed(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(run_plan.time, "monotonic", lambda: 40.0 * len(measured))
    journal, failures = executed(plan(minutes=2), tmp_path)
    assert len(journal.records) == 4
    assert "--resume" in failures[0]


def test_a_size_from_the_command_line_has_its_own_name():
    workload = resized(SPREAD, 30, 40)
    (nodes,) = [op.count for op in workload.preparation if isinstance(op, CreateNodes)]
    assert (nodes, workload.measured.count, workload.size) == (30, 40, "30Nodes_40Pods")
