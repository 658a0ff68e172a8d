"""Fixtures of all tests: the real control plane, the debug mode of binding cycles, and signals.

Debug mode (see podwright/engine/outcomes/binding/debug.py) is on for every test and for every operator that a test
starts.
"""

import gc
import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from podwright.engine.outcomes.binding import debug
from podwright.testing import processes
from support.control_plane.operator_process import binding_cycle_violations
from support.properties import examples

# Until all tests are collected, when they are frozen: the objects of thousands of tests would be looked at over and
# over.
gc.disable()

# On a busy machine, a short example may take seconds: no property is about the time that its examples take. In CI, each
# run has the same examples, so that what fails there is due to the change; `make fuzz` looks for others.
settings.register_profile(
    "podwright",
    max_examples=examples(100),
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("podwright")

# No test is about the time after which a wait gives up.
processes.patience = 3.0

pytest_plugins = ["support.control_plane.fixtures", "support.monitoring.prometheus"]

# The background jobs of a script ignore SIGINT, and so would the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _environment() -> Iterator[None]:
    """Switches debug mode on, also for processes that tests start, and lets programs in Go collect garbage less often:
    a third of the CPU of an API server's start goes into that.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(debug.VARIABLE, "1")
        patch.setenv("GOGC", "400")
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts files of fast tests first: what they find is known in minutes. Only a file that mostly waits comes before,
    if others run beside it. Files that share a control plane of their own come together, so that it starts late.
    """
    waiting = {item.path for item in items if hasattr(config, "workerinput") and item.get_closest_marker("waits")}
    slow = {item.path for item in items if any(item.get_closest_marker(mark) for mark in ("control_plane", "slow"))}
    sharing = {item.path for item in items if "serving_groups" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: (item.path not in waiting, item.path in slow, item.path in sharing))


def pytest_collection_finish() -> None:
    """Takes the tests themselves out of garbage collection: thousands of them make each full collection slow."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    """Commands that run in a test's process set the level of the log."""
    level = logging.root.level
    yield
    logging.root.setLevel(level)


@pytest.fixture(autouse=True)
def _no_tracebacks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Exceptions that are parameters of a test live as long as the tests, and would keep the frames that raised
    them.
    """
    yield
    callspec = getattr(request.node, "callspec", None)
    for value in () if callspec is None else callspec.params.values():
        if isinstance(value, BaseException):
            value.__traceback__ = value.__context__ = None


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.CRITICAL)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture(autouse=True)
def violations() -> Iterator[list[str]]:
    """The violations of the state machine of binding cycles, here and in operators. A test that provokes a violation
    clears the list.
    """
    handler = _Messages()
    debug.log.addHandler(handler)
    yield handler.messages
    debug.log.removeHandler(handler)
    assert handler.messages + binding_cycle_violations() == []
