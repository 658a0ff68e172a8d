"""The journal of runs, and the summary with its ratios."""

import pytest
from benchmarks.results import Journal, Key, Record, summarize


def record(series, pair=0, workload="Basic", **figures):
    figures = {"pods": 100, "pods_per_s": 1.0, "cpu_ms_per_pod": 1.0, "peak_mb": 1.0, "p99_ms": 1.0, **figures}
    return Record(Key(workload, "10Nodes", "backlog", pair, series), 10, figures)


def test_a_ratio_is_the_median_over_pairs():
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


def test_an_entry_has_the_documented_fields():
    (entry,) = summarize([record("podwright"), record("kube_scheduler"), record("null")], {"cpus": 2})
    assert (entry["workload"], entry["nodes"], entry["pods"], entry["pairs"]) == ("Basic", 10, 100, 1)
    for series in ("podwright", "kube_scheduler", "null", "ratio"):
        assert {"pods_per_s", "cpu_ms_per_pod", "peak_mb", "p99_ms"} <= set(entry[series])
    assert entry["machine"] == {"cpus": 2}


def test_an_incomplete_pair_has_no_ratio():
    (entry,) = summarize([record("podwright", 0), record("kube_scheduler", 1)], {})
    assert "ratio" not in entry


def test_entries_are_in_the_order_of_the_first_runs():
    entries = summarize([record("null", workload="B"), record("null", workload="A"), record("null", 1, "B")], {})
    assert [entry["workload"] for entry in entries] == ["B", "A"]


@pytest.mark.parametrize("resume", [True, False])
def test_only_a_resumed_journal_keeps_earlier_runs(tmp_path, resume):
    path = tmp_path / "runs.jsonl"
    first = Journal(path, resume=False)
    first.append(record("null"))
    again = Journal(path, resume=resume)
    assert again.has(record("null").key) is resume
    assert not again.has(record("null", pair=1).key)
    assert again.records == (first.records if resume else [])


def test_an_incomplete_last_line_is_dropped(tmp_path):
    path = tmp_path / "runs.jsonl"
    journal = Journal(path, resume=False)
    journal.append(record("podwright"))
    journal.append(record("null"))
    whole = path.read_text()
    path.write_text(whole[:-20])
    again = Journal(path, resume=True)
    assert [each.key.series for each in again.records] == ["podwright"]
    again.append(record("null"))
    assert path.read_text() == whole
    assert Journal(path, resume=True).records == journal.records


def test_only_podwright_and_kube_scheduler_form_pairs():
    records = [record(series, pair) for pair in range(2) for series in ("podwright", "kube_scheduler")]
    (entry,) = summarize([*records, record("null"), *(record("podwright_kopf", pair) for pair in range(5))], {})
    assert entry["pairs"] == 2
    assert [entry[series]["runs"] for series in ("podwright", "null", "podwright_kopf")] == [2, 1, 5]


def test_series_have_a_fixed_order():
    records = [record(series) for series in ("podwright_kopf", "null", "kube_scheduler", "podwright")]
    (entry,) = summarize(records, {})
    assert [name for name in entry if isinstance(entry[name], dict) and "peak_mb" in entry[name]][:4] == [
        "podwright",
        "kube_scheduler",
        "null",
        "podwright_kopf",
    ]


def test_a_figure_that_was_not_measured_has_no_ratio():
    (entry,) = summarize([record("podwright", start_s=2.0), record("kube_scheduler", start_s=0.0)], {})
    assert "start_s" not in entry["ratio"]
    (entry,) = summarize([record("podwright", start_s=2.0), record("kube_scheduler", start_s=4.0)], {})
    assert entry["ratio"]["start_s"] == 0.5


def test_an_entry_names_the_commits_of_all_its_runs():
    first, second = record("podwright"), record("kube_scheduler")
    runs = [Record(first.key, 10, first.figures, "aaa"), Record(second.key, 10, second.figures, "bbb")]
    (entry,) = summarize(runs, {"cpus": 2, "commit": "ccc"})
    assert entry["machine"] == {"cpus": 2, "commit": "aaa, bbb"}


def test_disturbed_runs_are_dropped_from_the_file_too(tmp_path):
    path = tmp_path / "runs.jsonl"
    journal = Journal(path, resume=False)
    for pair, share in enumerate([0.01, 0.3, 0.05]):
        journal.append(record("null", pair, others_cpu_share=share))
    assert journal.drop_disturbed(0.05) == 1
    assert [each.key.pair for each in Journal(path, resume=True).records] == [0, 2]
    assert not journal.has(record("null", 1).key)
