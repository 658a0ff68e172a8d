"""Fuzz tests against kube-scheduler's own code, which the program PODWRIGHT_ORACLE runs; skipped without it, and so in CI.

The program reads cases as JSON lines from standard input, and prints each with the `expect` of kube-scheduler.
PODWRIGHT_ORACLE_CASES is the number of random cases, PODWRIGHT_ORACLE_SEED changes them.
"""

import os
import subprocess

import orjson
import pytest

from podwright.simulator.evaluations.cases import read_cases, run_case
from podwright.simulator.evaluations.comparison import differences
from support.conformance.files import NEXT_FILES, name_of
from support.conformance.pod_resources import pod_resources_cases
from support.conformance.quantities import with_canonical_pod_requests

ORACLE = os.environ.get("PODWRIGHT_ORACLE")
COUNT = int(os.environ.get("PODWRIGHT_ORACLE_CASES") or 5000)
SEED = int(os.environ.get("PODWRIGHT_ORACLE_SEED") or 1)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ORACLE, reason="PODWRIGHT_ORACLE does not name the program that asks kube-scheduler's code"),
]


def _answered(cases):
    """The cases with kube-scheduler's answers."""
    lines = b"".join(orjson.dumps(case) + b"\n" for case in cases)
    done = subprocess.run([ORACLE], input=lines, capture_output=True, check=True)
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def _differences(cases):
    return {case["id"]: found for case in cases if (found := list(differences(run_case(case), case)))}


@pytest.mark.timeout(60 + COUNT // 50)
def test_random_requests_are_answered_as_by_kube_scheduler():
    cases = _answered(pod_resources_cases(SEED, COUNT))
    wrong = _differences(cases)
    assert len(cases) == COUNT
    assert not wrong, f"{len(wrong)} of {COUNT} differ, first: {next(iter(wrong.items()))}"


@pytest.mark.skipif(not NEXT_FILES, reason="no conformance cases beside the checkout")
@pytest.mark.parametrize("path", NEXT_FILES, ids=name_of)
def test_all_scores_agree_once_the_quantities_are_canonical(path):
    cases = list(read_cases(str(path)))
    answered = _answered(map(with_canonical_pod_requests, cases))
    assert len(answered) == len(cases)
    assert not _differences(answered)
