"""How much memory calls leave behind."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

from podwright.core.objects.compaction import compact_all


def bytes_left_by(call: Callable[[], object]) -> int:
    """The bytes that Python has in use after the call and had not before. Garbage does not count."""
    started_here = not tracemalloc.is_tracing()
    if started_here:
        tracemalloc.start()
    try:
        # Each compaction replaces containers of every structure that lives, also of those that other tests have left. Only what was allocated
        # while memory is traced counts when it is freed, so all are replaced before: those of caches pass through two generations.
        for _ in range(3):
            compact_all()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        call()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        if started_here:
            tracemalloc.stop()
