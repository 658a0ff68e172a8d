"""Files that options name are read up to a bound, and without waiting: a path may be that of a device or a pipe without
an end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

LONGEST_FILE: Final = 1 << 20
"""Bytes that a certificate, a key or a token may have."""


def read_at_most(path: Path, longest: int = LONGEST_FILE, *, pipes: bool = False) -> bytes:
    """The content of a regular file, or of one that a symbolic link leads to. Raises OSError, also for a file that is
    longer than `longest` bytes.

    `pipes`: files of any other kind may be read as well, however long that takes. For commands, whose users wait for
    them.
    """
    with open(path, "rb", opener=None if pipes else _open_at_once) as file:
        if not pipes and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        content = file.read(longest + 1)
    if len(content) > longest:
        raise OSError(errno.EFBIG, f"the file is larger than {longest} bytes", str(path))
    return content


def _open_at_once(path: str, flags: int) -> int:
    """Does not wait until somebody writes into a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)
