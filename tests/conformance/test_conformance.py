"""Compares the answers to all conformance cases with those of kube-scheduler. Skipped if there are no cases beside the checkout."""

import pytest

from podwright.simulator.evaluations.cases import read_cases, run_case
from podwright.simulator.evaluations.comparison import differences
from support.conformance.files import FILES, NEXT_FILES, name_of
from support.conformance.quantities import with_canonical_pod_requests

BALANCE = "NodeResourcesBalancedAllocation"

pytestmark = pytest.mark.slow


def _needs(files):
    reason = "no conformance cases beside the checkout, or in the folder PODWRIGHT_CONFORMANCE"
    return pytest.mark.skipif(not files, reason=reason)


@_needs(FILES)
@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_answer_is_that_of_kube_scheduler(path):
    cases = list(read_cases(str(path)))
    wrong = {case["id"]: found for case in cases if (found := list(differences(run_case(case), case)))}
    assert cases
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, first: {next(iter(wrong.items()))}"


@_needs(NEXT_FILES)
@pytest.mark.parametrize("path", NEXT_FILES, ids=name_of)
def test_pod_level_requests_with_overhead_are_answered_as_by_kube_scheduler(path):
    """Compares everything but the scores of NodeResourcesBalancedAllocation, and the totals and best nodes that follow from them.

    The pods in these cases have pod-level requests such as `600.0Mi` or `0.586Gi`. The API server never serves that notation: it
    serves `600Mi` and `629212708864m`. kube-scheduler's `PodRequests` adds the overhead in place to a quantity that is kept as an
    arbitrary-precision decimal, as these are, and the pod shares it. So each call adds the overhead once more, and the expected
    scores depend on the number of calls. With canonical quantities kube-scheduler and Podwright agree on these scores, too:
    test_oracle.py compares them.
    """
    cases = [with_canonical_pod_requests(case) for case in read_cases(str(path))]
    wrong = {}
    for case in cases:
        answer = {"expect": _comparable(run_case(case)["expect"])}
        if found := list(differences(answer, {"expect": _comparable(case["expect"])})):
            wrong[case["id"]] = found
    assert cases
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, first: {next(iter(wrong.items()))}"


def _comparable(expect):
    scores = {plugin: by_node for plugin, by_node in expect["scores"].items() if plugin != BALANCE}
    return {**expect, "scores": scores, "total": None, "best": None}
