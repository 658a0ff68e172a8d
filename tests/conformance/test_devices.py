"""Random clusters with devices: each case has an answer, whatever the order in which devices are tried. `test_oracle`
compares the answers.
"""

import pytest

from podwright.simulator.evaluations.cases import run_case
from support.conformance.devices import device_cases
from support.conformance.oracle import varied_device_cases


@pytest.mark.parametrize(
    "cases", [pytest.param(device_cases, id="generated"), pytest.param(varied_device_cases, id="varied")]
)
def test_random_claims_cause_no_exception(cases):
    feasible = 0
    for case in cases(1, 100):
        answer = run_case(case)
        feasible += "best" in answer["expect"]
        assert run_case(case) == answer, case["id"]
    assert 10 < feasible < 90


@pytest.mark.parametrize("allocation", ["BestFit", "Spread"])
def test_another_order_of_devices_serves_the_same_nodes(allocation):
    """Unless a search fails with an error on a device that another order does not come to."""
    args = {"allocation": allocation, "scoring": "BestFit"}
    compared = 0
    for case in device_cases(1, 100):
        first = run_case(case)["expect"]
        other = run_case({**case, "pluginConfig": [{"name": "DynamicResources", "args": args}]})["expect"]
        if "error" not in first and "error" not in other:
            compared += 1
            assert other["nodes"] == first["nodes"], case["id"]
    assert compared > 60
