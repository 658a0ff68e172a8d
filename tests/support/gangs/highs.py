"""HiGHS in this process. Skips the test where it is not installed."""

from __future__ import annotations

import time
from dataclasses import fields

import pytest

from podwright.core.framework.program import Answer, Program
from podwright.engine.process.solver import answers


def by_highs(program: Program, seconds: float) -> Answer:
    pytest.importorskip("highspy")
    arrays = {each.name: getattr(program, each.name) for each in fields(Program)}
    *_, last = answers(arrays, time.monotonic() + seconds)
    return Answer(**last)
