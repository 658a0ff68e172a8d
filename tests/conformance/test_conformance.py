"""Compares the answers to the stored conformance cases with those of kube-scheduler. `test_oracle` compares random
cases.
"""

import pytest

from podwright.simulator.evaluations.cases import read_cases, run_case
from podwright.simulator.evaluations.comparison import differences
from support.conformance.files import FILES, name_of


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_answer_is_that_of_kube_scheduler(path):
    cases = list(read_cases(str(path)))
    wrong = {case["id"]: found for case in cases if (found := list(differences(run_case(case), case)))}
    assert cases
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, first: {next(iter(wrong.items()))}"


def test_no_group_of_cases_is_missing():
    assert len(FILES) == 15
