"""Forks: child processes that compute something on a frozen copy of everything, while the loop goes on.

A child has the parent's memory as it was at the fork, and shares each page until one of them writes to it. It closes
all connections, so none stays open because of it, gets a lower priority and signals' default actions, and ends
without any clean-up. It ends with its parent, after a time limit, or when the memory that both may use runs short, so
that no limit of the container ends the parent.

Only the thread that forks exists in a child. So a lock that another thread held at the fork stays locked there:
Python, its logging and the allocators open theirs. A child that waits for another one ends by its time limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import signal
import struct
import sys
import warnings
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NoReturn, Protocol

Work = Callable[[], Iterator[bytes]]
"""Computes messages, one after another. In a child nothing of it stays behind."""

CHILD_SECONDS: Final = 60.0
"""How long a child may run."""
WATCH_SECONDS: Final = 0.1
"""How often the memory that is left is looked at."""
RESERVE_BYTES: Final = 64 << 20
"""A child ends when less memory is left."""
NICE: Final = 10
_LENGTH: Final = struct.Struct("!Q")
_PR_SET_PDEATHSIG: Final = 1
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class ChildError(Exception):
    """A child ended before it had computed everything. The message says why."""


class NoChildError(Exception):
    """There is no child now: the system refuses one, or too little memory is left."""


class Children(Protocol):
    """Runs work in a child process. `apart`: whether nothing that the work changes is changed here."""

    apart: bool

    def start(self, work: Work, seconds: float = CHILD_SECONDS) -> AsyncGenerator[bytes, None]:
        """Starts a child at once. Returns the messages of its work, which the caller must read or close. Raises
        NoChildError; reading raises ChildError.
        """


class Forks:
    """See the module."""

    apart = True

    def __init__(self, memory_left: Callable[[], float] | None = None) -> None:
        """`memory_left`: in bytes; by default the container's or the machine's."""
        self._memory_left = memory_left or available_memory
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

    def start(self, work: Work, seconds: float = CHILD_SECONDS) -> AsyncGenerator[bytes, None]:
        """See Children."""
        return self._messages(*self._fork(work, seconds), seconds)

    async def _messages(self, reading: int, pid: int, seconds: float) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        ended = ""

        def stop(why: str) -> None:
            nonlocal ended
            ended = ended or why
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        async def watch() -> None:
            while self._memory_left() >= RESERVE_BYTES:  # noqa: ASYNC110 -- the system tells nobody
                await asyncio.sleep(WATCH_SECONDS)
            stop("there was too little memory left")

        watching = asyncio.create_task(watch(), name="podwright memory of a child")
        limit = loop.call_later(seconds, stop, f"it took more than {seconds:g} s")
        frames = _Frames(loop, reading)
        try:
            while (message := await frames.next()) is not None:
                yield message
            if not frames.complete:
                raise ChildError(ended or "it crashed")
        finally:
            limit.cancel()
            watching.cancel()
            frames.close()
            stop("it is not needed any more")
            _reap(loop, pid)

    def _fork(self, work: Work, seconds: float) -> tuple[int, int]:
        """Returns the file to read from and the child's id. Raises NoChildError."""
        if not hasattr(os, "fork"):
            raise NoChildError("this system has no fork")
        if self._memory_left() < max(2 * RESERVE_BYTES, _resident() / 2):
            raise NoChildError("too little memory is left for a child process")
        reading, writing = os.pipe()
        parent = os.getpid()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: see the module
                pid = os.fork()
        except OSError as error:
            os.close(reading)
            os.close(writing)
            raise NoChildError(f"the system refuses a child process: {error.strerror}") from error
        if pid == 0:
            self._be_child(work, writing, parent, seconds)
        os.close(writing)
        os.set_blocking(reading, False)
        return reading, pid

    def _be_child(self, work: Work, writing: int, parent: int, seconds: float) -> NoReturn:
        try:
            gc.disable()
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            if self._libc is not None:
                self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() != parent:
                    os._exit(1)
            os.nice(NICE)
            limit = int(seconds) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.closerange(3, writing)
            os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
            for message in work():
                _write(writing, message)
            _write(writing, b"")
        except BaseException:  # noqa: BLE001 -- nothing of it may leave the child
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)


class _Frames:
    """The messages that a child writes, each after its length. The last one is empty."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reading: int) -> None:
        self._loop = loop
        self._reading = reading
        self._read = bytearray()
        self._ready: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.complete = False
        loop.add_reader(reading, self._take)

    async def next(self) -> bytes | None:
        """None: there are no more."""
        return await self._ready.get()

    def _take(self) -> None:
        try:
            part = os.read(self._reading, 1 << 20)
        except BlockingIOError:
            return
        self._read += part
        while len(self._read) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._read)
            ends = _LENGTH.size + length
            if len(self._read) < ends:
                break
            if length:
                self._ready.put_nowait(bytes(self._read[_LENGTH.size : ends]))
            else:
                self.complete = True
            del self._read[:ends]
        if not part or self.complete:
            self._loop.remove_reader(self._reading)
            self._ready.put_nowait(None)

    def close(self) -> None:
        self._loop.remove_reader(self._reading)
        os.close(self._reading)


def _write(file: int, message: bytes) -> None:
    left = memoryview(_LENGTH.pack(len(message)) + message)
    while left:
        left = left[os.write(file, left) :]


def _reap(loop: asyncio.AbstractEventLoop, pid: int) -> None:
    """Waits for the end of a child without holding the loop."""
    with contextlib.suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG) == (0, 0) and not loop.is_closed():
            loop.call_later(WATCH_SECONDS, _reap, loop, pid)


def _resident() -> int:
    """The process's resident memory in bytes; 0 if it is not known."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()
    except (OSError, ValueError):
        return 0


_CGROUPS: Final = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", b"inactive_file "),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file "),
)


def available_memory() -> float:
    """Bytes that this process and its children may still use; infinite if that is not known."""
    left = float("inf")
    for folder, most, used, files in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):
            group = Path(folder)
            free = int((group / most).read_bytes()) - int((group / used).read_bytes())
            left = min(left, free + _amount(group / "memory.stat", files))  # the kernel drops old pages of files first
    with contextlib.suppress(OSError, ValueError):
        left = min(left, 1024 * _amount(Path("/proc/meminfo"), b"MemAvailable:"))
    return left


def _amount(file: Path, name: bytes) -> int:
    """The number after `name`. Raises ValueError without one."""
    for line in file.read_bytes().splitlines():
        if line.startswith(name):
            return int(line.removeprefix(name).split()[0])
    raise ValueError(f"{file} has no {name.decode()}")


class InProcess:
    """Computes in this process, and holds it up meanwhile."""

    apart = False

    def start(self, work: Work, seconds: float = CHILD_SECONDS) -> AsyncGenerator[bytes, None]:
        """See Children."""
        return _each([*work()])


async def _each(messages: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    for message in messages:
        yield message
