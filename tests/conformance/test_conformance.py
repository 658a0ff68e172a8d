"""Compares the answers to all conformance cases with those of kube-scheduler. Skipped if there are no cases beside the checkout."""

import os
from pathlib import Path

import pytest

from podwright.simulator.cases import read_cases, run_case
from podwright.simulator.comparison import differences

CASES = Path(os.environ.get("PODWRIGHT_CONFORMANCE") or Path(__file__).parents[2].parent / "shared" / "conformance")
FILES = sorted(CASES.glob("*.jsonl.gz"))

pytestmark = pytest.mark.slow


@pytest.mark.skipif(
    not FILES, reason="no conformance cases beside the checkout, or in the folder PODWRIGHT_CONFORMANCE"
)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_every_answer_is_that_of_kube_scheduler(path):
    cases = list(read_cases(str(path)))
    wrong = {case["id"]: found for case in cases if (found := list(differences(run_case(case), case)))}
    assert cases
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, first: {next(iter(wrong.items()))}"
