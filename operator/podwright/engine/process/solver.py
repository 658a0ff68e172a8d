"""The program that solves: reads arrays from standard input, and writes the solution to standard output.

Runs as a process of its own, and imports nothing of Podwright. See `solving`.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

_PR_SET_PDEATHSIG: Final = 1


def answer(given: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The fields of an Answer for those of a Program, after so many seconds at most."""
    highspy = importlib.import_module("highspy")
    program, size = highspy.HighsLp(), len(given["cost"])
    program.num_col_, program.num_row_ = size, len(given["low"])
    program.col_cost_, program.col_lower_, program.col_upper_ = given["cost"], np.zeros(size), given["most"]
    program.row_lower_, program.row_upper_ = given["low"], given["high"]
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_, matrix.index_, matrix.value_ = given["starts"], given["columns"], given["values"]
    program.integrality_ = [highspy.HighsVarType.kInteger] * size
    highs = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("time_limit", seconds)):
        highs.setOptionValue(option, value)
    highs.passModel(program)
    highs.run()
    status, ends = highs.getModelStatus(), highspy.HighsModelStatus
    found: dict[str, Any] = {"proved": np.bool_(status in (ends.kOptimal, ends.kInfeasible))}
    if highs.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        found["found"] = np.rint(np.array(highs.getSolution().col_value)).astype(np.int64)
    return found


def main(seconds: float, max_bytes: int) -> None:
    started = time.monotonic()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library may print
    given = np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False)
    written = io.BytesIO()
    np.savez(written, **answer(given, max(0.1, seconds - (time.monotonic() - started))))
    output.write(written.getvalue())
    output.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
