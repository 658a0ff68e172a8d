"""Queues of Workloads on a fragmented cluster: the small form of benchmarks/kueue.py."""

from __future__ import annotations

import asyncio

from benchmarks.kueue import Settings, measure_queues


def test_every_admitted_workload_is_bound_whole_while_both_processes_are_killed(kueue_installed, empty_cluster):
    result, _ = asyncio.run(measure_queues(empty_cluster, Settings(nodes=40, queues=3, workloads=45)))
    assert result.answers["Ready"] == 45
    assert result.answers["Retry"] > 0
    assert result.whole == result.admitted == 45 - result.deleted
