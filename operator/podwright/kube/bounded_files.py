"""Files that options name are read up to a bound: a path may be that of a device or a pipe without an end."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

LONGEST_FILE: Final = 1 << 20
"""Bytes that a certificate, a key or a token may have."""


def read_at_most(path: Path, longest: int = LONGEST_FILE) -> bytes:
    """The file's content. Raises OSError, also for a file that is longer than `longest` bytes."""
    with path.open("rb") as file:
        content = file.read(longest + 1)
    if len(content) > longest:
        raise OSError(errno.EFBIG, f"the file is larger than {longest} bytes", str(path))
    return content
