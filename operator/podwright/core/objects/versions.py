"""Compares resourceVersions. Within a kind they grow: the API guarantees that since Kubernetes 1.35."""

from __future__ import annotations

from typing import Final

MAX_DIGITS: Final = 128
"""Digits of a resourceVersion. etcd's have at most 19. The API sets no limit, but Python reads no number of more than
4,300 digits.
"""


def version_number(text: str) -> int:
    """A resourceVersion as a number; 0 if it is not a number, or has more than MAX_DIGITS digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else 0
