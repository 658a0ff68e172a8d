"""A wall clock that tests step while the operator runs. A small C library, preloaded into its process, shifts it
(Linux, C compiler).

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
    """The wall clock of processes started with `environ`. It runs `ahead` seconds ahead of the test's."""

    def __init__(self, folder: Path) -> None:
        """Compile the library. Without a compiler, skips the test, or fails it in CI."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or sys.platform != "linux":
            skip_or_fail = pytest.fail if os.environ.get("CI", "").lower() in {"true", "1"} else pytest.skip
            skip_or_fail("no C compiler, or not Linux")
        library, shift = folder / "clock_shim.so", folder / "shift"
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, SOURCE], check=True)
        shift.write_bytes(bytes(8))
        with shift.open("r+b") as file:
            self._shift = mmap.mmap(file.fileno(), 8)
        self.environ: Mapping[str, str] = {"LD_PRELOAD": str(library), "CLOCK_SHIM": str(shift)}
        self.ahead = 0
        self.steps = 0

    def step(self, seconds: int) -> None:
        """Step the clock ahead, or back if negative, at once."""
        self.ahead += seconds
        self.steps += 1
        self._shift[:] = struct.pack("=q", self.ahead)
