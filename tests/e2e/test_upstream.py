"""Kubernetes' own scheduling specs, the quick ones, with Podwright as the cluster's default scheduler; `make e2e` runs all."""

import os

import pytest
from tests.e2e.upstream.__main__ import conclude
from tests.e2e.upstream.specs import FEWEST, LEFT_OUT, SLOW
from tests.e2e.upstream.suite import Result, Verdict, build, interrupted, run

from podwright.testing import Binaries, BuildError
from podwright.testing.build import go_command


@pytest.mark.slow
@pytest.mark.timeout(1200)  # with the time to compile them once
def test_the_quick_specs_pass(binaries):
    _compiled(binaries)
    results = run("podwright", binaries, without=[*LEFT_OUT, *SLOW])
    assert {result.name: result.message for result in results if not result.passed} == {}
    assert len(results) >= FEWEST


def _compiled(binaries: Binaries) -> None:
    """Skips, outside CI, where the specs are not compiled and there is no Go."""
    try:
        build(binaries)
    except BuildError as error:
        if go_command() or os.environ.get("CI", "").lower() in {"true", "1"}:
            raise
        pytest.skip(str(error))


def _result(name: str, state: str = "passed") -> Result:
    return Result(name, state, 1.0, "" if state == "passed" else "why")


@pytest.mark.parametrize(
    ("results", "said", "missing"),
    [
        pytest.param(
            {"kube-scheduler": [_result("a"), _result("b")], "podwright": [_result("a"), _result("b")]},
            "Podwright passes 2 of 2 specs that pass with kube-scheduler",
            (),
            id="both pass all",
        ),
        pytest.param(
            {
                "kube-scheduler": [_result("a"), _result("b", "failed")],
                "podwright": [_result("a"), _result("b", "failed")],
            },
            "Podwright passes 1 of 1 specs that pass with kube-scheduler",
            (),
            id="what fails with kube-scheduler is not asked of Podwright",
        ),
        pytest.param(
            {"kube-scheduler": [_result("a"), _result("b")], "podwright": [_result("a", "failed")]},
            "Podwright passes 0 of 2 specs that pass with kube-scheduler",
            ("a", "b"),
            id="a spec that fails and one that did not run are missing",
        ),
        pytest.param(
            {"podwright": [_result("a"), _result("b", "skipped")]},
            "Podwright passes 1 of 2 specs",
            ("b",),
            id="alone it has to pass all",
        ),
        pytest.param(
            {"kube-scheduler": [_result("a"), _result("b", "failed")], "podwright": []},
            "Podwright passes 0 of 1 specs that pass with kube-scheduler",
            ("a",),
            id="what passes with kube-scheduler is missing if none ran with Podwright",
        ),
    ],
)
def test_the_verdict_names_what_passes_with_kube_scheduler_only(results, said, missing):
    verdict = Verdict.of(results)
    assert (str(verdict), verdict.missing) == (said, missing)


@pytest.mark.parametrize(
    ("results", "fewest", "status", "said"),
    [
        pytest.param(
            {"kube-scheduler": [_result("a")], "podwright": [_result("a")]},
            1,
            0,
            ["Podwright passes 1 of 1 specs that pass with kube-scheduler"],
            id="all pass",
        ),
        pytest.param(
            {"kube-scheduler": [_result("a")], "podwright": [_result("a", "failed")]},
            1,
            1,
            [
                "not with Podwright: a",
                "(with PODWRIGHT_KEEP_LOGS=1 all logs are kept; what the specs did is in specs.log)",
                "Podwright passes 0 of 1 specs that pass with kube-scheduler",
            ],
            id="one fails",
        ),
        pytest.param(
            {"kube-scheduler": [_result("a", "failed")], "podwright": [_result("a")]},
            0,
            1,
            [
                "too few to say anything: at least 1 were expected",
                "Podwright passes 0 of 0 specs that pass with kube-scheduler",
            ],
            id="none passes with kube-scheduler, so nothing was asked",
        ),
        pytest.param(
            {"podwright": []},
            1,
            1,
            ["too few to say anything: at least 1 were expected", "Podwright passes 0 of 0 specs"],
            id="none ran",
        ),
        pytest.param(
            {"kube-scheduler": [_result("a"), _result("b", "failed")], "podwright": [_result("a"), _result("b")]},
            2,
            1,
            [
                "too few to say anything: at least 2 were expected",
                "Podwright passes 1 of 1 specs that pass with kube-scheduler",
            ],
            id="too few pass with kube-scheduler",
        ),
    ],
)
def test_make_e2e_is_green_only_if_enough_was_asked_and_all_of_it_passes(capsys, results, fewest, status, said):
    with pytest.raises(SystemExit) as ended:
        conclude(Verdict.of(results, fewest))
    assert (int(ended.value.code), capsys.readouterr().out.splitlines()) == (status, said)


@pytest.mark.parametrize(
    ("status", "results", "problem"),
    [
        pytest.param(0, [_result("a")], "", id="all pass"),
        pytest.param(1, [_result("a"), _result("b", "failed")], "", id="one fails, as its result says"),
        pytest.param(
            1,
            [_result("a")],
            "the specs ended with exit status 1; 0 of 1 failed",
            id="something around the specs fails",
        ),
        pytest.param(
            1,
            [_result("a"), _result("b", "skipped")],
            "the specs ended with exit status 1; 0 of 2 failed",
            id="a spec that skips itself explains no failure",
        ),
        pytest.param(
            2,
            [_result("a"), _result("b", "failed")],
            "the specs ended with exit status 2; 1 of 2 failed",
            id="the program of the specs crashes",
        ),
        pytest.param(
            -9,
            [_result("a")],
            "the specs ended with exit status -9; 0 of 1 failed",
            id="the program of the specs is killed",
        ),
        pytest.param(0, [], "no spec ran (exit status 0)", id="no spec ran"),
    ],
)
def test_a_run_that_did_not_end_in_order_counts_for_nothing(status, results, problem):
    assert interrupted(status, results) == problem
