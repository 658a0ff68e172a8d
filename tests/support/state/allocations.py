"""How much memory calls leave behind."""

from __future__ import annotations

import gc
import sys
import tracemalloc
import warnings
from collections.abc import Callable

from podwright.core.objects.compaction import compact_all


def bytes_left_by(call: Callable[[], object]) -> int:
    """The bytes that Python has in use after the call and had not before. Garbage does not count."""
    started_here = not tracemalloc.is_tracing()
    if started_here:
        tracemalloc.start()
    try:
        # Each compaction replaces containers of every structure that lives, also of those that other tests have left.
        # Only what was allocated while memory is traced counts when it is freed, so all are replaced before: those of
        # caches pass through two generations.
        for _ in range(3):
            compact_all()
        _free_unused()
        before = tracemalloc.get_traced_memory()[0]
        call()
        _free_unused()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        if started_here:
            tracemalloc.stop()


def _free_unused() -> None:
    """Frees garbage, and the names of attributes that CPython keeps in its cache of the attributes of types.

    The cache has 4096 entries, and the place of an entry depends on the address of the name. C code that makes the name
    again for each call, as NumPy does for some methods, so leaves from none to all of them filled.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # what other tests left open is not what this call leaves
        gc.collect()
    if sys.version_info >= (3, 13):
        sys._clear_internal_caches()  # noqa: SLF001 -- documented
    else:
        sys._clear_type_cache()  # noqa: SLF001 -- documented
