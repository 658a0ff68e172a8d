"""Child processes that cannot outlive this process.

A launcher of a few lines of Python asks the kernel to kill it when its parent dies (`PR_SET_PDEATHSIG`), and then
executes the program under the same process id. So even a SIGKILL of the test run leaves no children. To the kernel, the
parent is a *thread*, so one thread, which lives as long as this process, starts all children. This works only on Linux;
elsewhere children end with `stop()` and at a normal exit.
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
from collections import deque
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
patience = 1.0
"""All timeouts of this package are multiplied by this. Tests raise it, because a busy machine must not fail them."""
_PORTS = range(20000, 32000)  # below the ephemeral ports, so that no outgoing connection takes a port during a restart
_MAX_CLAIMS = 64
_claims: deque[socket.socket] = deque()
"""UDP sockets on the ports that were chosen last, the oldest first. A port may be chosen seconds before its server
listens, and no other process that asks for a free one must choose it meanwhile.
"""


class ProcessError(RuntimeError):
    """A child process ended or did not become ready. The message includes the end of its log."""


class Process:
    """A child process with a log file. It can be stopped, killed and restarted with the same command."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self._environ = dict(environ) if environ is not None else None
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process, and appends its output to the log."""
        if self.alive:
            raise ProcessError(f"{self.name} is already running")
        self._child = _spawner.submit(self._spawn).result()
        atexit.register(self.kill)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        environ = dict(os.environ if self._environ is None else self._environ)
        # As in the image, where everything is compiled: to compile the operator's modules at each start would take half
        # of the start's time.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *self.command]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                launcher,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ,
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
        """The exit status, negative for a signal; None while the process runs."""
        return None if self._child is None else self._child.poll()

    def wait(self, timeout: float) -> int:
        """Waits at most `timeout` seconds for the end, and returns the exit status. Raises ProcessError."""
        if self._child is None:
            raise ProcessError(f"{self.name} was never started")
        try:
            return self._child.wait(timeout * patience)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"{self.name} is still running after {timeout:g} s\n{self.log_tail()}") from None

    def stop(self, grace: float = 10.0) -> None:
        """Sends SIGTERM, and after `grace` seconds SIGKILL."""
        if self._child is not None and self.alive:
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(grace * patience)
        self.kill()

    def kill(self) -> None:
        """Sends SIGKILL, and reaps the process."""
        if self._child is not None and self.alive:
            self._child.kill()
        if self._child is not None:
            self._child.wait()
        atexit.unregister(self.kill)

    def pause(self) -> None:
        """Freezes the process (SIGSTOP) until `resume`. To its peers, this looks like a lost network.

        Returns when all its threads have stopped: on a busy machine, some run on for milliseconds after the signal.
        """
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Lets a paused process run on (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def wait_ready(self, ready: Callable[[], bool], timeout: float) -> None:
        """Waits at most `timeout` seconds until `ready()`. Raises ProcessError, also if the process ends first."""
        deadline = time.monotonic() + timeout * patience
        while not ready():
            if not self.alive:
                raise ProcessError(f"{self.name} ended with status {self.returncode}\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name} was not ready after {timeout:g} s\n{self.log_tail()}")
            time.sleep(0.05)

    def log_tail(self, lines: int = 15) -> str:
        """The end of the log; the last line is the path of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([*text.splitlines()[-lines:], f"(the log is {self.log})"])


def free_port() -> int:
    """An unused TCP port on loopback, which no other process that calls this gets for a while."""
    for port in random.sample(_PORTS, len(_PORTS)):
        claim = socket.socket(type=socket.SOCK_DGRAM)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                claim.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
        _claims.append(claim)
        if len(_claims) > _MAX_CLAIMS:
            _claims.popleft().close()
        return port
    raise ProcessError("no free port on loopback")


@atexit.register
def _drop_claims() -> None:
    while _claims:
        _claims.popleft().close()
