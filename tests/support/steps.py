"""Runs long work in steps, and lets a test do something in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from podwright.engine.process.steps import Steps

T = TypeVar("T")


def run_steps(steps: Steps[T], between: Callable[[], object] = lambda: None) -> tuple[T, int]:
    """Returns the result of the steps, and their number. Calls `between` after each."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            return finished.value, count
        count += 1
        between()
