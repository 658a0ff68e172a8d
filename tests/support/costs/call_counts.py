"""Counts the calls of Python and C functions that an action makes. Unlike times, they do not depend on the machine or
its load.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def profiled(profile: Callable[[FrameType, str, object], None]) -> Iterator[None]:
    """Within the block, calls `profile` as `sys.setprofile` says. The garbage collector is off: its callbacks would
    count, too, such as Hypothesis's.
    """
    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()


def calls_of(action: Callable[[], object], events: tuple[str, ...] = ("call", "c_call")) -> int:
    """How many functions were called while `action` ran: those of Python (`call`) and of C (`c_call`)."""
    seen = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal seen
        seen += event in events

    with profiled(profile):
        action()
    return seen
