"""The benchmark of ordinary pods beside hostile objects, with small loads."""

import re

import pytest
from benchmarks.core.beside import Beside, Period, Run, Settings, line, row

from support.hostile.loads import LOADS

SETTINGS = Settings(nodes=20, warm_up=0.1, alone=0.2, beside=0.3, patience=60.0, divisor=10)


@pytest.mark.parametrize(
    ("named", "outcome"),
    [
        ("16 filters of findAll", "20 bound, after "),
        ("a local policy", "20 bound, after "),
        ("a pod with 100 claims", "1 bound, after "),
        ("50 pods with 4,000 anti-affinity terms", "5 bound, after "),
        ("a gang of 1,000 that preempts 2,000 pods", "10 bound, 20 pods evicted, after "),
        ("a pod with 2,000 host ports", "1 bound, after "),
        ("200 pods that a policy packs", r"1\d bound, \d+ rejected, after "),  # the solver's time says how many
    ],
)
async def test_ordinary_pods_are_bound_alone_and_beside_a_load_and_the_load_is_decided(named, outcome):
    (load,) = (load for load in LOADS if load.name.startswith(named))
    run = await Beside(load, SETTINGS).run()
    assert (len(run.alone.latencies), len(run.beside.latencies)) == (10, 15)
    assert re.match(outcome, run.outcome)


def test_a_row_has_the_quantiles_of_all_runs_of_a_load():
    quick, slow = Period([1.0] * 50, 2.0), Period([*[3.0] * 49, 70.0], 60.0)
    found = row(LOADS[0], [Run(quick, quick, "1 bound"), Run(quick, slow, "1 bound")])
    assert found["alone"] == {"pods": 100, "p50": 1.0, "p99": 1.0, "max": 1.0, "loop_held": 2.0}
    assert found["beside"] == {"pods": 100, "p50": 1.0, "p99": 3.0, "max": 70.0, "loop_held": 60.0}
    assert line(found).startswith(f"| {LOADS[0].name} | 1.0 / 1.0 / 1.0 / 2.0 | 1.0 / 3.0 / 70.0 / 60.0 | 1 bound")
