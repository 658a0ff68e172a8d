"""The smallest run of `python -m benchmarks`, end to end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["backlog", "live"])
def test_a_benchmark_binds_every_pod_once_and_stores_its_results(binaries, tmp_path, mode):
    output = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks", "--workload", "SchedulingBasic", "--size", "100Nodes"]
    command += ["--mode", mode, "--output", str(output)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(output.read_text())
    assert (entry["workload"], entry["mode"], entry["nodes"], entry["pods"]) == ("SchedulingBasic", mode, 100, 200)
    for series in ("podwright", "kube_scheduler", "null"):
        figures = entry[series]
        assert figures["requests_per_pod"] == pytest.approx(2.0, abs=0.1)
        assert figures["events_missing"] == 0
        assert figures["empty_nodes"] == figures["overcommitted_nodes"] == 0
        assert figures["cpu_ms_per_pod"] > 0

    resumed = subprocess.run([*command, "--resume"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert "preparing" not in resumed.stderr
    assert json.loads(output.read_text())[0]["null"] == entry["null"]


@pytest.mark.slow
def test_a_gang_takes_the_room_of_simulated_jobs(binaries, tmp_path):
    output = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks", "--workload", "ReclaimForGang", "--set", "smoke"]
    done = subprocess.run(
        [*command, "--output", str(output)], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(output.read_text())
    assert "kube_scheduler" not in entry
    assert entry["podwright"]["pods"] == 10
    assert entry["podwright"]["events_missing"] == entry["podwright"]["overcommitted_nodes"] == 0
    assert 0 < entry["podwright"]["p50_ms"] <= 1000 * entry["podwright"]["last_s"]
