"""Reads plugin directories, and notices when the files of installed plugins change.

A directory is read as a whole, and twice: only content that two readings in a row agree on is loaded. So no half of a
change is loaded, whether files are written one after the other or the kubelet swaps the link to all files of a
ConfigMap. Files of installed packages are loaded once, when the operator starts. A later change of these files has no
effect until the operator restarts, so each difference is logged, once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Final

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0
MAX_FILES: Final = 500
"""The most files in all plugin directories together."""
MAX_BYTES: Final = 1 << 20
"""The largest file, as for a ConfigMap."""
MAX_TOTAL_BYTES: Final = 32 << 20
"""The most bytes of all files together."""
READINGS: Final = 10
"""How often directories are read at the start until two readings agree."""
PAUSE_SECONDS: Final = 0.05
_RECENT_SECONDS: Final = 2.0
"""A file that has changed within this time may change again without a new stamp."""
_OWN: Final = "podwright."
_Stamp = tuple[int, int, int, int]
"""Changes whenever the file changes, unless the file changes twice within the precision of the file system's clock.
Cheap to read.
"""

Texts = Mapping[Path, bytes]
"""The contents of plugin files."""


class PluginFilesError(Exception):
    """Plugin directories that cannot be read. Each of `problems` names a path."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def plugin_paths(directory: Path) -> Sequence[Path]:
    """The files of a plugin directory that are loaded."""
    return [path for path in sorted(directory.glob("*.py")) if not path.name.startswith(("_", "."))]


class PluginDirectories:
    """See the module. `wall`: the time by the clock of the file system, in seconds since the epoch."""

    def __init__(self, directories: Iterable[Path], wall: Callable[[], float] = time.time) -> None:
        self._directories = tuple(dict.fromkeys(directories))
        self._wall = wall
        self._known: dict[Path, tuple[_Stamp, bytes]] = {}
        """The content of each file, and the stamp that it had then."""

    @property
    def empty(self) -> bool:
        """True if there is no directory."""
        return not self._directories

    def read(self) -> Texts:
        """The current contents of the files, which may be changing. Raises PluginFilesError."""
        problems = [f"plugin directory {each}: is not a directory" for each in self._directories if not each.is_dir()]
        paths = [path for directory in self._directories for path in plugin_paths(directory)]
        if len(paths) > MAX_FILES:
            problems.append(f"{len(paths)} plugin files are too many: at most {MAX_FILES} are loaded")
        found: dict[Path, bytes] = {}
        for path in paths[:MAX_FILES]:
            try:
                found[path] = self._text(path)
            except FileNotFoundError:  # deleted meanwhile, or a link to nothing
                if path.is_symlink():
                    problems.append(f"file {path}: is a link to a file that does not exist")
            except OSError as error:
                problems.append(f"file {path}: cannot be read: {error.strerror or error}")
            except PluginFilesError as error:
                problems += error.problems
        if sum(map(len, found.values())) > MAX_TOTAL_BYTES:
            problems.append(f"the plugin files are larger than {MAX_TOTAL_BYTES >> 20} MiB together")
        for path in self._known.keys() - found.keys():
            del self._known[path]
        if problems:
            raise PluginFilesError(problems)
        return found

    def settled(self, pause: Callable[[float], None] = time.sleep) -> Texts:
        """The contents on which two readings in a row agree, or the last reading if no two of READINGS agree. Raises
        PluginFilesError.
        """
        texts = self.read()
        for _ in range(READINGS):
            before = texts
            pause(PAUSE_SECONDS if texts else 0.0)
            texts = self.read()
            if texts == before:
                break
        return texts

    def _text(self, path: Path) -> bytes:
        before = path.stat()
        if not S_ISREG(before.st_mode) and not S_ISDIR(before.st_mode):  # opening a pipe may block for ever
            raise PluginFilesError([f"file {path}: is not a regular file"])
        stamp = _stamp(before)
        known = self._known.get(path)
        if known is None or known[0] != stamp or self._wall() < before.st_mtime + _RECENT_SECONDS:
            with path.open("rb") as file:
                text = file.read(MAX_BYTES + 1)
            if len(text) > MAX_BYTES:
                raise PluginFilesError([f"file {path}: is larger than {MAX_BYTES >> 20} MiB"])
            known = self._known[path] = stamp, text
        return known[1]


class InstalledFiles:
    """The files of plugins that come from installed packages. Create it before these are loaded: what changes meanwhile
    counts as changed.
    """

    def __init__(self, classes: Iterable[type[Any]] = ()) -> None:
        """`classes`: all plugin classes; Podwright's own are left out."""
        self._stamps: dict[Path, tuple[_Stamp, str]] = {}
        """The stamp of each file when its digest was computed, and the digest."""
        self._running: dict[Path, str] = {}
        """The digest of each file that was loaded. Empty for a file that does not exist."""
        self._logged: dict[Path, str] = {}
        for plugin in classes:
            module = sys.modules.get(plugin.__module__)
            file = getattr(module, "__file__", None)
            if file is not None and not plugin.__module__.startswith(_OWN):
                path = Path(file)
                self._running.setdefault(path, self._digest(path))

    @property
    def paths(self) -> Collection[Path]:
        return self._running.keys()

    async def run(self) -> None:
        """Logs differences until the task is cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for difference in await asyncio.to_thread(self.differences):  # a network file system may be slow
                log.warning("%s", difference)

    def differences(self) -> Sequence[str]:
        """The files that differ from the loaded ones, without those that an earlier call returned."""
        found = []
        for path, running in self._running.items():
            digest = self._digest(path)
            if digest == running:
                self._logged.pop(path, None)
            elif self._logged.get(path) != digest:
                self._logged[path] = digest
                found.append(f"plugin file {path} {_difference(digest)}")
        return found

    def _digest(self, path: Path) -> str:
        """The digest of the file's content; "" if there is no such file. A file that cannot be read counts as
        unchanged.
        """
        known = self._stamps.get(path)
        try:
            stamp = _stamp(path.stat())
            if known is None or known[0] != stamp:
                known = self._stamps[path] = stamp, hashlib.sha256(path.read_bytes()).hexdigest()
        except FileNotFoundError:
            self._stamps.pop(path, None)
            return ""
        except OSError:
            return self._logged.get(path, self._running.get(path, "")) if known is None else known[1]
        return known[1]


def _stamp(stat: os.stat_result) -> _Stamp:
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _difference(digest: str) -> str:
    if not digest:
        return "was deleted, but its plugins run until the operator restarts"
    return "has changed, but the version from the operator's start runs until it restarts"
