"""The program that solves: reads arrays from standard input, and writes solutions to standard output.

Before each aim it writes what it has found so far, with the length before it, so that this counts if the process must
be ended during the aim: HiGHS may overrun its time in a large program. Runs as a process of its own, and imports
nothing of Podwright. See `solving`.
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
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

_PR_SET_PDEATHSIG: Final = 1


def answers(given: Mapping[str, Any], ends: float) -> Iterator[dict[str, Any]]:
    """Yields the fields of an Answer to those of a Program before and after each aim, no later than `ends`
    (`time.monotonic()`). The last answer counts.
    """
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
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.passModel(program)
    if len(known := np.flatnonzero(~np.isnan(given["start"]))):
        highs.setSolution(len(known), known.astype(np.int32), given["start"][known])
    every, aims = np.arange(size, dtype=np.int32), [*given["aims"]] or [np.zeros(size)]
    any_will_do = not len(given["aims"])  # which is mostly found sooner in the program as it is than in a reduced one
    ends_of_search = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    proved, values, bounds = True, None, list[int]()
    for number, aim in enumerate(aims):
        left = ends - time.monotonic()
        if number and left <= 0:
            proved = False
            break
        yield _fields(values, bounds, proved=False)
        highs.changeColsCost(size, every, -aim)
        if any_will_do:
            highs.setOptionValue("presolve", "off")
            highs.setOptionValue("time_limit", max(0.1, left * 3 / 4))
            highs.run()
            highs.setOptionValue("presolve", "choose")
            left = ends - time.monotonic()
        if not any_will_do or highs.getModelStatus() not in ends_of_search:
            highs.setOptionValue("time_limit", max(0.1, left if number == len(aims) - 1 else left / 2))
            highs.run()
        status, info = highs.getModelStatus(), highs.getInfo()
        proved &= status in ends_of_search
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            if values is None and status not in (*ends_of_search, highspy.HighsModelStatus.kTimeLimit):
                sys.exit(highs.modelStatusToString(status))
            break
        values = np.rint(np.array(highs.getSolution().col_value))
        if np.isfinite(info.mip_dual_bound) and len(bounds) == number:
            bounds.append(math.floor(1e-6 - info.mip_dual_bound))
        if number < len(aims) - 1:
            there = np.flatnonzero(aim)
            highs.addRow(float(aim @ values), highspy.kHighsInf, len(there), there.astype(np.int32), aim[there])
            highs.setSolution(highs.getSolution())
    yield _fields(values, bounds, proved=proved)


def _fields(values: Any, bounds: list[int], *, proved: bool) -> dict[str, Any]:
    found = {} if values is None else {"found": values.astype(np.int64)}
    return {**found, "proved": proved, "bounds": np.array(bounds, np.int64)}


def main(ends: float, max_bytes: int) -> None:
    """`ends`: on a busy machine, what the start of this process takes counts, too."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # a library may print
        given = np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False)
        for each in answers(given, ends):
            written = io.BytesIO()
            np.savez(written, **each)
            output.write(len(written.getvalue()).to_bytes(8) + written.getvalue())
            output.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
