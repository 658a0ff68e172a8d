"""Times as the API writes them."""

from __future__ import annotations

import datetime
import time


def rfc3339(seconds: float) -> str:
    """Whole seconds, as metav1.Time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def rfc3339_micro(seconds: float) -> str:
    """Microseconds, as metav1.MicroTime."""
    when = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond:06d}Z"
