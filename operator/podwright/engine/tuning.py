"""The garbage collector, tamed: caches are large and live long, and walking them over and over would stop the world."""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (100_000, 50, 1_000)
"""Objects made before the young generation is looked at, and how many such looks before an older one is."""


def tame() -> None:
    """At the start of the process."""
    gc.set_threshold(*THRESHOLDS)


def settle() -> None:
    """Once the caches are complete: what is there now is never looked at again."""
    gc.collect()
    gc.freeze()
