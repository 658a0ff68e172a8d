"""Memory: a garbage collector that does not walk large caches over and over, small buffers, and giving back what is free."""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
from asyncio import sslproto
from collections.abc import Callable
from typing import Final

THRESHOLDS: Final = (100_000, 50, 1_000)
"""Objects made before the young generation is looked at, and how many such looks before an older one is."""
TLS_BUFFER: Final = 1 << 15
"""Bytes of the buffer that asyncio gives each TLS connection, of which there may be hundreds; its own choice is 256 KiB."""

REST: Final = 1_000
"""A look at all objects takes a pause that grows with the cluster: so many times as long there is no other."""
_libc: Final = ctypes.CDLL(None)
_trim: Final = getattr(_libc, "malloc_trim", None)
_forget_lookups: Final[Callable[[], None]] = getattr(
    sys, "_clear_internal_caches" if sys.version_info >= (3, 13) else "_clear_type_cache"
)
"""CPython's cache of attribute lookups keeps up to 4,096 names, each a string of its own where C code looked it up: np.cumsum does."""


def tame() -> None:
    """At the start of the process."""
    gc.set_threshold(*THRESHOLDS)
    sslproto.SSLProtocol.max_size = TLS_BUFFER


def settle() -> None:
    """Once the caches are complete: what is there now is never looked at again.

    np.unique brings numpy.ma when it is first called. In the middle of a burst its 2,500 objects would lie between those of the
    pods, and keep the pages there when the pods have gone.
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
    """Bytes that the C library has given out and not got back; 0 where it cannot tell.

    With PYTHONMALLOC=malloc these are those of all objects, else those of large ones, and whole arenas of the others.
    """
    ask = getattr(_libc, "mallinfo2", None)
    if ask is None:
        return 0
    ask.restype = _MallInfo
    told = ask()
    return int(told.uordblks + told.hblkhd)


class MemoryReclaimer:
    """Gives memory back to the system when nothing is to do, which neither Python nor the C library does by itself after a burst.

    A burst leaves garbage in cycles behind (connections that were closed, say) that keeps pages of others there, and only a look
    at all objects finds it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: steady seconds."""
        self._clock = clock
        self._work_seen = -1
        self._not_before = 0.0

    def give_back(self, work_done: int) -> None:
        """Looks at young objects, which takes some milliseconds, and at all of them if no work was done since the last time.

        `work_done`: a count that rises with work.
        """
        began = self._clock()
        quiet, self._work_seen = work_done == self._work_seen, work_done
        if quiet and began >= self._not_before:
            _forget_lookups()
            gc.collect()
            self._not_before = began + REST * (self._clock() - began)
        else:
            gc.collect(0)
        if _trim is not None:
            _trim(0)
