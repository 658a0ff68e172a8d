"""Counts the calls of Python and C functions that an action makes. Unlike times, they do not depend on the machine or
its load.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


def calls_of(action: Callable[[], object]) -> int:
    """How many functions were called while `action` ran. The garbage collector is off: its callbacks would count, too."""
    seen, collecting = 0, gc.isenabled()

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return seen
