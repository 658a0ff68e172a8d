"""Tests can interrupt the processes that they start, also if the tests run in the background of a script."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SLEEP = "import time; print(flush=True); time.sleep(60)"


def test_a_child_can_be_interrupted():
    with subprocess.Popen([sys.executable, "-c", SLEEP], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        try:
            child.stdout.readline()
            child.send_signal(signal.SIGINT)
            assert child.wait(30) == -signal.SIGINT
        finally:
            child.kill()


def test_a_child_can_be_interrupted_if_the_tests_were_started_with_interrupts_ignored():
    inner = f"{__file__}::{test_a_child_can_be_interrupted.__name__}"
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", inner]
    done = subprocess.run(
        ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *pytest], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
