"""The working folder of a control plane, and the removal of folders whose owners were killed.

An owner locks a file in its folder while it lives. The kernel releases the lock when the process ends, so an unlocked
folder is stale, unless it was kept for its logs. A folder without that file belongs to an owner that was killed before
it took the lock, or its removal was incomplete because programs were still running. It is stale if it is unchanged for
a while.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_PREFIX = "podwright-control-plane-"
_LOCK_FILE = "owned"
_KEPT_FILE = "kept"
_UNLOCKED_SECONDS = 60.0
"""A folder without a lock file is stale after this time without a change."""


class WorkFolder:
    """A temporary folder with a subfolder `logs`. `remove()` deletes it; `keep()` keeps only the small files."""

    def __init__(self) -> None:
        _remove_stale_folders()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.logs = self.path / "logs"
        self.logs.mkdir()
        unlocked = self.path / "unlocked"
        self._lock = unlocked.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlocked.rename(self.path / _LOCK_FILE)  # other processes must not see it unlocked

    def remove(self) -> None:
        """Deletes the folder, as far as the programs that ran in it have ended."""
        self._lock.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def keep(self) -> Path:
        """Deletes etcd's data but keeps the logs, and returns their folder."""
        (self.path / _KEPT_FILE).touch()
        shutil.rmtree(self.path / "etcd", ignore_errors=True)
        self._lock.close()
        return self.logs


def _remove_stale_folders() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if not (folder / _KEPT_FILE).exists() and folder.stat().st_uid == os.getuid() and _is_stale(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_stale(folder: Path) -> bool:
    try:
        lock = (folder / _LOCK_FILE).open("r")
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > _UNLOCKED_SECONDS
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
