"""The generators of random conformance cases."""

import json

import pytest

from podwright.simulator.evaluations.cases import run_case
from support.conformance.oracle import GENERATORS


@pytest.mark.parametrize(
    ("generator", "fields"),
    [
        pytest.param(
            "clusters",
            {
                "tolerations", "topologySpreadConstraints", "podAntiAffinity", "hostPort", "sizeBytes", "addedAffinity",
                "persistentVolumeClaim", "disruptionsAllowed", "scoringStrategy", "updateNode", "nominatedNodeName",
                "declaredFeatures", "bindMountOptions",
            },
            id="clusters",
        ),
        pytest.param(
            "pod-resources",
            {"overhead", "restartPolicy", "PodResizePending", "allocatedResources", "initContainerStatuses"},
            id="resources of pods",
        ),
        pytest.param("devices", {"firstAvailable", "distinctAttribute", "sharedCounters"}, id="devices"),
        pytest.param("devices varied", {"firstAvailable", "sharedCounters"}, id="varied devices"),
    ],
)  # fmt: skip
def test_random_cases_depend_on_their_seed_only_and_can_be_run(generator, fields):
    generate = GENERATORS[generator]
    cases = list(generate(7, 60))
    written = json.dumps(cases)
    assert written == json.dumps(list(generate(7, 60)))
    assert cases != list(generate(8, 60))
    assert {field for field in fields if field not in written} == set()
    for case in cases[:25]:
        answer = run_case(case)
        assert "nodes" in (answer["steps"][0].get("expect", {"nodes": {}}) if "steps" in case else answer["expect"])
