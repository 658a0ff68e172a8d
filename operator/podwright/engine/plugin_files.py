"""Compares the plugin files on disk with the plugins that run: files are loaded once, when the operator starts.

Whoever changes a file and does not restart the operator would wonder why nothing happens. So each difference is logged, once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0
_OWN: Final = "podwright."
_Stamp = tuple[int, int, int]
"""Changes whenever the file does, and is cheap to read."""


def plugin_paths(directory: Path) -> Sequence[Path]:
    """The files of a plugin directory that are loaded."""
    return [path for path in sorted(directory.glob("*.py")) if not path.name.startswith(("_", "."))]


class PluginFiles:
    """See the module. Create it before the plugins are loaded: a file that changes meanwhile then counts as changed."""

    def __init__(self, directories: Collection[Path]) -> None:
        self._directories = tuple(directories)
        self._stamps: dict[Path, tuple[_Stamp, str]] = {}
        """What the digest of a file was computed from."""
        self._running = {path: self._digest(path) for path in self._paths()}
        """The digest of each file that was loaded. Empty for a file that does not exist."""
        self._logged: dict[Path, str] = {}

    def add(self, classes: Iterable[type[Any]]) -> None:
        """Adds the files of plugins that come from installed packages. Podwright's own plugins are left out."""
        for plugin in classes:
            module = sys.modules.get(plugin.__module__)
            file = getattr(module, "__file__", None)
            if file is not None and not plugin.__module__.startswith(_OWN):
                path = Path(file)
                self._running.setdefault(path, self._digest(path))

    @property
    def empty(self) -> bool:
        """Whether there is nothing to compare."""
        return not self._directories and not self._running

    async def run(self) -> None:
        """Logs differences until it is cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for difference in await asyncio.to_thread(self.differences):  # a network file system may be slow
                log.warning("%s", difference)

    def differences(self) -> Sequence[str]:
        """The differences between the files and what runs that were not returned before."""
        found = []
        for path, digest in self._digests().items():
            running = self._running.get(path, "")
            if digest == running:
                self._logged.pop(path, None)
            elif self._logged.get(path) != digest:
                self._logged[path] = digest
                found.append(f"plugin file {path} {_difference(digest, running)}")
        return found

    def _digests(self) -> Mapping[Path, str]:
        paths = dict.fromkeys((*self._running, *self._logged, *self._paths()))
        return {path: self._digest(path) for path in paths}

    def _paths(self) -> Iterable[Path]:
        return [path for directory in self._directories for path in plugin_paths(directory)]

    def _digest(self, path: Path) -> str:
        """Of the file's content; empty if there is no such file. A file that cannot be read counts as unchanged."""
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
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _difference(digest: str, running: str) -> str:
    if not digest:
        return "was deleted, but its plugins run until the operator restarts"
    if not running:
        return "is new, and not loaded until the operator restarts"
    return "has changed, but the version from the operator's start runs until it restarts"
