"""How much memory calls leave behind."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable


def bytes_left_by(call: Callable[[], object]) -> int:
    """The bytes that Python has in use after the call and had not before. Garbage does not count."""
    started_here = not tracemalloc.is_tracing()
    if started_here:
        tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        call()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        if started_here:
            tracemalloc.stop()
