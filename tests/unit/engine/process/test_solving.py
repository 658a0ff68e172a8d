"""A solver runs in a process of its own. Whatever becomes of that, there is an answer."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from podwright.core.framework.program import Program, Rows, grace, with_grace
from podwright.engine.process import solving
from podwright.engine.process.solver import answers
from podwright.engine.process.solving import MISSING, solve


def program(low: float = 3):
    """Two variables up to 2, of which at least so much in all, and as much as possible of the second."""
    rows = Rows()
    both = rows.variables([2, 2])
    rows.at_least(both, low)
    rows.at_most(both, 3)
    rows.prefer(both[1:])
    return rows.program()


def run(text: str, seconds: float = 0.8):
    return solve(program(), seconds, command=(sys.executable, "-c", text))


class TestHighs:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("highspy")

    def test_a_solution(self):
        found = solve(program(), 20)
        assert found.problem == ""
        assert found.proved
        assert found.found.tolist() == [1, 2]
        assert found.bounds == [2]
        assert found.seconds > 0

    def test_the_first_aim_comes_first(self):
        rows = Rows()
        first, second, third = rows.variables([5, 5, 5])
        rows.at_most(np.array([first, second, third]), 6, np.array([2, 1, 3]))
        rows.prefer(np.array([first]))
        rows.prefer(np.array([second, third]))
        found = solve(rows.program(), 20)
        assert found.found.tolist() == [3, 0, 0]
        assert found.bounds == [3, 0]

    def two_aims(self):
        rows = Rows()
        both = rows.variables([2, 2])
        rows.at_most(both, 3)
        rows.prefer(both[:1])
        rows.prefer(both[1:])
        return {name: getattr(rows.program(), name) for name in Program.__dataclass_fields__}

    def test_no_further_aim_is_begun_after_the_time(self):
        *_, found = answers(self.two_aims(), time.monotonic())
        assert (len(found["bounds"]), found["proved"]) == (1, False)

    def test_a_bound_of_a_later_aim_is_not_taken_for_that_of_an_earlier_one(self, monkeypatch):
        has_bound = iter([False, True])
        monkeypatch.setattr(np, "isfinite", lambda _bound: next(has_bound))
        *_, found = answers(self.two_aims(), time.monotonic() + 20)
        assert found["bounds"].tolist() == []

    def test_after_each_aim_there_is_an_answer(self):
        _begun, first, last = answers(self.two_aims(), time.monotonic() + 20)
        assert (first["bounds"].tolist(), first["proved"]) == ([2], False)
        assert (last["bounds"].tolist(), last["proved"], last["found"].tolist()) == ([2, 1], True, [2, 1])

    @pytest.mark.parametrize(
        ("aims", "undecided", "runs"),
        [(0, 0, ["off"]), (0, 1, ["off", "choose"]), (1, 0, ["choose"])],
        ids=["any solution will do", "none is found at once", "the best is wanted"],
    )
    def test_where_any_solution_will_do_it_is_first_looked_for_in_the_program_as_it_is(
        self, monkeypatch, aims, undecided, runs
    ):
        highspy, begun = importlib.import_module("highspy"), []

        class Recording(highspy.Highs):
            def run(self):
                begun.append(self.getOptionValue("presolve")[1])
                return super().run()

            def getModelStatus(self):  # noqa: N802 -- it is HiGHS's
                in_time = len(begun) > undecided
                return super().getModelStatus() if in_time else highspy.HighsModelStatus.kTimeLimit

        monkeypatch.setattr(highspy, "Highs", Recording)
        given = {**self.two_aims()}
        given["aims"] = given["aims"][:aims]
        *_, found = answers(given, time.monotonic() + 20)
        assert (begun, found["proved"]) == (runs, True)

    def test_before_the_first_aim_it_says_that_it_has_found_nothing_yet(self):
        begun, *_ = answers(self.two_aims(), time.monotonic() + 20)
        assert (begun["bounds"].tolist(), begun["proved"], "found" in begun) == ([], False, False)

    def test_a_bound_other_than_time_is_the_problem(self, monkeypatch):
        highspy = importlib.import_module("highspy")
        monkeypatch.setattr(highspy.Highs, "run", lambda _highs: None)
        monkeypatch.setattr(highspy.Highs, "getModelStatus", lambda _highs: highspy.HighsModelStatus.kMemoryLimit)
        with pytest.raises(SystemExit, match="Memory limit reached"):
            [*answers(self.two_aims(), time.monotonic() + 20)]

    def test_a_proof_that_there_is_none(self):
        found = solve(program(low=4), 20)
        assert (found.problem, found.proved, found.found) == ("", True, None)

    def test_it_is_not_imported_here(self):
        text = "import sys; from podwright.kube import parts; sys.exit('highspy' in sys.modules)"
        assert subprocess.run((sys.executable, "-c", text), check=False).returncode == 0

    def test_a_solver_that_needs_too_much_memory_ends(self):
        assert "the solver ended with" in solve(program(), 20, max_bytes=100 << 20).problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import sys; print('boo', file=sys.stderr); sys.exit(3)", "the solver ended with 3: boo"),
        ("import os; os.kill(os.getpid(), 9)", "the solver ended with -9"),
        ("print('no arrays')", "the solver's answer cannot be read: "),
        ("", "the solver's answer cannot be read: "),
        ("x = [0] * 50_000_000_000", "the solver ended with 1: MemoryError"),
    ],
    ids=["it fails", "it is killed", "it writes nonsense", "it writes nothing", "it wants more memory than there is"],
)
def test_what_becomes_of_the_process_is_the_problem(text, problem):
    assert run(text).problem.startswith(problem)


def test_the_start_of_the_process_takes_of_its_time():
    text = "import sys, time; sys.exit(f'{float(sys.argv[1]) - 0.8 < time.monotonic() < float(sys.argv[1])}')"
    assert run(text).problem == "the solver ended with 1: True"


@pytest.mark.parametrize(("seconds", "ended"), [(1.0, 0.8), (5.0, 4.0), (10.0, 9.0)])
def test_what_a_solver_overruns_is_bounded(seconds, ended):
    assert with_grace(seconds) == ended
    assert ended + grace(ended) == seconds


def test_a_process_that_hangs_is_ended(tmp_path: Path):
    written = tmp_path / "pid"
    text = f"import os, time; open({str(written)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    assert run(text).problem == "the solver had not begun after 1 s and was ended"
    if written.exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int(written.read_text()), 0)


@pytest.mark.parametrize(
    ("cpu", "starved"), [(0.0, True), (5.0, False)], ids=["others had the CPU", "it worked for most of the time"]
)
def test_a_process_that_runs_out_of_time_without_cpu_was_starved(monkeypatch, cpu, starved):
    before_and_after = iter((10.0, 10.0 + cpu))
    monkeypatch.setattr(solving, "cpu_of_children", lambda: next(before_and_after))
    assert run("import time; time.sleep(600)").starved is starved


def test_the_cpu_of_a_process_that_was_ended_counts():
    before = solving.cpu_of_children()
    run("x = 0\nwhile True: x += 1")
    assert solving.cpu_of_children() > before


TWO = "dict(found=np.array([1]), bounds=np.array([8])), dict(found=np.array([2]), bounds=np.array([7]))"


@pytest.mark.parametrize(
    ("written", "end", "found", "bounds"),
    [
        pytest.param(TWO, "time.sleep(600)", [2], [7], id="solutions of two aims, and it hangs"),
        pytest.param(TWO, "sys.exit('out of memory')", [2], [7], id="solutions of two aims, and it dies"),
        pytest.param("dict(bounds=np.array([])),", "time.sleep(600)", None, [], id="it has begun: it is out of time"),
    ],
)
def test_what_a_process_has_written_before_it_ends_counts(written, end, found, bounds):
    text = (
        "import io, sys, time, numpy as np\n"
        f"for fields in {written}:\n"
        "    file = io.BytesIO()\n"
        "    np.savez(file, proved=False, **fields)\n"
        "    sys.stdout.buffer.write(len(file.getvalue()).to_bytes(8) + file.getvalue())\n"
        "sys.stdout.buffer.write(b'half of')\n"
        "sys.stdout.buffer.flush()\n"
        f"{end}"
    )
    answer = run(text, 4.0)
    assert (answer.problem, answer.found if found is None else answer.found.tolist()) == ("", found)
    assert (answer.proved, answer.bounds) == (False, bounds)
    assert (answer.seconds >= 5) is end.startswith("time")


def test_a_solver_that_cannot_be_started():
    assert solve(program(), 1, command=("/no/such/program",)).problem == (
        "the solver could not be started: No such file or directory"
    )


def test_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    found = solve(program(), 5)
    assert (found.problem, found.found) == (MISSING, None)
