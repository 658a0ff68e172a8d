"""The text of checks is Kubernetes'."""

from __future__ import annotations

import pytest

from podwright.kube.serve.answers.checks import Note, report, report_one

GOOD = {"ping": "", "informer-sync": ""}
NOTED = {"ping": "", "other-instances": Note("another one runs")}
BAD = {"ping": "", "informer-sync": "not complete: nodes"}


@pytest.mark.parametrize(
    ("problems", "options", "expected"),
    [
        pytest.param(GOOD, {}, (True, "ok"), id="one word if all is well"),
        pytest.param(
            GOOD,
            {"verbose": True},
            (True, "[+]ping ok\n[+]informer-sync ok\nreadyz check passed\n"),
            id="every check if asked",
        ),
        pytest.param(NOTED, {}, (True, "ok\nnote: other-instances: another one runs"), id="a note fails nothing"),
        pytest.param(
            {**NOTED, "empty": Note("")},
            {"verbose": True},
            (True, "[+]ping ok\n[+]other-instances ok: another one runs\n[+]empty ok\nreadyz check passed\n"),
            id="a note beside its check",
        ),
        pytest.param(
            BAD,
            {},
            (False, "[+]ping ok\n[-]informer-sync failed: not complete: nodes\nreadyz check failed\n"),
            id="every check if one failed",
        ),
        pytest.param(BAD, {"excluded": ["informer-sync"]}, (True, "ok"), id="an excluded check cannot fail"),
        pytest.param(
            GOOD,
            {"excluded": ["b", "ping", "a"], "verbose": True},
            (
                True,
                '[+]ping excluded: ok\n[+]informer-sync ok\nwarn: some health checks cannot be excluded: no matches for "a", "b"\nreadyz check passed\n',
            ),
            id="unknown names are named",
        ),
    ],
)
def test_the_answer_about_all_checks(problems, options, expected):
    found = report("readyz", problems, **options)
    assert (found.healthy, found.text) == expected


def test_the_answer_about_one_check():
    assert report_one("ping", "").text == "ok"
    assert report_one("ping", Note("")).text == "ok"
    assert report_one("ping", Note("slow")).text == "ok\nnote: slow"
    assert report_one("ping", "gone").text == "internal server error: ping: gone\n"
