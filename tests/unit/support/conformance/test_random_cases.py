"""The helpers of the conformance tests: canonical quantities and random cases."""

import json

import pytest

from podwright.simulator.evaluations.cases import run_case
from support.conformance.pod_resources import pod_resources_cases
from support.conformance.quantities import canonical_quantity


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("600.0Mi", "600Mi", id="a binary suffix with a fraction of 0"),
        pytest.param("1024.0Mi", "1Gi", id="the greatest binary suffix"),
        pytest.param("0.586Gi", "629212708864m", id="a binary fraction of a byte"),
        pytest.param("0.5Ki", "512", id="less than 1024 with a binary suffix"),
        pytest.param("1.5", "1500m", id="a decimal fraction"),
        pytest.param("+1500m", "1500m", id="a sign"),
        pytest.param("0.001k", "1", id="a decimal suffix that is not needed"),
        pytest.param("1048576Ki", "1Gi", id="a binary suffix that is too small"),
        pytest.param("3145728000", "3145728k", id="no suffix"),
        pytest.param("100e-3", "100e-3", id="an exponent"),
        pytest.param("1e4", "10e3", id="an exponent that is no multiple of 3"),
        pytest.param("0Mi", "0", id="zero"),
    ],
)
def test_canonical_quantities(text, canonical):
    assert canonical_quantity(text) == canonical
    assert canonical_quantity(canonical) == canonical


def test_random_cases_depend_on_their_seed_only_and_can_be_run():
    cases = list(pod_resources_cases(7, 25))
    assert json.dumps(cases) == json.dumps(list(pod_resources_cases(7, 25)))
    assert cases != list(pod_resources_cases(8, 25))
    assert {"nodes", "skippedFilters"} <= set.intersection(*(set(run_case(case)["expect"]) for case in cases))
    written = json.dumps(cases)
    for field in ("overhead", "restartPolicy", "PodResizePending", "allocatedResources", "initContainerStatuses"):
        assert field in written
