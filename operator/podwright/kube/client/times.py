"""Times in the formats of the API."""

from __future__ import annotations

import time


def rfc3339(seconds: float) -> str:
    """Whole seconds, as metav1.Time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def rfc3339_micro(seconds: float) -> str:
    """Microseconds, as metav1.MicroTime."""
    whole, micros = divmod(round(seconds * 1e6), 1_000_000)
    return f"{rfc3339(whole)[:-1]}.{micros:06d}Z"
