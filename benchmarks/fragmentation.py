"""How much of the GPUs of the trace openb is allocated when 130 % of them have been requested: `python -m
benchmarks.fragmentation --nodes openb_node_list_gpu_node.csv.gz --tasks openb_pod_list_default.csv.gz`.

The method is that of Weng et al., "Beware of Fragmentation", USENIX ATC '23: see `filling_stream`. Its published means
over ten seeds are in PUBLISHED. The result is a list of runs, which is extended by those that it lacks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from podwright.simulator.manifests import read_manifests
from podwright.simulator.replay.run import ReplayCandidate, ReplayOptions, replay
from podwright.simulator.replay.task_lists import GPU_SHARE, filling_stream, read_nodes, read_tasks

FILL: Final = 1.3
FIRST_SEED: Final = 42
RESULT: Final = Path("benchmarks/results/fragmentation.json")
POLICIES: Final = Path("docs/replay/policies")
PUBLISHED: Final[Mapping[str, float]] = {"fewest-fragments": 0.9539, "best-fit-shares": 0.9308, "random-shares": 0.8747}
"""By policy: the share that the paper's FGD, BestFit and Random allocate."""


def measured(nodes: str, tasks: str, policy: str, seed: int) -> dict[str, Any]:
    """One run: the share of the GPUs that is allocated at the end."""
    stream = filling_stream(read_nodes(nodes, shares=True), read_tasks(tasks, shares=True), FILL, seed, GPU_SHARE)
    # Nobody preempts: all tasks have one priority, and a search for victims would take longer than the rest.
    events = [replace(each, pod=replace(each.pod, preemption_policy="Never")) for each in stream.events]
    candidate = ReplayCandidate(policy, read_manifests(str(POLICIES / f"{policy}.yaml")))
    (card,) = replay(
        replace(stream, events=events), [candidate], ReplayOptions(resource=GPU_SHARE, samples=2, seed=seed)
    )
    return {
        "policy": policy,
        "seed": seed,
        "requested": FILL,
        "allocated": round(card.peak_allocation[GPU_SHARE], 5),
        "arrived": card.arrived,
        "placed": card.placed,
    }


def means(runs: list[dict[str, Any]]) -> dict[str, float]:
    """By policy: the mean share that is allocated."""
    return {
        policy: statistics.fmean(shares)
        for policy in PUBLISHED
        if (shares := [run["allocated"] for run in runs if run["policy"] == policy])
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", required=True)
    parser.add_argument("--tasks", required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--output", type=Path, default=RESULT)
    given = parser.parse_args()
    runs = json.loads(given.output.read_text()) if given.output.exists() else []
    done = {(run["policy"], run["seed"]) for run in runs}
    for seed in range(FIRST_SEED, FIRST_SEED + given.seeds):
        for policy in PUBLISHED:
            if (policy, seed) not in done:
                runs.append(measured(given.nodes, given.tasks, policy, seed))
                given.output.write_text(json.dumps(runs, indent=1) + "\n")
                print(runs[-1], file=sys.stderr)
    for policy, share in means(runs).items():
        print(f"{policy:20}{share:8.2%}   published {PUBLISHED[policy]:.2%}")


if __name__ == "__main__":
    main()
