"""Whole numbers in strings, with the limits of int64: what Kubernetes compares in labels, taints and quantities."""

from __future__ import annotations

import re
from typing import Final

_DIGITS: Final = 19
_LENGTH: Final = 20
_CANONICAL: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def int64_of(text: str) -> int | None:
    """The number that Go's `strconv.ParseInt` reads; None if the text is not a whole number or does not fit into 64
    bits.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        return None
    digits = digits.lstrip("0")
    if len(digits) > _DIGITS:
        return None
    number = int(digits or "0")
    if text[0] == "-":
        number = -number
    return number if -(2**63) <= number < 2**63 else None


def decimal_of(text: str) -> int | None:
    """The same for the canonical form alone, such as `-12`, which the comparisons of tolerations require."""
    return int64_of(text) if len(text) <= _LENGTH and _CANONICAL.fullmatch(text) else None
