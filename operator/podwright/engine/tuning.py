"""Memory: a garbage collector that does not walk large caches over and over, small buffers, and giving back what is free."""

from __future__ import annotations

import ctypes
import gc
from asyncio import sslproto
from typing import Final

THRESHOLDS: Final = (100_000, 50, 1_000)
"""Objects made before the young generation is looked at, and how many such looks before an older one is."""
TLS_BUFFER: Final = 1 << 15
"""Bytes of the buffer that asyncio gives each TLS connection, of which there may be hundreds; its own choice is 256 KiB."""


def tame() -> None:
    """At the start of the process."""
    gc.set_threshold(*THRESHOLDS)
    sslproto.SSLProtocol.max_size = TLS_BUFFER


def settle() -> None:
    """Once the caches are complete: what is there now is never looked at again."""
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Frees young garbage, and lets the C library return what is free to the system, which it does not do by itself after a burst.

    Some milliseconds: THRESHOLDS keeps the young generation small enough.
    """
    gc.collect(0)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
