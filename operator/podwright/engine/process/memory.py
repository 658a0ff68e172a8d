"""Memory: settings of garbage collector and TLS buffers for large caches, and a reclaimer that returns free memory to
the system.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
from asyncio import sslproto
from collections.abc import Callable
from typing import Final

THRESHOLDS: Final = (50_000, 5, 1_000_000)
"""`gc.set_threshold`: new objects before a young collection, and young collections before an older generation is
collected. 100,000 objects take about 7 ms, so none of the first two holds up the loop for long, however many pods come.
All objects are collected only by MemoryReclaimer.
"""
TLS_BUFFER: Final = 1 << 15
"""Bytes of asyncio's buffer for each of possibly hundreds of TLS connections. The default is 256 KiB."""

FULL_COLLECTION_REST: Final = 1_000
"""A full collection pauses the loop, the longer the larger the cluster. The next one waits this many times its
duration.
"""
GROWTH: Final = 1.25
"""Under constant load, a full collection waits until memory in use is this many times what it was after the last one.
"""
_libc: Final = ctypes.CDLL(None)
malloc_trim: Final = getattr(_libc, "malloc_trim", None)
clear_lookup_caches: Final[Callable[[], None]] = getattr(
    sys, "_clear_internal_caches" if sys.version_info >= (3, 13) else "_clear_type_cache"
)
"""CPython caches up to 4,096 attribute lookups. Their names are separate strings where C code made them, as np.cumsum
does.
"""


def configure_memory() -> None:
    """Sets thresholds and buffer sizes. Call it at the start of the process."""
    gc.set_threshold(*THRESHOLDS)
    sslproto.SSLProtocol.max_size = TLS_BUFFER


def freeze_objects() -> None:
    """Excludes all current objects from garbage collection. Call it when the caches are complete.

    np.unique imports numpy.ma on its first call. In the middle of a burst, its 2,500 objects would be allocated between
    those of the pods and keep their pages in use after the pods are gone, so it is imported here.
    """
    importlib.import_module("numpy.ma")
    gc.collect()
    gc.freeze()


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library, all in bytes or counts."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
        )
    )  # fmt: skip


def memory_in_use() -> int:
    """Bytes that are allocated from the C library; 0 where it does not report them.

    With PYTHONMALLOC=malloc this counts all objects. Otherwise it counts large objects, and the arenas that hold the
    others.
    """
    mallinfo = getattr(_libc, "mallinfo2", None)
    if mallinfo is None:
        return 0
    mallinfo.restype = _MallInfo
    info = mallinfo()
    return int(info.uordblks + info.hblkhd)


class MemoryReclaimer:
    """Returns free memory to the system while the loop is idle. Neither Python nor the C library does so after a burst.

    A burst also leaves garbage in reference cycles (closed connections, for example), which keeps pages in use. Only a
    full collection finds it. The world of a policy in shadow mode that was edited is such garbage, too, and may be as
    large as all caches. So full collections also run under constant load, once memory in use has grown.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds that never step back."""
        self._clock = clock
        self._last_work = -1
        self._next_full_collection = 0.0
        self._in_use = 0
        """Bytes, after the last full collection, or at the first call."""

    def reclaim(self, work_done: int) -> None:
        """Collects young objects, which takes milliseconds, or all objects if no work was done since the last call or
        much more memory is in use.

        `work_done`: a count that rises with work.
        """
        started, in_use = self._clock(), memory_in_use()
        self._in_use = self._in_use or in_use
        idle, self._last_work = work_done == self._last_work, work_done
        if (idle or in_use > GROWTH * self._in_use) and started >= self._next_full_collection:
            clear_lookup_caches()
            gc.collect()
            self._in_use = memory_in_use()
            self._next_full_collection = started + FULL_COLLECTION_REST * (self._clock() - started)
        else:
            gc.collect(1)  # of 0 alone, what survives would pile up in 1 until a long collection
        if malloc_trim is not None:
            malloc_trim(0)
