"""A wall clock that tests step while the operator runs: a few lines of C that are loaded into its process (Linux, a C compiler).

clock = SteppingClock(tmp_path)
operator_kit.start(cluster, environ=clock.environ)
clock.step(-3600)
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("clock_shim.c")


class SteppingClock:
    """See the module. `ahead` is by how many seconds the process is ahead of us; what it has read it keeps."""

    def __init__(self, folder: Path) -> None:
        """Skips the test where there is no compiler; in CI that is a failure."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or sys.platform != "linux":
            give_up = pytest.fail if os.environ.get("CI", "").lower() in {"true", "1"} else pytest.skip
            give_up("no C compiler, or not Linux")
        library, shift = folder / "clock_shim.so", folder / "shift"
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, SOURCE], check=True)
        shift.write_bytes(bytes(8))
        with shift.open("r+b") as file:
            self._shift = mmap.mmap(file.fileno(), 8)
        self.environ: Mapping[str, str] = {"LD_PRELOAD": str(library), "CLOCK_SHIM": str(shift)}
        self.ahead = 0
        self.steps = 0

    def step(self, seconds: int) -> None:
        """The clock goes ahead, or back, at once."""
        self.ahead += seconds
        self.steps += 1
        self._shift[:] = struct.pack("=q", self.ahead)
