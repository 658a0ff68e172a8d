"""Processes that tests start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from podwright.testing import Process, processes, wait_until
from support.waiting import PATIENCE_SECONDS

_THREADS = """
import hashlib, threading
def hash_all_the_time():
    while True:
        hashlib.sha256(bytes(1 << 20))
for _ in range(8):
    threading.Thread(target=hash_all_the_time).start()
print("running", flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_thread_of_a_paused_process_runs(tmp_path: Path) -> None:
    process = Process("threads", [sys.executable, "-c", _THREADS], tmp_path / "log")
    process.start()
    try:
        wait_until(lambda: "running" in process.log.read_text(), PATIENCE_SECONDS, "the threads run")
        tasks = Path(f"/proc/{process.pid}/task")
        for _ in range(30):
            process.pause()
            states = {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks.iterdir()}
            process.resume()
            assert states == {"T"}
    finally:
        process.kill()


def test_pausing_a_process_that_has_ended_does_not_wait(tmp_path: Path) -> None:
    process = Process("ended", [sys.executable, "-c", ""], tmp_path / "log")
    process.start()
    try:
        process.pause()
        process.resume()
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()


def test_a_child_keeps_compiled_modules(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for name, environ in (("ours", None), ("given", dict(os.environ))):
        log = tmp_path / name
        child = Process(name, [sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"], log, environ)
        child.start()
        wait_until(lambda child=child: not child.alive, 30, "the child has ended")
        assert log.read_text().strip() == "False"


def test_two_processes_do_not_get_the_same_free_port(monkeypatch):
    monkeypatch.setattr(processes, "_PORTS", range(20000, 20100))
    mine = [processes.free_port() for _ in range(60)]
    code = (
        "from podwright.testing import processes\n"
        "processes._PORTS = range(20000, 20100)\n"
        "print(*(processes.free_port() for _ in range(20)))"
    )
    others = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert len({*mine, *map(int, others)}) == 80


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_only_the_last_ports_are_kept_from_others():
    for _ in range(100):
        processes.free_port()
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(100):
        processes.free_port()
    assert len([*Path("/proc/self/fd").iterdir()]) == before
