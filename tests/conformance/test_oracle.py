"""Asks kube-scheduler's own code, which `oracle` compiles: random cases get the same answers, and the stored answers
are still its own.

PODWRIGHT_ORACLE_CASES is the number of random cases, PODWRIGHT_ORACLE_SEED changes them.
"""

import os

import pytest

from podwright.simulator.evaluations.cases import read_cases
from support.conformance.files import FILES, name_of
from support.conformance.oracle import GENERATORS, answered, disagreements
from support.properties import case_count

COUNT = case_count("PODWRIGHT_ORACLE_CASES", 1200)
SEED = int(os.environ.get("PODWRIGHT_ORACLE_SEED") or 1)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("binaries"), pytest.mark.timeout(600 + COUNT // 10)]


@pytest.mark.parametrize("generator", GENERATORS.values(), ids=GENERATORS)
def test_random_cases_are_answered_as_by_kube_scheduler(generator):
    count = COUNT // len(GENERATORS)
    compared, wrong = disagreements(generator(SEED, count))
    assert compared > count * 0.9
    assert not wrong, f"{len(wrong)} of {compared} differ, first: {next(iter(wrong.items()))}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_stored_answers_are_those_of_the_reference_release(path):
    cases = list(read_cases(str(path)))
    changed = [case["id"] for case, again in zip(cases, answered(cases), strict=True) if again != case]
    assert not changed
