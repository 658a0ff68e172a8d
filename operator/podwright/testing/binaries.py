"""Finds the control plane's programs on this machine.

It searches `KUBEBUILDER_ASSETS` (any version, unless the environment chooses one), then `PATH` (only the same minor
version, because a distribution's kubectl can be years old), then the cache. Last, it builds the program with Go. Read
`build` next.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from podwright.testing import build as builder
from podwright.testing.versions import PROGRAMS, Executable, Versions, same_minor


class BinariesMissingError(RuntimeError):
    """A program is not on this machine and cannot be built. The message is one line."""


class Binaries:
    """Paths of programs by name. Each program is searched for once."""

    def __init__(self, versions: Versions | None = None, report: builder.Report = builder.report_to_stderr) -> None:
        self.versions = versions or Versions.from_environ()
        self.report = report
        self._found: dict[str, Path] = {}

    def find(self, name: str) -> Path | None:
        """The path of a program, None if it has to be built."""
        if name not in self._found:
            path = self._search(PROGRAMS[name])
            if path is None:
                return None
            self._found[name] = path
        return self._found[name]

    def path(self, name: str) -> Path:
        """The path of a program. Builds it if necessary, which takes minutes. Raises BinariesMissingError and
        BuildError.
        """
        path = self.find(name)
        if path is None:
            self.require([name])
            path = self._found[name] = builder.build(PROGRAMS[name], self.versions, self.report)
        return path

    def require(self, names: Iterable[str]) -> None:
        """Raises BinariesMissingError if a program is missing and cannot be built."""
        missing = [name for name in names if self.find(name) is None]
        if missing and builder.go_command() is None:
            raise BinariesMissingError(
                f"{', '.join(missing)} not found in KUBEBUILDER_ASSETS, PATH and {builder.cache_folder()}, "
                "and there is no Go to build with"
            )

    def _search(self, program: Executable) -> Path | None:
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        if assets and builder.complete(path := Path(assets) / program.name, program):
            chosen = program.family in self.versions.chosen
            if not chosen or self._is_wanted(path, program):
                return path
        installed = shutil.which(program.name)
        if installed and builder.complete(path := Path(installed), program) and self._is_wanted(path, program):
            return path
        path = builder.family_folder(program.family, self.versions) / program.name
        return path if builder.complete(path, program) else None

    def _is_wanted(self, path: Path, program: Executable) -> bool:
        version = program.version_of(path)
        return version is not None and same_minor(version, self.versions.of(program.family))
