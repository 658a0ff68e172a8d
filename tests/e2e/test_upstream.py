"""The quick ones of Kubernetes' own scheduling specs, with Podwright as the default scheduler; `make e2e` runs all."""

import os

import pytest
from tests.e2e.upstream.__main__ import conclude
from tests.e2e.upstream.specs import LEFT_OUT, MINIMUM, SLOW
from tests.e2e.upstream.suite import Result, Verdict, abnormal_end, build, run

from podwright.testing import Binaries, BuildError
from podwright.testing.build import go_command


@pytest.mark.slow
@pytest.mark.waits
@pytest.mark.timeout(1200)  # includes the time to compile the specs
def test_the_quick_specs_pass(binaries):
    _build_or_skip(binaries)
    results = run("podwright", binaries, without=[*LEFT_OUT, *SLOW])
    assert {result.name: result.message for result in results if not result.passed} == {}
    assert len(results) >= MINIMUM


def _build_or_skip(binaries: Binaries) -> None:
    """Skips the test, outside CI, if the specs are not compiled and there is no Go."""
    try:
        build(binaries)
    except BuildError as error:
        if go_command() or os.environ.get("CI", "").lower() in {"true", "1"}:
            raise
        pytest.skip(str(error))


def _result(name: str, state: str = "passed") -> Result:
    return Result(name, state, 1.0, "" if state == "passed" else "why")


@pytest.mark.parametrize(
    ("results", "text", "missing"),
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
            id="a spec that fails with kube-scheduler does not count",
        ),
        pytest.param(
            {"kube-scheduler": [_result("a"), _result("b")], "podwright": [_result("a", "failed")]},
            "Podwright passes 0 of 2 specs that pass with kube-scheduler",
            ("a", "b"),
            id="a failed spec and one that did not run are missing",
        ),
        pytest.param(
            {"podwright": [_result("a"), _result("b", "skipped")]},
            "Podwright passes 1 of 2 specs",
            ("b",),
            id="without kube-scheduler, Podwright must pass all",
        ),
        pytest.param(
            {"kube-scheduler": [_result("a"), _result("b", "failed")], "podwright": []},
            "Podwright passes 0 of 1 specs that pass with kube-scheduler",
            ("a",),
            id="all are missing if none ran with Podwright",
        ),
    ],
)
def test_the_verdict_names_specs_that_pass_only_with_kube_scheduler(results, text, missing):
    verdict = Verdict.of(results)
    assert (str(verdict), verdict.missing) == (text, missing)


@pytest.mark.parametrize(
    ("results", "minimum", "status", "lines"),
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
                "fails with Podwright: a",
                "(PODWRIGHT_KEEP_LOGS=1 keeps all logs; specs.log is the log of the specs)",
                "Podwright passes 0 of 1 specs that pass with kube-scheduler",
            ],
            id="one fails",
        ),
        pytest.param(
            {"kube-scheduler": [_result("a", "failed")], "podwright": [_result("a")]},
            0,
            1,
            [
                "too few specs: at least 1 must count",
                "Podwright passes 0 of 0 specs that pass with kube-scheduler",
            ],
            id="none passes with kube-scheduler",
        ),
        pytest.param(
            {"podwright": []},
            1,
            1,
            ["too few specs: at least 1 must count", "Podwright passes 0 of 0 specs"],
            id="none ran",
        ),
        pytest.param(
            {"kube-scheduler": [_result("a"), _result("b", "failed")], "podwright": [_result("a"), _result("b")]},
            2,
            1,
            [
                "too few specs: at least 2 must count",
                "Podwright passes 1 of 1 specs that pass with kube-scheduler",
            ],
            id="too few pass with kube-scheduler",
        ),
    ],
)
def test_make_e2e_succeeds_only_if_enough_specs_count_and_all_pass(capsys, results, minimum, status, lines):
    with pytest.raises(SystemExit) as ended:
        conclude(Verdict.of(results, minimum))
    assert (int(ended.value.code), capsys.readouterr().out.splitlines()) == (status, lines)


@pytest.mark.parametrize(
    ("status", "results", "problem"),
    [
        pytest.param(0, [_result("a")], "", id="all pass"),
        pytest.param(1, [_result("a"), _result("b", "failed")], "", id="one fails, which explains the exit status"),
        pytest.param(
            1,
            [_result("a")],
            "the specs ended with exit status 1; 0 of 1 failed",
            id="a failure outside the specs",
        ),
        pytest.param(
            1,
            [_result("a"), _result("b", "skipped")],
            "the specs ended with exit status 1; 0 of 2 failed",
            id="a skipped spec does not explain the exit status",
        ),
        pytest.param(
            2,
            [_result("a"), _result("b", "failed")],
            "the specs ended with exit status 2; 1 of 2 failed",
            id="the specs crash",
        ),
        pytest.param(
            -9,
            [_result("a")],
            "the specs ended with exit status -9; 0 of 1 failed",
            id="the specs are killed",
        ),
        pytest.param(0, [], "no spec ran (exit status 0)", id="no spec ran"),
    ],
)
def test_a_run_that_ended_abnormally_is_an_error(status, results, problem):
    assert abnormal_end(status, results) == problem
