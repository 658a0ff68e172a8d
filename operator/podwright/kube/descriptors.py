"""The limit of open files: raised as far as the process may, and read by the parts that share out the files."""

from __future__ import annotations

import logging
import resource
from typing import Final

log = logging.getLogger(__name__)

MOST: Final = 1 << 16
"""More is not needed, and some programs that credentials may need close all possible files one by one when they start.
"""


def raise_descriptor_limit() -> None:
    """Raises the soft limit, up to the hard one. Go programs do so too; the soft limit is meant for programs that use
    select().
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        log.info("the limit of open files stays at %d: %s", soft, error)


def descriptor_limit() -> int:
    """How many files may be open at once."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
