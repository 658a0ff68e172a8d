"""Remembers, beyond a restart, the plugin in which the process hung: it is not used again until its file changes.

    arm ─► the event loop does not run for HANG_SECONDS ─► the stacks go to a file, without the interpreter
        ─► the kubelet kills the process
    restart ─► the innermost plugin of the main thread's stack is remembered
        ─► it starts switched off, or its file is not loaded

Native code that does not return may hold the interpreter's lock, so no Python code can report it: `faulthandler` has a
thread of its own that needs no lock. The files are in a directory that outlives the container, but not the pod: an
emptyDir. So this needs no right on the API server, and a new pod tries the plugin once more.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final

from podwright.core.objects.dataclass import dataclass

log = logging.getLogger(__name__)

HANG_SECONDS: Final = 20
"""After this time without a turn of the event loop, the stacks are written. The liveness probe fails later."""
ARM_SECONDS: Final = 1.0
"""How often the timer is reset."""
MAX_BYTES: Final = 1 << 20
MOST: Final = 100
"""How many versions of files are remembered. The oldest are forgotten first."""
_DUMP: Final = "hang.txt"
_MEMORY: Final = "hung-plugins.json"
_THREAD: Final = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)")
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


@dataclass(frozen=True, slots=True)
class Hang:
    """A version of a plugin file in which the process hung. `at_import`: while it was imported. `where`: the line and
    the function.
    """

    path: str
    digest: str
    where: str
    at_import: bool


class PluginHangs:
    """See the module. Without a directory, it does nothing."""

    def __init__(self, directory: Path | None) -> None:
        """Reads the remembered hangs. Never raises, whatever is in the directory."""
        self._directory = directory
        self._file: IO[str] | None = None
        self._header = 0
        self._known: dict[tuple[str, str], Hang] = {}
        if directory is not None:
            self._read_memory(directory / _MEMORY)
            found = self._read_dump(directory / _DUMP)
            if found is not None:
                self._remember(found)

    def of(self, path: Path, text: bytes) -> Hang | None:
        """The hang in this version of a file; None if there was none."""
        return self._known.get((str(path), _digest(text)))

    # Watching

    def watch(self, texts: Mapping[Path, bytes]) -> None:
        """Watches for hangs in these files. Call `run` to reset the timer."""
        if self._directory is None:
            return
        try:
            if self._file is None:
                self._file = (self._directory / _DUMP).open("w+", encoding="utf-8", errors="replace")
            self._file.seek(0)
            self._file.truncate()
            digests = {str(path): _digest(text) for path, text in texts.items()}
            self._header = self._file.write(
                json.dumps({"thread": threading.main_thread().ident, "files": digests}) + "\n"
            )
            self._file.flush()
            self._arm()
        except (OSError, ValueError) as error:
            self._give_up(error)

    async def run(self) -> None:
        """Resets the timer as long as the event loop runs, until it is cancelled."""
        while True:
            await asyncio.sleep(ARM_SECONDS)
            self.alive()

    def alive(self) -> None:
        """Resets the timer. Call it when the event loop has run."""
        if self._file is None:
            return
        try:
            if self._file.seek(0, 2) > self._header:
                log.warning("the event loop did not run for %d s, but it goes on now", HANG_SECONDS)
                self._file.truncate(self._header)
                self._file.seek(0, 2)
            self._arm()
        except (OSError, ValueError) as error:
            self._give_up(error)

    def _arm(self) -> None:
        assert self._file is not None
        faulthandler.dump_traceback_later(HANG_SECONDS, file=self._file)

    def _give_up(self, error: Exception) -> None:
        log.warning("a plugin that hangs will not be remembered: %s", error)
        self.stop()

    def stop(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            faulthandler.cancel_dump_traceback_later()
            with suppress(OSError, ValueError):  # the disk may be full, and closing writes what is left
                file.close()

    # Remembered hangs

    def _remember(self, hang: Hang) -> None:
        self._known.pop((hang.path, hang.digest), None)
        self._known[hang.path, hang.digest] = hang
        for key in [*self._known][:-MOST]:
            del self._known[key]
        if self._directory is None:
            return
        content = [
            {"path": each.path, "digest": each.digest, "where": each.where, "atImport": each.at_import}
            for each in self._known.values()
        ]
        try:
            path = self._directory / f"{_MEMORY}.new"
            path.write_text(json.dumps(content), encoding="utf-8")
            path.replace(self._directory / _MEMORY)
        except OSError as error:
            log.warning("a plugin that hung cannot be remembered: %s", error)

    def _read_memory(self, path: Path) -> None:
        with suppress(OSError, ValueError, TypeError, KeyError):
            for each in json.loads(_content(path)):
                hang = Hang(str(each["path"]), str(each["digest"]), str(each["where"]), bool(each["atImport"]))
                self._known[hang.path, hang.digest] = hang

    def _read_dump(self, path: Path) -> Hang | None:
        """Returns the hang that the former process dumped, if any. Logs its stacks."""
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            header, _, stacks = _content(path).partition("\n")
            if not stacks.strip():
                return None
            log.error("the former process hung, or was stopped for long, with these stacks:\n%s", stacks)
            known = json.loads(header)
            return _hang_in(stacks, int(known["thread"]), dict(known["files"]))
        return None


def _hang_in(stacks: str, main: int, files: Mapping[str, Any]) -> Hang | None:
    """The innermost plugin of the main thread, or a file that another thread was importing."""
    importing: Hang | None = None
    thread = 0
    for line in stacks.splitlines():
        if (found := _THREAD.match(line)) is not None:
            thread = int(found[1], 16)
        elif (frame := _FRAME.match(line)) is not None and frame[1] in files:
            path, number, function = frame.groups()
            hang = Hang(path, str(files[path]), f"line {number}, in {function}", function == "<module>")
            if thread == main:
                return hang
            if hang.at_import:
                importing = importing or hang
    return importing


def _digest(text: bytes) -> str:
    return sha256(text).hexdigest()


def _content(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MAX_BYTES).decode("utf-8", "replace")
