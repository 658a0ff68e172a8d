"""The benchmark of fragments: what its result says, and that a run on a small trace gives such a result."""

import json
from pathlib import Path

from benchmarks.fragmentation import FILL, FIRST_SEED, PUBLISHED, RESULT, means, measured

ROOT = Path(__file__).parents[3]
RUNS = json.loads((ROOT / RESULT).read_text())
SEEDS = range(FIRST_SEED, FIRST_SEED + 10)


def test_the_result_has_each_policy_with_ten_seeds():
    assert sorted((run["policy"], run["seed"]) for run in RUNS) == sorted((p, s) for p in PUBLISHED for s in SEEDS)
    for run in RUNS:
        assert run.keys() == {"policy", "seed", "requested", "allocated", "arrived", "placed"}
        assert run["requested"] == FILL
        assert 0 < run["allocated"] < 1
        assert 0 < run["placed"] < run["arrived"]


def test_the_document_has_the_means():
    text = (ROOT / "docs" / "replay.md").read_text()
    for policy, share in means(RUNS).items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| `{policy}` |")]
        assert [f"{share * 100:.2f} %", f"{PUBLISHED[policy] * 100:.2f} %"] == [
            cell.strip() for cell in line.split("|")[3:5]
        ]
    assert means(RUNS)["fewest-fragments"] > 0.954


def test_a_run_on_a_small_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    nodes, tasks = tmp_path / "nodes.csv", tmp_path / "tasks.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu\n" + "".join(f"n{i},8000,65536,2\n" for i in range(8)))
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time\n"
    kinds = [(1000, 1, 700), (1000, 1, 300), (2000, 1, 1000)]
    rows = (f"t{i}-{j},{cpu},1024,{n},{milli},{i}\n" for i in range(8) for j, (cpu, n, milli) in enumerate(kinds))
    tasks.write_text(header + "".join(rows))
    runs = [measured(str(nodes), str(tasks), policy, 1) for policy in PUBLISHED]
    assert [run.keys() for run in runs] == [RUNS[0].keys()] * len(runs)
    assert runs[0]["allocated"] >= runs[2]["allocated"] > 0.5, "no more fragments than at random"
