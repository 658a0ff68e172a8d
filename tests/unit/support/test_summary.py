from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import summary

CONFTEST = """
import pytest
from support import summary

def pytest_terminal_summary(terminalreporter):
    for name, number in summary.collected(terminalreporter, "figures"):
        terminalreporter.write_line(f"{name} measured {number}")

@pytest.fixture
def figures(request):
    yield
    summary.add(request.node, "figures", (request.node.name, 42))
    summary.add(request.node, "other", "unasked")
"""
TESTS = """
def test_a(figures):
    pass

def test_b(figures):
    assert False
"""


@pytest.mark.parametrize("processes", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_what_tests_add_is_there_at_the_end_from_every_process_and_of_failed_tests_too(tmp_path, processes):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {Path(summary.__file__).parents[1]}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses", processes, "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if "measured" in line or "unasked" in line)
    assert lines == ["test_a measured 42", "test_b measured 42"]
