"""Repeated log lines: the first is written, the others are counted in summaries at growing intervals."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from podwright.engine.records.log_fields import EACH_TIME, V3, ObjectRef, fields
from podwright.kube import repeated_lines as module
from podwright.kube.log_format import SafeFormatter
from podwright.kube.repeated_lines import RepeatedLines, count_repeated_lines


class Log:
    """A logger behind a RepeatedLines, on a fake clock that fires its timer."""

    def __init__(self):
        self.now = 0.0
        self.text = io.StringIO()
        target = logging.StreamHandler(self.text)
        target.setFormatter(SafeFormatter(logging.Formatter("%(levelname)s %(message)s")))
        self.handler = RepeatedLines(target, clock=lambda: self.now, timer=self._later)
        self.logger = logging.getLogger("test of repeated lines")
        self.logger.setLevel(logging.INFO)
        self.logger.propagate = False
        self.logger.handlers.clear()
        self.logger.addHandler(self.handler)
        self._due = []

    def _later(self, seconds, work):
        self._due.append((self.now + seconds, work))
        self._due.sort(key=lambda one: one[0])

    def wait(self, seconds):
        until = self.now + seconds
        while self._due and self._due[0][0] <= until:
            at, work = self._due.pop(0)
            self.now = max(self.now, at)
            work()
        self.now = until

    @property
    def waiting_timers(self):
        return len(self._due)

    @property
    def lines(self):
        return self.text.getvalue().splitlines()


def test_lines_that_tell_an_order_of_events_are_all_written_in_that_order():
    log = Log()
    for leader in ("a", "stranger", "a"):
        log.logger.info("new leader elected: %s", leader, extra=EACH_TIME)
    log.wait(1000.0)
    assert log.lines == [f"INFO new leader elected: {leader}" for leader in ("a", "stranger", "a")]


def test_a_line_that_repeats_is_written_once_and_then_counted_at_growing_intervals():
    log = Log()
    for _ in range(200):
        log.logger.warning("refused: %s", "401 %s")
        log.wait(1.0)
    assert log.lines == [
        "WARNING refused: 401 %s",
        "WARNING refused: 401 %s (9 times more in 10 s)",
        "WARNING refused: 401 %s (20 times more in 20 s)",
        "WARNING refused: 401 %s (40 times more in 40 s)",
        "WARNING refused: 401 %s (80 times more in 80 s)",
    ]


def test_different_lines_are_all_written():
    log = Log()
    for number in range(3):
        log.logger.warning("pod %d", number)
    log.logger.error("pod 0")
    assert log.lines == ["WARNING pod 0", "WARNING pod 1", "WARNING pod 2", "ERROR pod 0"]
    assert log.waiting_timers == 0


def test_equal_texts_with_different_fields_are_different_lines_and_summaries_have_the_fields():
    log = Log()
    for name in ("a", "b", "b"):
        log.logger.warning("cannot preempt a pod", extra=fields(pod=ObjectRef(name, "ns")))
    log.wait(module.FIRST_SECONDS)
    assert log.lines == [
        'WARNING cannot preempt a pod pod="ns/a"',
        'WARNING cannot preempt a pod pod="ns/b"',
        'WARNING cannot preempt a pod (once more in 10 s) pod="ns/b"',
    ]


def test_lines_of_a_higher_verbosity_are_all_written():
    log = Log()
    log.logger.setLevel(1)
    for _ in range(3):
        log.logger.log(V3, "again")
    assert log.lines == ["Level 17 again"] * 3
    assert log.waiting_timers == 0


def test_a_line_that_comes_seldom_is_written_each_time():
    log = Log()
    for _ in range(3):
        log.logger.info("relisting")
        log.wait(module.FIRST_SECONDS)
    assert log.lines == ["INFO relisting"] * 3


def test_the_count_is_written_when_the_line_no_longer_comes_and_then_the_line_is_new():
    log = Log()
    for _ in range(2):
        log.logger.info("lost")
    log.wait(100)
    assert log.waiting_timers == 0
    log.logger.info("lost")
    assert log.lines == ["INFO lost", "INFO lost (once more in 10 s)", "INFO lost"]


def test_a_new_line_does_not_wait_for_the_long_interval_of_another():
    log = Log()
    for _ in range(400):
        log.logger.info("old")
        log.wait(1)
    for _ in range(2):
        log.logger.info("new")
    log.wait(2 * module.FIRST_SECONDS)
    assert "INFO new (once more in 1" in log.lines[-1]


def test_equal_texts_with_different_exceptions_are_different_lines():
    log = Log()
    for problem in ("one", "two", "two"):
        try:
            raise ValueError(problem)
        except ValueError:
            log.logger.exception("it failed")
    assert [line.strip() for line in log.lines if "ValueError: " in line] == ["ValueError: one", "ValueError: two"]


def test_counts_that_are_left_are_written_at_the_end():
    log = Log()
    for _ in range(3):
        log.logger.info("stopping")
    log.handler.close()
    assert log.lines == ["INFO stopping", "INFO stopping (2 times more in 0 s)"]


def test_memory_is_bounded_and_a_replaced_line_is_not_lost():
    log = Log()
    for _ in range(2):
        log.logger.info("first")
    for number in range(3 * module.REMEMBERED):
        log.logger.info("line %d", number)
    log.logger.info("x" * 10 * module.TEXT_LIMIT)
    log.logger.info("x" * 10 * module.TEXT_LIMIT)
    log.wait(module.FIRST_SECONDS)
    assert log.lines.count("INFO first (once more in 0 s)") == 1
    assert len(log.lines[-1]) < 2 * module.TEXT_LIMIT
    log.logger.info("line 0")
    assert log.lines[-1] == "INFO line 0", "it was forgotten"


def test_a_malformed_call_is_reported_as_without_the_handler(monkeypatch, capsys):
    monkeypatch.setattr(logging, "raiseExceptions", True)
    Log().logger.info("%d", "text")
    assert "Logging error" in capsys.readouterr().err


@pytest.fixture
def _root_handlers():
    root = logging.getLogger()
    handlers = list(root.handlers)
    yield
    root.handlers[:] = handlers


@pytest.mark.usefixtures("_root_handlers")
def test_it_stands_before_each_handler_that_writes_to_standard_error_once():
    root = logging.getLogger()
    others = list(root.handlers)
    ours = logging.StreamHandler(sys.stderr)
    root.addHandler(ours)
    for _ in range(2):
        count_repeated_lines()
    (added,) = (handler for handler in root.handlers if handler not in others)
    assert isinstance(added, RepeatedLines)
    assert added.target is ours
