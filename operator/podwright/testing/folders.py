"""The folder that a control plane works in, and the tidying of folders whose owners were killed.

An owner holds a lock on a file in its folder for as long as it lives; the kernel lets go of it at any death, so a folder without a lock
is litter unless it was kept on purpose, for its logs. A folder without that file is one whose owner was killed before it could lock it, or
one that could not be removed in one go because its programs were still dying: litter too, once nothing has come or gone in it for a while.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_PREFIX = "podwright-control-plane-"
_OWNED = "owned"
_KEPT = "kept"
_UNOWNED_SECONDS = 60.0
"""After this long without a change a folder without a lock file is nobody's."""


class WorkFolder:
    """A temporary folder with `logs/` in it, removed by `remove()`, or kept without its bulk by `keep()`."""

    def __init__(self) -> None:
        _remove_litter()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.logs = self.path / "logs"
        self.logs.mkdir()
        unlocked = self.path / "unlocked"
        self._lock = unlocked.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlocked.rename(self.path / _OWNED)  # only now others may judge by it

    def remove(self) -> None:
        self._lock.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def keep(self) -> Path:
        """Keep the logs and remove what is large; returns the folder of the logs."""
        (self.path / _KEPT).touch()
        shutil.rmtree(self.path / "etcd", ignore_errors=True)
        self._lock.close()
        return self.logs


def _remove_litter() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if not (folder / _KEPT).exists() and folder.stat().st_uid == os.getuid() and _ownerless(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _ownerless(folder: Path) -> bool:
    try:
        lock = (folder / _OWNED).open("r")
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > _UNOWNED_SECONDS
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
