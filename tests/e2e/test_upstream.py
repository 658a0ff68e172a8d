"""Kubernetes' own scheduling specs, the quick ones, with Podwright as the cluster's default scheduler; `make e2e` runs all."""

import os

import pytest
from tests.e2e.upstream.specs import LEFT_OUT, SLOW
from tests.e2e.upstream.suite import Result, Verdict, build, run

from podwright.testing import Binaries, BuildError
from podwright.testing.build import go_command


@pytest.mark.slow
@pytest.mark.timeout(1200)  # with the time to compile them once
def test_the_quick_specs_pass(binaries):
    _compiled(binaries)
    results = run("podwright", binaries, without=[*LEFT_OUT, *SLOW])
    assert {result.name: result.message for result in results if not result.passed} == {}
    assert len(results) > 20


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
    ],
)
def test_the_verdict_names_what_passes_with_kube_scheduler_only(results, said, missing):
    verdict = Verdict.of(results)
    assert (str(verdict), verdict.missing) == (said, missing)
