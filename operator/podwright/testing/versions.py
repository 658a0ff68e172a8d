"""The programs of the control plane, and their pinned versions.

The environment variables `KUBERNETES_VERSION` (for example 1.36.2), `ETCD_VERSION` and `KWOK_VERSION` override the
versions. Read `binaries` next, which finds the programs.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Family = Literal["kubernetes", "etcd", "kwok"]

_VERSION = re.compile(r"v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)")


@dataclass(frozen=True, slots=True)
class Versions:
    """The version of each family of programs, without a leading `v`."""

    kubernetes: str = "1.37.0"
    etcd: str = "3.6.12"
    kwok: str = "0.8.0"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> "Versions":
        """The pinned versions, with the overrides of the environment."""
        environ = os.environ if environ is None else environ
        chosen = {
            family: environ[variable].removeprefix("v")
            for family, variable in _VARIABLES.items()
            if environ.get(variable)
        }
        return cls(**chosen)

    def of(self, family: Family) -> str:
        return {"kubernetes": self.kubernetes, "etcd": self.etcd, "kwok": self.kwok}[family]


_VARIABLES = {"kubernetes": "KUBERNETES_VERSION", "etcd": "ETCD_VERSION", "kwok": "KWOK_VERSION"}


@dataclass(frozen=True, slots=True)
class Program:
    """A program of the control plane: its file name, its Go package, and the arguments that print its version.

    `companions` are files that it needs in its folder. `test_main` is the Go test main to compile instead of `package`.
    """

    name: str
    family: Family
    package: str
    version_arguments: tuple[str, ...] = ("--version",)
    companions: tuple[str, ...] = ()
    test_main: Path | None = None

    def version_of(self, path: Path) -> str | None:
        """The version that the program at `path` prints, None if it prints none or does not run."""
        try:
            done = subprocess.run(
                [path, *self.version_arguments], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = _VERSION.search(done.stdout + done.stderr)
        return found.group(1) if found else None


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Program("etcd", "etcd", "podwright.dev/control-plane"),
        Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
        Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", ("version", "--client")),
        Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
        Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", companions=("stages.yaml",)),
    )
}


def same_minor(version: str, pinned: str) -> bool:
    """Whether two versions differ only in the patch; close enough for an installed program."""
    return version.split(".")[:2] == pinned.split(".")[:2]
