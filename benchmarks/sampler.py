"""Runs Podwright and samples its stacks from inside the process, for machines where py-spy may not attach.

`python -m benchmarks.sampler FILE run …` does the same as `podwright run …`, and appends a line `outermost;…;innermost
1` to FILE for each 4 ms of CPU time. Lines are written without buffers: the process may be killed, and a signal may
interrupt a buffered write.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from podwright.cli.main import main

_INTERVAL_S = 0.004


def start(target: Path) -> None:
    """Sample the main thread into a file from now on."""
    file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def sample(_signal: int, frame: FrameType | None) -> None:
        frames = []
        while frame is not None:
            code = frame.f_code
            frames.append(f"{code.co_name} ({_short(code.co_filename)}:{code.co_firstlineno})")
            frame = frame.f_back
        os.write(file, f"{';'.join(reversed(frames))} 1\n".encode())

    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL_S, _INTERVAL_S)


def _short(path: str) -> str:
    """A file's path relative to the folder that its package is imported from."""
    parts = Path(path).parts
    for folder in ("site-packages", "operator"):
        if folder in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(folder) :])
    return "/".join(parts[-2:])


if __name__ == "__main__":
    start(Path(sys.argv.pop(1)))
    main()
