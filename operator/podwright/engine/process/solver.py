"""The program that solves: reads arrays from standard input, and writes the solution to standard output.

Runs as a process of its own, and imports nothing of Podwright. See `solving`.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import math
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
    ends = time.monotonic() + seconds
    highspy = importlib.import_module("highspy")
    program, size = highspy.HighsLp(), len(given["most"])
    program.num_col_, program.num_row_ = size, len(given["low"])
    program.col_cost_, program.col_lower_, program.col_upper_ = np.zeros(size), np.zeros(size), given["most"]
    program.row_lower_, program.row_upper_ = given["low"], given["high"]
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_, matrix.index_, matrix.value_ = given["starts"], given["columns"], given["values"]
    program.integrality_ = [highspy.HighsVarType.kInteger] * size
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.passModel(program)
    if given["start"].any():
        start = highspy.HighsSolution()
        start.col_value = given["start"].tolist()
        highs.setSolution(start)
    every, aims = np.arange(size, dtype=np.int32), [*given["aims"]] or [np.zeros(size)]
    found: dict[str, Any] = {"proved": True}
    bounds: list[int] = []
    for number, aim in enumerate(aims):
        left = ends - time.monotonic()
        if number and left <= 0:
            found["proved"] = False
            break
        highs.setOptionValue("time_limit", max(0.1, left if number == len(aims) - 1 else left / 2))
        highs.changeColsCost(size, every, -aim)
        highs.run()
        status, info = highs.getModelStatus(), highs.getInfo()
        found["proved"] &= status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            break
        values = np.rint(np.array(highs.getSolution().col_value))
        found["found"] = values.astype(np.int64)
        if np.isfinite(info.mip_dual_bound) and len(bounds) == number:
            bounds.append(math.floor(1e-6 - info.mip_dual_bound))
        if number < len(aims) - 1:
            there = np.flatnonzero(aim)
            highs.addRow(float(aim @ values), highspy.kHighsInf, len(there), there.astype(np.int32), aim[there])
            highs.setSolution(highs.getSolution())
    return {**found, "bounds": np.array(bounds, np.int64)}


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
