"""Child processes that cannot outlive us.

A child is started through a few lines of Python that ask the kernel to kill it when its parent dies (`PR_SET_PDEATHSIG`)
and then become the program itself, so that its process id is the program's and even a SIGKILL of the test run leaves nothing behind.
The kernel means the parent *thread*: hence all children are started from one thread, which lives as long as this process.
That is Linux; elsewhere children end with `stop()` and at a normal exit.
"""

import atexit
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_LAUNCHER = """
import ctypes, os, sys
parent = int(sys.argv[1])
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != parent:
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="podwright-spawner")
_PORTS = range(
    20000, 32000
)  # below what the kernel gives to outgoing connections, which would take a port while we restart


class ProcessError(RuntimeError):
    """A child process ended or did not get ready; the message carries the end of its log."""


class Process:
    """A child process with a log file, which can be stopped, killed and started again with the same command."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self._environ = dict(environ) if environ is not None else None
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its output is appended to the log."""
        if self.alive:
            raise ProcessError(f"{self.name} runs already")
        self._child = _spawner.submit(self._spawn).result()
        atexit.register(self.kill)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *self.command]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                launcher,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environ,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        if self._child is None:
            raise ProcessError(f"{self.name} was never started")
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit status once it has ended, negative for a signal; None before."""
        return None if self._child is None else self._child.poll()

    def wait(self, timeout: float) -> int:
        """Wait for its end, at most `timeout` seconds, and return the exit status. Raises ProcessError."""
        if self._child is None:
            raise ProcessError(f"{self.name} was never started")
        try:
            return self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"{self.name} still runs after {timeout:g} s\n{self.log_tail()}") from None

    def stop(self, grace: float = 10.0) -> None:
        """Ask it to end (SIGTERM), and after `grace` seconds make it."""
        if self._child is not None and self.alive:
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(grace)
        self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL) and reap it."""
        if self._child is not None and self.alive:
            self._child.kill()
        if self._child is not None:
            self._child.wait()
        atexit.unregister(self.kill)

    def pause(self) -> None:
        """Freeze it (SIGSTOP) until `resume`: to the others it looks like a lost network."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wait_ready(self, ready: Callable[[], bool], timeout: float) -> None:
        """Wait until `ready()`, at most `timeout` seconds. Raises ProcessError, also when it ends meanwhile."""
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.alive:
                raise ProcessError(f"{self.name} ended with status {self.returncode}\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name} was not ready after {timeout:g} s\n{self.log_tail()}")
            time.sleep(0.05)

    def log_tail(self, lines: int = 15) -> str:
        """The end of its log, and where it is."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([*text.splitlines()[-lines:], f"(the log is {self.log})"])


def free_port() -> int:
    """A TCP port on loopback that nothing listens on."""
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise ProcessError("no free port on loopback")
