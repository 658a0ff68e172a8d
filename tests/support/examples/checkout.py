"""A checkout and a host in which the commands of the documents run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.control_plane import operator_process as kit
from support.control_plane.static_pod import STATIC_POD

READ_ONLY = ("manifests", "charts", "crds", "Makefile", "Containerfile", ".ci", "requirements.lock", "operator")


class Checkout:
    """Runs commands in a copy of the checkout, with their own programs first in PATH. `host` stands for
    /etc/kubernetes.
    """

    def __init__(
        self, folder: Path, kubeconfig: Path, programs: Mapping[str, Path], scripts: Mapping[str, str] | None = None
    ) -> None:
        """`programs`: files by command; `scripts`: what a command executes, with its arguments, by command."""
        self.host = folder / "kubernetes"
        self.folder = folder / "checkout"
        own = folder / "bin"
        for each in (own, self.folder, self.host / "manifests"):
            each.mkdir(parents=True)
        for name, program in programs.items():
            (own / name).symlink_to(program)
        for name, command in (scripts or {}).items():
            (own / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (own / name).chmod(0o755)
        for name in READ_ONLY:
            (self.folder / name).symlink_to(kit.CHECKOUT / name)
        (self.host / "manifests" / "kube-scheduler.yaml").write_text(STATIC_POD)
        self._environ = {
            **os.environ,
            "PATH": f"{own}:{os.environ['PATH']}",
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(folder),
            "HELM_CACHE_HOME": str(folder / "helm"),
            "HELM_CONFIG_HOME": str(folder / "helm"),
            "HELM_DATA_HOME": str(folder / "helm"),
        }

    def try_(self, command: str) -> subprocess.CompletedProcess[str]:
        """Runs the command in bash."""
        return subprocess.run(
            ["bash", "-euc", command.replace("/etc/kubernetes", str(self.host))],
            cwd=self.folder,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def __call__(self, command: str) -> str:
        """The output of a command that must succeed."""
        done = self.try_(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout
