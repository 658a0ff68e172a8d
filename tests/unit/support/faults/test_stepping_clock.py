"""Without a C compiler, SteppingClock skips the test, or fails it in CI."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.faults.stepping_clock import SteppingClock


@pytest.mark.parametrize(
    ("ci", "outcome"),
    [
        pytest.param("true", pytest.fail.Exception, id="in CI the test fails"),
        pytest.param("", pytest.skip.Exception, id="elsewhere the test is skipped"),
    ],
)
def test_a_missing_compiler_skips_or_fails_the_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(outcome, match="no C compiler"):
        SteppingClock(tmp_path)
