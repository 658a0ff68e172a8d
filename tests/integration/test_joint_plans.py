"""Gangs that fit only together, on the real API server: what comes of planning jointly is told, and all else goes on.

A package `highspy` in the path of the operator stands for one that is not installed, or that does not do what it
should.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from podwright.core.gangs.joint import COUNTED, IN_TIME, NOT_PLANNED, PROVED
from podwright.engine.process.solving import MISSING
from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.gangs.pod_groups import NEEDS_WORKLOAD_API, OURS, Case

pytestmark = NEEDS_WORKLOAD_API
NOT_INSTALLED = {"sitecustomize.py": "import sys; sys.modules['highspy'] = None"}
GIVES_UP = """
import sys
from pathlib import Path
sys.path[:] = [each for each in sys.path if Path(each) != Path(__file__).parent]
del sys.modules["highspy"]
import highspy
highspy.Highs.run = lambda self: None
highspy.Highs.getModelStatus = lambda self: highspy.HighsModelStatus.k{}
"""
"""It finds nothing, and says why."""


@pytest.fixture(scope="module")
def control_plane(serving_groups: ControlPlane) -> ControlPlane:
    return serving_groups


@pytest.fixture
def case(empty_cluster: ControlPlane, namespace: str) -> Case:
    """A large and a small node. The small member of a gang comes first, and prefers the large node."""
    for name, cpu in (("large", "8"), ("small", "3"), ("spare", "1")):
        empty_cluster.client.create(node(name, cpu=cpu))
    return Case(empty_cluster, namespace)


def create(case: Case, cpus: str = "38") -> dict[str, Any]:
    """`cpus`: of each member."""
    group = case.group("train", len(cpus))
    for index, cpu in enumerate(cpus):
        case.members("train", [index], cpu=cpu)
    return group


def test_members_that_fit_only_together_are_placed(case):
    pytest.importorskip("highspy")
    with kit.running(case.cluster):
        group = create(case)
        case.wait_condition(group, "True", "Scheduled")
        case.wait_placed("train", 2)
        places = {raw["metadata"]["name"]: raw["spec"]["nodeName"] for raw in kit.pods(case.cluster, case.namespace)}
        assert places == {"train-0": "small", "train-1": "large"}


@pytest.mark.parametrize(
    ("files", "cpus", "told"),
    [
        pytest.param({}, "245", PROVED, id="there is no placement, which is proved"),
        pytest.param({}, "39", COUNTED, id="there is no placement, by counting"),
        pytest.param({"highspy.py": GIVES_UP.format("TimeLimit")}, "38", IN_TIME, id="none is found in the time"),
        pytest.param(
            {"highspy.py": GIVES_UP.format("MemoryLimit")},
            "38",
            f"{NOT_PLANNED}the solver ended with 1: Memory limit reached",
            id="its own bound on memory ends it",
        ),
        pytest.param(NOT_INSTALLED, "38", NOT_PLANNED + MISSING, id="the solver is not installed"),
        pytest.param(
            {"highspy.py": "import os; os.abort()"}, "38", f"{NOT_PLANNED}the solver ended with -6", id="it dies"
        ),
        pytest.param(
            {"highspy.py": "import time; time.sleep(600)"},
            "38",
            f"{NOT_PLANNED}the solver had not begun after 6 s and was ended",
            id="it hangs",
        ),
        pytest.param(
            {"highspy.py": "x = bytearray(1 << 40)"},
            "38",
            f"{NOT_PLANNED}the solver ended with 1: MemoryError",
            id="it eats memory",
        ),
    ],
)
def test_why_there_is_no_placement_is_told_and_other_pods_are_scheduled(case: Case, tmp_path: Path, files, cpus, told):
    if files != NOT_INSTALLED:
        pytest.importorskip("highspy")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    with kit.running(case.cluster, environ={"PYTHONPATH": path}) as operator:
        group = create(case, cpus)
        case.cluster.client.create(
            pod("other-0", case.namespace, scheduler=OURS, cpu="1", nodeSelector={"kubernetes.io/hostname": "spare"})
        )
        wait_until(lambda: told in case.condition(group).get("message", ""), 20, "the condition says it")

        def notes() -> list[str]:
            return [each["note"] for each in kit.events(case.cluster, case.namespace, "FailedScheduling")]

        wait_until(lambda: any(told in note for note in notes()), 30, "an event says it")
        case.wait_placed("other", 1)
        assert case.places("train") == []
    assert "Traceback" not in operator.log()
