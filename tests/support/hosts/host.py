"""A host of the documents: a folder in place of its root directory, its supervisor, and its own loopback address.

`Host.run` runs a command of a document on it. What stands for something on a real host is in `Host.local`.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from podwright.testing import ControlPlane, Process, wait_until

CHECKOUT = Path(__file__).parents[3]
PORT = 10259
"""kube-apiserver asks the scheduler for its health on 127.0.0.1 and this port only."""
ADDRESS = "--bind-address=127.0.0.1"
PROGRAM = "/opt/podwright/bin/podwright"
SUPERVISORD = """\
[unix_http_server]
file=/var/run/supervisor.sock
chmod=0700

[supervisord]
logfile=/var/log/supervisor/supervisord.log
pidfile=/var/run/supervisord.pid
childlogdir=/var/log/supervisor
nodaemon=true

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix:///var/run/supervisor.sock

[include]
files = /etc/supervisor/conf.d/*.conf
"""
"""As Debian's package has it."""


def commands(document: str, section: str = "") -> list[str]:
    """The commands in the indented blocks of a document, or of one of its sections."""
    text = (CHECKOUT / document).read_text()
    if section:
        (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return [line.strip() for line in text.splitlines() if line.startswith("    ")]


@contextmanager
def scheduler_port(timeout: float = 240) -> Iterator[None]:
    """The port 10259 of all loopback addresses, which test runs on this machine use one after the other."""
    with (Path(tempfile.gettempdir()) / f"podwright-port-{PORT}.lock").open("a") as file:
        deadline = time.monotonic() + timeout
        while not _locked(file.fileno()):
            assert time.monotonic() < deadline, f"another test run has used port {PORT} for {timeout:g} s"
            time.sleep(0.2)
        wait_until(lambda: not _listening("127.0.0.1"), 30, f"nothing else listens on port {PORT}")
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _listening(address: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, PORT)) == 0


class Host:
    """See the module. `number` is the last one of its loopback address."""

    def __init__(self, cluster: ControlPlane, folder: Path, number: int, changes: Mapping[str, str]) -> None:
        """`changes`: what to replace in installed files, besides what `local` replaces."""
        self.address = f"127.0.0.{number}"
        self.root = folder / f"host-{number}"
        self.log = self.root / "var/log/podwright/podwright.log"
        self._cluster = cluster
        self._changes = changes
        self._tools = self.root / "tools"
        for name in ("etc/supervisor/conf.d", "var/log/supervisor", "var/run", "tools"):
            (self.root / name).mkdir(parents=True)
        self.give_kubeconfig()
        self.supervisord_conf = self.root / "etc/supervisor/supervisord.conf"
        self.supervisord_conf.write_text(self.local(SUPERVISORD))
        self._tool("supervisorctl", f'{sys.executable} -m supervisor.supervisorctl -c {self.supervisord_conf} "$@"')
        self._tool("kubectl", f'{cluster.binaries.path("kubectl")} --kubeconfig={cluster.kubeconfig} "$@"')
        # There is no systemd to start anything.
        self._tool("systemctl", f'[ "$2" = --now ] && {shutil.which("systemctl")} --root={self.root} "$1" "$3"')

    def _tool(self, name: str, command: str) -> None:
        path = self._tools / name
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o755)

    def give_kubeconfig(self) -> None:
        """The kubeconfig of kube-scheduler's user, where kubeadm has it."""
        path = self.root / "etc/kubernetes/scheduler.conf"
        path.parent.mkdir(exist_ok=True)
        shutil.copy(self._cluster.user_kubeconfig("system:kube-scheduler"), path)

    def local(self, text: str) -> str:
        """The text with the paths of this host's folder, with this Python, this user, and this host's address."""
        text = re.sub(r"(?<![\w.])/(etc|var)/", rf"{self.root}/\1/", text)
        text = text.replace(PROGRAM, f"{sys.executable} -m podwright").replace(
            ADDRESS, f"--bind-address={self.address}"
        )
        return re.sub(r"(user=|User=|-o )podwright\b", rf"\g<1>{getpass.getuser()}", text)

    def run(self, command: str) -> str:
        """Runs a command of a document, and returns what it prints. A file that it installs is adapted to this host
        afterwards.
        """
        environ = {**os.environ, "PATH": f"{self._tools}:{os.environ['PATH']}"}
        done = subprocess.run(
            self.local(command), shell=True, cwd=CHECKOUT, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        target = command.rpartition(" ")[2]
        if command.startswith("install ") and target.endswith((".conf", ".service")):
            path = Path(self.local(target))
            text = self.local(path.read_text())
            for old, new in self._changes.items():
                assert old in text or target.endswith(".service")
                text = text.replace(old, new)
            path.write_text(text)
        return done.stdout

    def start_supervisor(self) -> Process:
        """Starts supervisord, which ends no later than the control plane."""
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(self.supervisord_conf)]
        process = self._cluster.start_process(f"supervisord-{self.address}", command)
        process.wait_ready((self.root / "var/run/supervisor.sock").exists, 30)
        return process

    @property
    def ready(self) -> bool:
        """True if its Podwright is ready."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(f"https://{self.address}:{PORT}/readyz", timeout=5, context=context) as answer:
                return answer.status == 200
        except (urllib.error.HTTPError, OSError):
            return False

    def says(self, text: str) -> bool:
        """True if its Podwright has logged this. supervisor may rename a file meanwhile, so wait for a text that must
        come.
        """
        for path in sorted(self.log.parent.glob("podwright.log*")):
            with suppress(FileNotFoundError):
                if text in path.read_text():
                    return True
        return False
