"""Fuzz test of device allocation against kube-scheduler's own code, which the program PODWRIGHT_ORACLE runs; skipped without it, and so in CI.

Half of the cases is generated, the other half are variations of those with known answers and of some of the first half.

PODWRIGHT_DEVICE_CASES is the number of random cases, PODWRIGHT_ORACLE_SEED changes them.
"""

import gzip
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from podwright.simulator.evaluations.cases import run_case
from podwright.simulator.evaluations.comparison import differences
from support.conformance.device_variations import varied
from support.conformance.devices import device_cases
from support.conformance.files import FILES, name_of

ORACLE = os.environ.get("PODWRIGHT_ORACLE")
COUNT = int(os.environ.get("PODWRIGHT_DEVICE_CASES") or 500)
SEED = int(os.environ.get("PODWRIGHT_ORACLE_SEED") or 1)


def variations(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Variations of generated cases, and of those with known answers if these are there."""
    known = list(device_cases(seed, 100))
    for path in FILES:
        if name_of(path) == "dra":
            known += map(orjson.loads, gzip.decompress(path.read_bytes()).splitlines())
    return varied(known, seed, count)


Cases = Callable[[int, int], Iterator[dict[str, Any]]]
GENERATED = pytest.mark.parametrize(
    "cases", [pytest.param(device_cases, id="generated"), pytest.param(variations, id="varied")]
)


@GENERATED
@pytest.mark.slow
@pytest.mark.skipif(not ORACLE, reason="PODWRIGHT_ORACLE does not name the program that asks kube-scheduler's code")
@pytest.mark.timeout(60 + COUNT // 10)
def test_random_claims_are_allocated_as_by_kube_scheduler(cases: Cases):
    lines = b"".join(orjson.dumps(case) + b"\n" for case in cases(SEED, -(-COUNT // 2)))
    done = subprocess.run([ORACLE], input=lines, capture_output=True, check=True)
    wrong, compared = {}, 0
    for line in done.stdout.splitlines():
        case = orjson.loads(line)
        if (case["expect"].get("allocation") or {}).get("error"):
            continue  # kube-scheduler cannot bind the pod
        compared += 1
        if found := list(differences(run_case(case), case)):
            wrong[case["id"]] = found
    assert compared > COUNT * 0.45
    assert not wrong, f"{len(wrong)} of {compared} differ, first: {next(iter(wrong.items()))}"


@GENERATED
def test_random_claims_cause_no_exception(cases: Cases):
    """Without the oracle: each case gets an answer, which is the same when it is asked again."""
    feasible = 0
    for case in cases(SEED, 100):
        answer = run_case(case)
        feasible += "best" in answer["expect"]
        assert run_case(case) == answer, case["id"]
    assert 10 < feasible < 90


@pytest.mark.parametrize("allocation", ["BestFit", "Spread"])
def test_another_order_of_devices_serves_the_same_nodes(allocation):
    """Unless a search fails with an error on a device that another order does not come to."""
    args = {"allocation": allocation, "scoring": "BestFit"}
    compared = 0
    for case in device_cases(SEED, 100):
        first = run_case(case)["expect"]
        other = run_case({**case, "pluginConfig": [{"name": "DynamicResources", "args": args}]})["expect"]
        if "error" not in first and "error" not in other:
            compared += 1
            assert other["nodes"] == first["nodes"], case["id"]
    assert compared > 60
