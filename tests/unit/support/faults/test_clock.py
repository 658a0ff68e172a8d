"""Without a compiler there is no clock to step: outside CI that is a reason to skip, there it is a failure."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.faults.clock import SteppingClock


@pytest.mark.parametrize(
    ("ci", "outcome"),
    [
        pytest.param("true", pytest.fail.Exception, id="CI fails"),
        pytest.param("", pytest.skip.Exception, id="elsewhere the test is skipped"),
    ],
)
def test_without_a_compiler_no_clock_can_be_stepped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(outcome, match="no C compiler"):
        SteppingClock(tmp_path)
