"""What is kept of runs, and how ratios come about."""

import pytest
from benchmarks.results import Journal, Key, Record, summarize


def record(series, pair=0, workload="Basic", **figures):
    figures = {"pods": 100, "pods_per_s": 1.0, "cpu_ms_per_pod": 1.0, "peak_mb": 1.0, "p99_ms": 1.0, **figures}
    return Record(Key(workload, "10Nodes", "backlog", pair, series), 10, figures)


def test_a_ratio_is_the_median_over_pairs_and_not_the_ratio_of_medians():
    rates = [(200.0, 100.0), (300.0, 300.0), (90.0, 30.0)]
    records = [
        record(series, pair, pods_per_s=rate)
        for pair, both in enumerate(rates)
        for series, rate in zip(("podwright", "kube_scheduler"), both, strict=True)
    ]
    (entry,) = summarize(records, {})
    assert entry["ratio"]["pods_per_s"] == 2.0
    assert entry["ratio_spread"]["pods_per_s"] == [1.0, 3.0]
    assert entry["podwright"]["pods_per_s"] == 200.0
    assert entry["kube_scheduler"]["pods_per_s"] == 100.0


def test_an_entry_has_the_fields_that_readers_rely_on():
    (entry,) = summarize([record("podwright"), record("kube_scheduler"), record("null")], {"cpus": 2})
    assert (entry["workload"], entry["nodes"], entry["pods"], entry["pairs"]) == ("Basic", 10, 100, 1)
    for series in ("podwright", "kube_scheduler", "null", "ratio"):
        assert {"pods_per_s", "cpu_ms_per_pod", "peak_mb", "p99_ms"} <= set(entry[series])
    assert entry["machine"] == {"cpus": 2}


def test_without_the_other_half_of_a_pair_there_is_no_ratio():
    (entry,) = summarize([record("podwright", 0), record("kube_scheduler", 1)], {})
    assert "ratio" not in entry


def test_workloads_keep_their_order():
    entries = summarize([record("null", workload="B"), record("null", workload="A"), record("null", 1, "B")], {})
    assert [entry["workload"] for entry in entries] == ["B", "A"]


@pytest.mark.parametrize("resume", [True, False])
def test_only_a_resumed_journal_knows_earlier_runs(tmp_path, resume):
    path = tmp_path / "runs.jsonl"
    first = Journal(path, resume=False)
    first.append(record("null"))
    again = Journal(path, resume=resume)
    assert again.has(record("null").key) is resume
    assert not again.has(record("null", pair=1).key)
    assert again.records == (first.records if resume else [])
