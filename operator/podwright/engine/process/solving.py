"""Solving: integer programs, by HiGHS in a spawned process with limits of time and memory.

A native solver may not run in a fork, because its threads and locks are not there, and not in this process, because
nothing could end it. The process is `solver`; it ends with its parent, or is killed.
"""

from __future__ import annotations

import importlib.util
import io
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np

from podwright.core.framework.program import Answer, Program, grace
from podwright.core.objects.errors import described

MISSING: Final = "the package highspy is not installed"
LEAST_SHARE: Final = 0.5
"""The least share of a core: with less, a process that ran out of time is called starved."""
LENGTH: Final = 8
"""Bytes of the length before an answer."""
MAX_BYTES: Final = 2 << 30
"""The bound of the address space. NumPy and HiGHS take 0.4 GB of it before they start."""
_PROGRAM: Final = Path(__file__).with_name("solver.py")


def solve(program: Program, seconds: float, *, command: tuple[str, ...] = (), max_bytes: int = MAX_BYTES) -> Answer:
    """See `program.Solver`. `command`: runs the solver; by default this Python."""
    if not command and importlib.util.find_spec("highspy") is None:
        return Answer(problem=MISSING)
    started, cpu = time.monotonic(), cpu_of_children()
    sent = io.BytesIO()
    arrays: dict[str, Any] = {name: getattr(program, name) for name in Program.__dataclass_fields__}
    np.savez(sent, **arrays)
    command = command or (sys.executable, "-P", str(_PROGRAM))
    try:
        ended = subprocess.run(  # noqa: S603 -- our own program
            (*command, str(started + seconds), str(max_bytes)),
            input=sent.getvalue(),
            capture_output=True,
            timeout=seconds + grace(seconds),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        found = _read(error.output or b"", time.monotonic() - started)
        if found.problem:
            problem = f"the solver had not begun after {seconds + grace(seconds):.3g} s and was ended"
            found = Answer(problem=problem, seconds=found.seconds)
    except OSError as error:
        return Answer(problem=f"the solver could not be started: {error.strerror}")
    else:
        took = time.monotonic() - started
        found = _read(ended.stdout, took)
        if ended.returncode and found.found is None:
            last = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            return Answer(problem=f"the solver ended with {ended.returncode}{last and f': {last[:200]}'}", seconds=took)
    worked = cpu_of_children() - cpu
    return replace(found, starved=found.seconds >= seconds and worked < LEAST_SHARE * found.seconds)


def cpu_of_children() -> float:
    """Seconds that processes took which this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _read(output: bytes, took: float) -> Answer:
    """The last answer that was written as a whole, each with its length before it."""
    last = output
    while len(output) > LENGTH and len(output) >= (end := LENGTH + int.from_bytes(output[:LENGTH])):
        last, output = output[LENGTH:end], output[end:]
    try:
        with np.load(io.BytesIO(last), allow_pickle=False) as answer:
            bounds = answer["bounds"].tolist()
            return Answer(answer.get("found"), proved=bool(answer["proved"]), seconds=took, bounds=bounds)
    except (OSError, EOFError, KeyError, ValueError, BadZipFile) as error:
        return Answer(problem=f"the solver's answer cannot be read: {described(error)}", seconds=took)
